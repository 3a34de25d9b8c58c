"""Runs whose models several files of tests read, made once a process; none of them is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trained_models import OPEN, SCHEMA, trained_on_people, unseeded_census


@pytest.fixture(scope="session")
def census_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unseeded_census(tmp_path_factory.mktemp("census"))


@pytest.fixture(scope="session")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its agents have models that differ."""
    return trained_on_people(tmp_path_factory.mktemp("people"), schema=SCHEMA, answer="last")


@pytest.fixture(scope="session")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_on_people(tmp_path_factory.mktemp("open"), schema=OPEN, positive="yes")
