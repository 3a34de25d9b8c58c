"""Finished folders at the smallest scale, shared by all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from admmnet.papers import Reproduced, Request, reproduce

Made = Callable[[str], Reproduced]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The finished folder of a paper; tests leave it as it is."""

    @cache
    def find(paper: str) -> Reproduced:
        root = tmp_path_factory.mktemp(paper)
        return reproduce(Request(paper, str(root / "out"), scale="tiny", data_dir=str(root)), jobs=1)

    return find
