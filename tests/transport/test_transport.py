from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from admmnet.errors import RequestError
from admmnet.transport import World, launched_size, open_world

from .conformance import CHECKS

LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_local_conforms(check: Callable[[World], None]) -> None:
    check(World())


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, 1),
        ({"PMI_RANK": "0", "PMI_SIZE": "5"}, 5),
        ({"PMIX_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 4),
        ({"PMIX_RANK": "0"}, 2),  # gives no size: MPI must be asked
        ({"PMI_SIZE": "many"}, 1),
    ],
)
def test_local_is_refused_under_a_launcher(
    environment: dict[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert launched_size() == size
    if size == 1:
        assert open_world("auto").name == open_world("local").name == "local"
    else:
        with pytest.raises(RequestError, match=rf"--transport local runs in one process.*started {size}"):
            open_world("local")


def test_ranks_that_do_not_see_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = SimpleNamespace(size=1, rank=0, library="Other MPI 1.0")
    monkeypatch.setitem(sys.modules, "admmnet.transport.mpi", SimpleNamespace(MPIWorld=lambda: alone))
    assert open_world("mpi").size == 1
    monkeypatch.setenv("PMI_SIZE", "5")
    with pytest.raises(RequestError, match=r"started 5 processes that do not see each other.*Other MPI 1.0"):
        open_world("auto")
