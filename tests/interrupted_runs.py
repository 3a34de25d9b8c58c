"""Runs that are interrupted after a round and resumed, and when two run folders count as the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, run
from admmnet.running.checkpoint.resume import resumed_config
from tests import people_runs
from tests.people_runs import Stop, stopping, summary_of

ROUNDS = 7


class Place:
    """Where a test's records and runs are."""

    def __init__(self, folder: Path, data: str = "people.npz") -> None:
        self.folder, self.data = folder, folder / data

    def config(self, name: str, **settings: Any) -> RunConfig:
        values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:4", "rounds": ROUNDS, "seed": 3}
        values |= {"epsilon": 5.0, "delta": 1e-4, "out": str(self.folder / name), "data": str(self.data)}
        values |= settings
        if values["seed"] is None:
            values |= {"no_test": True, "no_account": "account" not in settings}
        if "account" in settings:
            values["account"] = str(self.folder / settings["account"])
        return RunConfig(**values)

    def whole(self, name: str, **settings: Any) -> Path:
        return run(self.config(name, **settings)).folder

    def interrupted(self, name: str, after: int, **settings: Any) -> Path:
        """Run up to the end of a round, and no further."""
        every = settings.pop("checkpoint_every", 2)
        with pytest.raises(Stop):
            run(self.config(name, checkpoint_every=every, **settings), on_round=stopping(after))
        return self.folder / name

    def resume(self, folder: Path, **settings: Any) -> Path:
        return run(resumed_config(folder, settings)).folder


def write_people(path: Path, seed: int = 2) -> None:
    people_runs.write_people(path, 160, seed, width=3, noise=0.5)


def assert_same(left: Path, right: Path) -> None:
    """Two run folders agree in every byte, but for seconds and for what the settings call the checkpoints."""
    for name in sorted(file.relative_to(left) for file in left.rglob("*") if file.is_file()):
        if name.parts[0] == "checkpoint" or name.name in ("config.toml", "manifest.json"):
            continue
        if name.name == "summary.json":
            mine, theirs = summary_of(left), summary_of(right)
            for summary in (mine, theirs):
                assert summary.pop("seconds")
                summary["privacy"].pop("account")
                summary["versions"].pop("networkx", None)  # there if anything in this process has loaded it
            assert mine == theirs
        else:
            assert (left / name).read_bytes() == (right / name).read_bytes(), name
    assert (left / "summary.json").exists()
    ledgers = [len(list((folder / "ledger").iterdir())) for folder in (left, right)]
    assert ledgers[0] == ledgers[1] > 0


GATED = {"algorithm": "ipp-admm", "gate": "gaussian"}
METHODS: dict[str, dict[str, Any]] = {
    "admm": {"algorithm": "admm"},
    "pp-admm": {},
    "output": {"release": "output"},
    "published": {"method": "published"},
    "above-threshold": GATED | {"gate": "above-threshold", "max_releases": 4, "epsilon": 50.0},
    "gaussian": GATED,
    "joining": {"algorithm": "ipp-admm", "split": "sizes:16:1:18:16", "gate_threshold": 0.25, "epsilon": 20.0},
    "ipp published": {"algorithm": "ipp-admm", "method": "published"},
    "dvp": {"algorithm": "dvp"},
    "m-admm": {"algorithm": "m-admm"},
    "r-admm": {"algorithm": "r-admm"},
    "noisy-gd": {"algorithm": "noisy-gd"},
    "dp-dsgd": {"algorithm": "dp-dsgd", "clip_norm": 0.3},
    "noisy-gd in trouble": {"algorithm": "noisy-gd", "drop": 0.3, "offline": "1:2-4"},
    "tail": {"answer": "tail"},
    "hinge": {"loss": "smoothed-hinge"},
    "account": {"account": "account"},
    "blocks": GATED | {"topology": "ring:10", "block": 4},
    "blocks admm": {"algorithm": "admm", "topology": "ring:10", "block": 4},
    "trouble": {"drop": 0.3, "offline": "1:2-4"},
    "trouble r-admm": {"algorithm": "r-admm", "drop": 0.3, "offline": "1:2-4"},
}
