"""What tests of processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .warm import kill_all


@pytest.fixture(autouse=True)
def _none_outlives_its_test() -> Iterator[None]:
    yield
    kill_all()
