"""Same seed, same data: the same run on every transport and for every number of ranks, bit for bit.

As a program, of any number of ranks: ``SETTINGS.json FOLDER``, runs one after another.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, load_config, read_run, run
from admmnet.transport import open_world
from tests.people_runs import summary_of, write_people
from tests.wide_files import write_wide

from .launch import mpirun

pytestmark = pytest.mark.processes
TURNS = "0 edges 0-1 2-3\n1 edges 1-2 3-4\n2 ring:5\nrepeat 3\n"
PUBLISHED: dict[str, Any] = {"method": "published"}
STORM: dict[str, Any] = {"drop": 0.3, "offline": "3:2-4,1:5-", "rounds": 8}
IN_TURNS: dict[str, Any] = {"topology": None, "topology_schedule": "turns.txt"}
MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
WIDE_FILE: dict[str, Any] = {"data": "wide.libsvm"}
"""Rows stay sparse."""
ENCODED: dict[str, Any] = {"encode": "private", "whiten": "on", "epsilon": 100.0}
"""Bounds, shapes and moments are measured first."""
JOINING: dict[str, Any] = {"split": "sizes:16:1:16:1:18", "gate_threshold": 0.25}
"""The core is 0, 2 and 4; on the ring 1 or 3 relays between them, the other listens, both are asked."""
MANY: dict[str, Any] = {"agents": 20, "topology": "erdos-renyi:20:0.3", "split": "zipf:0.5"}
SETTINGS: dict[str, dict[str, Any]] = {
    "admm": {"algorithm": "admm", "answer": "tail"},
    "pp-admm": {"algorithm": "pp-admm"},
    "pp-admm measured now and then": {"algorithm": "pp-admm", "measure_every": 3, "rounds": 6},
    "published pp-admm": {"algorithm": "pp-admm", "answer": "last", **PUBLISHED},
    "dvp": {"algorithm": "dvp"},
    "m-admm": {"algorithm": "m-admm"},
    "r-admm": {"algorithm": "r-admm"},
    "noisy-gd in a storm": {"algorithm": "noisy-gd", **STORM},
    "dp-dsgd in a storm": {"algorithm": "dp-dsgd", "clip_norm": 0.3, **STORM},
    "lt-admm in a storm": {"algorithm": "lt-admm", "local_steps": 2, **STORM},
    "masked noisy-gd in a storm": {"algorithm": "noisy-gd", **MASKED, **STORM},
    "masked ssp": {"algorithm": "ssp", "rounds": 1, **MASKED, "colluders": 3},
    # the gate lets some vectors pass and holds others back: silence is a message, too
    "ipp-admm": {"algorithm": "ipp-admm", "gate": "gaussian", "max_releases": 3},
    "joining ipp-admm": {"algorithm": "ipp-admm", **JOINING},
    "joining ipp-admm in a storm": {"algorithm": "ipp-admm", **JOINING, **STORM},
    "output pp-admm": {"algorithm": "pp-admm", "release": "output"},
    "held ipp-admm": {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": 0.01},
    "published ipp-admm": {"algorithm": "ipp-admm", "max_releases": 3, **PUBLISHED},
    "tree sum": {"algorithm": "tests.tree_sum:TreeSum"},
    "encoded masked noisy-gd": {"algorithm": "noisy-gd", **MASKED, **ENCODED},
    "encoded noisy-gd in a storm": {"algorithm": "noisy-gd", **ENCODED, **STORM},
    "wide ipp-admm in a storm": {
        "algorithm": "ipp-admm",
        "gate": "gaussian",
        "gate_threshold": 0.05,
        **WIDE_FILE,
        **STORM,
    },
    "wide noisy-gd": {"algorithm": "noisy-gd", **WIDE_FILE},
    # in one process and two by rows, in five agent by agent
    "pp-admm by rows": {"algorithm": "pp-admm", **MANY},
    "pp-admm in a storm": {"algorithm": "pp-admm", **STORM},
    "ipp-admm in a storm, turns": {"algorithm": "ipp-admm", "gate": "gaussian", **STORM, **IN_TURNS},
    "r-admm in a storm, turns": {"algorithm": "r-admm", **STORM, **IN_TURNS},
    "tree sum in a storm": {"algorithm": "tests.tree_sum:TreeSum", **STORM},
    "tree sum in a storm, turns": {"algorithm": "tests.tree_sum:TreeSum", **STORM, **IN_TURNS},
}
GATED = ("ipp-admm", "published ipp-admm", "joining ipp-admm")


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """All settings, with records and graphs in this folder."""
    people, wide, turns = write_people(folder / "people.npz"), write_wide(folder / "wide.libsvm"), folder / "turns.txt"
    turns.write_text(TURNS, encoding="utf-8")
    common = {"data": people, "agents": 5, "topology": "ring:5", "rounds": 4, "epsilon": 20.0, "seed": 3}
    found = {name: common | values for name, values in SETTINGS.items()}
    for values in found.values():
        values |= {"topology_schedule": str(turns)} if values.get("topology_schedule") else {}
        values |= {"data": wide} if values["data"] == "wide.libsvm" else {}
    return found


def run_all(settings: dict[str, dict[str, Any]], folder: Path) -> None:
    """Run every setting into the folder of its name; what is returned is the same at every process."""
    world = open_world()
    for name, values in settings.items():
        result = run(RunConfig(**values, out=str(folder / name)), world=world)
        summary = json.dumps(result.summary, sort_keys=True).encode()
        said = hashlib.sha256(summary + result.theta.tobytes()).hexdigest()
        assert set(world.gather(said)) == {said}, name


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_all(settings_of(folder := tmp_path_factory.mktemp("local")), folder)
    return folder


def model(folder: Path) -> dict[str, Any]:
    with np.load(folder / "model.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def ledgers(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ledger").iterdir())}


def assert_same(one: Path, two: Path) -> None:
    first, second = model(one), model(two)
    assert sorted(first) == sorted(second) == ["consensus", "feature_names", "theta"]
    for name, values in first.items():
        assert (values.dtype, values.tobytes()) == (second[name].dtype, second[name].tobytes()), name
    assert ledgers(one) == ledgers(two)
    assert (one / "metrics.csv").read_bytes() == (two / "metrics.csv").read_bytes()
    varies = ("transport", "seconds", "frames", "versions")  # versions: of what a process has imported
    summaries = [{k: v for k, v in summary_of(folder).items() if k not in varies} for folder in (one, two)]
    assert summaries[0] == summaries[1]
    read_run(two)


def test_the_runs_are_no_trivial_ones(local: Path) -> None:
    for name in SETTINGS:
        assert model(local / name)["theta"].any(), name
        assert len(ledgers(local / name)) == SETTINGS[name].get("agents", 5)
    for name in GATED:
        releases = [entry["releases"] for entry in summary_of(local / name)["per_agent"]]
        assert 0 < sum(releases) < 5 * 4, name


@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_equal_one_process(ranks: int, local: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings_of(local)), encoding="utf-8")
    ended = mpirun(ranks, "-m", "tests.processes.test_everywhere", str(file), str(tmp_path), deadline=120.0)
    assert ended.code == 0, ended.err
    for name in SETTINGS:
        assert summary_of(tmp_path / name)["transport"] == "mpi"
        assert_same(local / name, tmp_path / name)


@pytest.mark.parametrize("name", ["joining ipp-admm", "r-admm in a storm, turns", "tree sum in a storm"])
def test_zmq_equals_one_process(name: str, local: Path, tmp_path: Path) -> None:
    values, folder = settings_of(local)[name] | {"transport": "zmq", "heartbeat_deadline": 20.0}, tmp_path / "run"
    rounds, started = list[int](), list[Any]()
    result = run(
        RunConfig(**values, out=str(folder)), on_start=started.append, on_round=lambda event: rounds.append(event.round)
    )
    assert_same(local / name, folder)
    assert result.theta.tobytes() == model(local / name)["theta"].tobytes()
    (plan,) = started
    assert (plan.config.algorithm, len(plan.graph)) == (values["algorithm"], 5)
    assert rounds == list(range(values["rounds"]))
    assert (result.summary["transport"], result.summary["frames"]) == ("zmq", {"dropped": 0})
    assert load_config(local / name / "config.toml").topology == load_config(folder / "config.toml").topology


if __name__ == "__main__":
    run_all(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
