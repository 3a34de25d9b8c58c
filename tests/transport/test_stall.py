"""Waits in MPI that are too long, by a clock that the test moves."""

from __future__ import annotations

import pytest

from admmnet.transport.stall import Stall


def test_a_wait_ends_the_process_behind_the_deadline_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Each wait has a time of its own, and computing is none."""
    now, ends = [0.0], list[int]()
    stall = Stall(lambda: now[0], ends.append)
    stall.deadline = 50.0

    def look(at: float) -> None:
        now[0] = at
        stall.look("rank 3 on node-b")

    with stall:
        look(50.0)
    look(500.0)
    with stall:
        look(549.0)
    with stall:
        look(590.0)
        assert (ends, capsys.readouterr().err) == ([], "")
        look(600.0)
    assert ends == [3]
    told = capsys.readouterr().err
    assert told.startswith("admmnet: rank 3 on node-b ends: it has waited in MPI for 50 s; another rank or its host")
    assert told.endswith("or needs a longer --round-deadline\n")
