"""Runs that are interrupted after a round and resumed, and when two run folders count as the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.rng import Purpose
from admmnet.running import loop
from admmnet.running.arguments import resumed_config
from admmnet.running.rounds import Rounds
from admmnet.types import BEFORE
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
        if "account" in settings:
            values |= {"account": str(self.folder / settings["account"]), "seed": None}
        if values["seed"] is None:
            values |= {"no_test": True, "no_account": "account" not in settings}
        return RunConfig(**values)

    def whole(self, name: str, **settings: Any) -> Path:
        return run(self.config(name, **settings)).folder

    def interrupted(self, name: str, after: int, **settings: Any) -> Path:
        """Run up to the end of a round, and no further."""
        with pytest.raises(Stop):
            run(self.config(name, **settings), on_round=stopping(after))
        return self.folder / name

    def resume(self, folder: Path, **settings: Any) -> Path:
        return run(resumed_config(folder, settings)).folder


class FixedStreams(dict[Purpose, np.random.Generator]):
    """Noise of an agent that its number, the purpose and the round fix, in whichever process it is drawn."""

    round = BEFORE

    def __init__(self, agent: int, seed: int | None) -> None:
        self._agent, self._made = agent, dict[tuple[Purpose, int], np.random.Generator]()

    def __getitem__(self, purpose: Purpose) -> np.random.Generator:
        now = self.round
        return self._made.setdefault((purpose, now), np.random.default_rng([self._agent, purpose, now - BEFORE]))


def fix_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs without a seed draw what agent, purpose and round say, so that two of them can be compared."""
    real = Rounds.run

    def run_round(own: Rounds, round: int, **how: Any) -> bool:
        FixedStreams.round = round
        return real(own, round, **how)

    monkeypatch.setattr(Rounds, "run", run_round)
    monkeypatch.setattr(loop, "AgentStreams", FixedStreams)


def write_people(path: Path, seed: int = 2) -> None:
    people_runs.write_people(path, 160, seed, width=3, noise=0.5)


def assert_same(left: Path, right: Path) -> None:
    """Two run folders agree in every byte, but for seconds, and for notes that one of them was interrupted."""
    for name in sorted(file.relative_to(left) for file in left.rglob("*") if file.is_file()):
        if name.name in ("config.toml", "manifest.json"):
            continue
        if name.name == "summary.json":
            mine, theirs = summary_of(left), summary_of(right)
            for summary in (mine, theirs):
                assert summary.pop("seconds")
                summary["privacy"].pop("account")
                for loaded in ("networkx", "dp-accounting", "numba"):  # there if anything in this process has loaded it
                    summary["versions"].pop(loaded, None)
                notes = summary["notes"]
                summary["notes"] = [note for note in notes if not note.startswith("the run was interrupted")]
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
