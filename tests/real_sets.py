"""Real data sets, in the folder that ADMMNET_DATA names; tests that need one are skipped where it is not there."""

from __future__ import annotations

import pytest

from admmnet.data.files import ENVIRONMENT as ENVIRONMENT
from admmnet.data.files import data_folder

GIVEN = data_folder(None)
"""Read before tests/conftest.py takes the variable away."""
FOLDER = GIVEN.resolve() if GIVEN is not None and GIVEN.is_dir() else None
REASON = f"{ENVIRONMENT} names no folder with the real data set that this test reads"


def held(path: str) -> bool:
    """Whether the folder of the real sets has this file or folder."""
    return FOLDER is not None and (FOLDER / path).exists()


def need(*paths: str) -> str:
    """Return the folder of the real sets; skip the test unless all of these files and folders are in it."""
    if not all(map(held, paths)):
        pytest.skip(REASON)
    return str(FOLDER)


def folder_of(data: str) -> str | None:
    """Return the folder that a set is read from, None for `census`, which no file holds."""
    return None if data == "census" else need(data.partition(":")[0])
