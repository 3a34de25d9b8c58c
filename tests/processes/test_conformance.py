from __future__ import annotations

import pytest

from .launch import mpirun

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_mpi_conforms(ranks: int) -> None:
    ended = mpirun(ranks, "-m", "tests.transport.conformance")
    assert ended.code == 0, ended.err
    assert f"checks hold on {ranks} ranks of mpi" in ended.out
