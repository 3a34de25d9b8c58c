"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_sets import ENVIRONMENT


@pytest.fixture(scope="session", autouse=True)
def cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tables of public sets apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def real_sets_only_where_asked_for() -> Iterator[None]:
    """Take the variable away: a test that reads real sets passes their folder on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENVIRONMENT, raising=False)
        yield
