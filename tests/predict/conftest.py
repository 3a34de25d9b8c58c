"""Runs whose models several files of tests read, made once a process; none of them is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trained_models import SCHEMA, trained, trained_on_people


@pytest.fixture(scope="session")
def census_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation with secret noise."""
    how: dict[str, Any] = {"rounds": 2, "seed": None, "data_seed": 4, "test_fraction": 0.2, "answer": "last"}
    folder = tmp_path_factory.mktemp("census") / "run"
    return trained(folder, algorithm="pp-admm", topology="path:3", loss="logistic", **how)


@pytest.fixture(scope="session")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its agents have models that differ."""
    return trained_on_people(tmp_path_factory.mktemp("people"), schema=SCHEMA, answer="last")


@pytest.fixture(scope="session")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of its columns were read from the rows."""
    columns = {"age": {"kind": "numeric"}, "ward": {"kind": "categorical"}}
    schema = {"label": "sick", "drop": ["id"], "columns": columns}
    return trained_on_people(tmp_path_factory.mktemp("open"), schema=schema, positive="yes")
