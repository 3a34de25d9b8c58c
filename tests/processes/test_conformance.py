from __future__ import annotations

from pathlib import Path

import pytest

from tests.transport.conformance import CHECKS

from .launch import mpirun
from .zmq_crew import Crew, complete

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_mpi_conforms(ranks: int) -> None:
    ended = mpirun(ranks, "-m", "tests.transport.conformance")
    assert ended.code == 0, ended.err
    assert f"checks hold on {ranks} ranks of mpi" in ended.out


@pytest.mark.parametrize(("size", "curve"), [(1, False), (2, True), (3, False), (4, True), (5, False)])
def test_zmq_conforms(size: int, curve: bool, tmp_path: Path) -> None:
    with Crew(tmp_path, complete(size), size, curve=curve, anew=size == 4, job="conformance") as crew:
        codes = crew.start().finish()
        assert set(codes.values()) == {0}, crew.report()
        for member in crew.members.values():
            assert member.said("conforms") == [len(CHECKS)]
            (counts,) = member.said("counts")
            # whoever runs ahead is early; nothing else goes wrong on lines that hold
            assert {reason: count for reason, count in counts.items() if count and reason != "early"} == {}
