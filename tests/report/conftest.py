"""Small runs that the tests of reports and pictures share; nobody changes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_folders import made


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("seeded") / "run")


@pytest.fixture(scope="session")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("private") / "run", seed=None, epsilon=1.0, delta=1e-6)
