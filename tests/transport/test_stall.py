"""Waits in MPI that are too long, by a clock that the test moves."""

from __future__ import annotations

import pytest

from admmnet.transport.stall import Stall


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_ends_the_process_behind_the_deadline_alone(capsys: pytest.CaptureFixture[str]) -> None:
    clock, ends = Clock(), list[int]()
    stall = Stall(clock, ends.append)
    stall.deadline = 50.0
    with stall:
        clock.now = 50.0
        stall.look("rank 3 on node-b")
    clock.now = 500.0  # it computes
    stall.look("rank 3 on node-b")
    with stall:
        clock.now = 549.0
        stall.look("rank 3 on node-b")
    with stall:  # another wait, with a time of its own
        clock.now = 590.0
        stall.look("rank 3 on node-b")
        assert (ends, capsys.readouterr().err) == ([], "")
        clock.now = 600.0
        stall.look("rank 3 on node-b")
    assert ends == [3]
    assert capsys.readouterr().err == (
        "admmnet: rank 3 on node-b ends: it has waited in MPI for 50 s; another rank or its host has died, "
        "or needs a longer --round-deadline\n"
    )
