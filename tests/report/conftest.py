"""Small runs of every kind that the tests of reports and pictures share; nobody changes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.people_runs import write_people
from tests.run_folders import made, part_of, unfinished, with_away

ONE_PLACE: dict[str, Any] = {"topology": None, "rounds": None, "epochs": 3}
RUNS: dict[str, dict[str, Any]] = {
    "seeded": {"offline": "3:1-2,4:4-", "split": "zipf:1.5"},
    "published": {"algorithm": "ipp-admm", "method": "published", "rounds": 12, "max_releases": 3},
    "private": {"seed": None, "epsilon": 1.0, "delta": 1e-6},
    "open": {"algorithm": "admm", "epsilon": None},
    "baseline": {"algorithm": "primal-dp-scd", "method": "published", **ONE_PLACE},
    "many": {"topology": "ring:160", "epsilon": 50.0, "regularisation": 30.0, "rounds": 3},
    "one round": {"rounds": 1},
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    data = write_people(root / "people.npz", 2000)
    found = {name: made(root / name, data=data, **settings) for name, settings in RUNS.items()}
    found["unfinished"] = unfinished(found["seeded"], root / "unfinished", rounds=3, agents=5)
    found["away"] = with_away(found["seeded"], root / "away", agent=1, round=3)
    found["part"] = part_of(found["published"], root / "part", agent=2, agents=5)
    return found


@pytest.fixture
def seeded(folders: dict[str, Path]) -> Path:
    return folders["seeded"]


@pytest.fixture
def private(folders: dict[str, Path]) -> Path:
    return folders["private"]
