"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import interrupted_runs
from tests.command_runs import Admmnet
from tests.people_runs import write_people
from tests.real_sets import ENVIRONMENT

NIGHTLY = "ADMMNET_NIGHTLY"
LONG = Path(__file__).with_name("nightly.txt").read_text(encoding="utf-8").split("\n")[:-1]
"""Long cases whose like every change tries: left to the night, where the variable is set (launch/nightly.sh)."""


gc.disable()  # while tests are collected: they all stay


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long = {f"tests/{name}" for name in LONG}
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.nightly)
            if NIGHTLY not in os.environ:
                item.add_marker(pytest.mark.skip(reason=f"long: set {NIGHTLY}=1"))
    mix(items)


def mix(items: list[pytest.Item]) -> None:
    """Spread the files of processes over the first 9/10: else workers compete for the machine, then all wait."""
    waiting = {item.path for item in items if item.get_closest_marker("processes")}
    place: dict[Path, float] = {}
    for waits, share in ((True, 0.9), (False, 1.0)):
        own = list(dict.fromkeys(item.path for item in items if (item.path in waiting) == waits))
        place |= {path: share * number / len(own) for number, path in enumerate(own)}
    items.sort(key=lambda item: place[item.path])  # those of a file stay together, in their order


@pytest.fixture(scope="session", autouse=True)
def variables_only_where_asked_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep downloaded sets apart from the user's, and take variables away.

    A test that reads real sets passes their folder on. pytest-xdist sets a width of lines, and so does readline, which
    pytest may have loaded, behind the back of ``os.environ``: children alone see that.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv(ENVIRONMENT, raising=False)
        patch.delenv("COLUMNS", raising=False)
        os.unsetenv("COLUMNS")  # readline sets it for other processes alone
        yield


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    """File of 200 made people."""
    return write_people(tmp_path_factory.mktemp("data") / "people.npz", 200)


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the test is the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> interrupted_runs.Place:
    """Where runs are interrupted and resumed."""
    interrupted_runs.write_people(tmp_path / "people.npz")
    return interrupted_runs.Place(tmp_path)


@pytest.fixture
def admmnet(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    """The command line in this process."""
    return Admmnet(capsys)
