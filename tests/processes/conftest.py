"""What tests of processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import Browser, browser
from .warm import kill_all


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(autouse=True)
def _none_outlives_its_test() -> Iterator[None]:
    yield
    kill_all()
