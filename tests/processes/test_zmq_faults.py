"""What goes wrong between processes on purpose, and who is named for it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from .zmq_crew import QUICK, Crew, complete, deadlines, path

pytestmark = pytest.mark.processes

RING = [[0, 1], [1, 2], [2, 3], [0, 3]]
SLOW = 4.0
"""Seconds that a busy machine may add to a deadline."""
WAIT: dict[str, Any] = {"acts": {"2": [["wait"]]}}
"""Before round 2 a process waits for its test, and does not look at its links."""


def counts(crew: Crew, rank: int) -> dict[str, int]:
    (found,) = crew.members[rank].said("counts")
    return {reason: count for reason, count in found.items() if count and reason != "early"}


@pytest.mark.parametrize(
    ("how", "curve"), [(signal.SIGKILL, True), (signal.SIGSTOP, False)], ids=["killed-curve", "stopped-ipc"]
)
def test_a_dead_agent_is_named_within_the_heartbeat_deadline(how: signal.Signals, curve: bool, tmp_path: Path) -> None:
    with Crew(tmp_path, RING, 4, curve=curve, own={2: WAIT}) as crew:
        crew.at_rest(2, 1, 3)
        begin = time.monotonic()
        crew.members[2].process.send_signal(how)
        codes = crew.finish(0, 1, 3)
        assert time.monotonic() - begin < QUICK["heartbeat"] + QUICK["shutdown"] + SLOW
        assert set(codes.values()) == {3}
        for rank in (0, 1, 3):
            assert "agent 2 is lost in round " in crew.error(rank), crew.error(rank)
            assert "its process or host has ended" in crew.error(rank)
        assert crew.error(0).startswith(("agent 1 has ended the run: ", "agent 3 has ended the run: "))  # no neighbour


def test_an_agent_that_is_started_anew_is_lost_at_once(tmp_path: Path) -> None:
    """Its line comes back before anybody misses it; but the process that knew the round is dead."""
    limits = deadlines(heartbeat=40.0, connect=50.0, round=60.0)
    with Crew(tmp_path, path(3), 3, curve=True, own={2: WAIT}, deadlines=limits) as crew:
        crew.at_rest(2, 1)
        crew.restart(2)
        begin = time.monotonic()
        assert set(crew.finish(0, 1).values()) == {3}
        assert time.monotonic() - begin < limits["heartbeat"]
        for rank in (0, 1):
            assert "agent 2 is lost in round 2: its process has ended and was" in crew.error(rank)


def test_a_hanging_agent_is_named_by_all_and_nobody_else_is(tmp_path: Path) -> None:
    limits = deadlines(round=4.0)
    with Crew(tmp_path, path(5), 5, own={4: WAIT}, deadlines=limits) as crew:
        crew.start().said(4, "waiting")
        codes = crew.finish(0, 1, 2, 3)
        assert set(codes.values()) == {3}
        for rank in range(4):
            assert "agent 4 is lost in round 2" in crew.error(rank)
            assert "within 4 s (round deadline)" in crew.error(rank)
        crew.members[4].tell()  # it wakes up, and learns what has become of it
        assert crew.finish(4) == {4: 3}
        assert "is lost in round " in crew.error(4)


def test_waiting_long_for_somebody_who_computes(tmp_path: Path) -> None:
    """The round deadline runs against the slow one alone, and only while somebody waits for it."""
    with Crew(tmp_path, path(4), 4, own={3: WAIT}, deadlines=deadlines(round=8.0)) as crew:
        crew.at_rest(3, 2)
        assert not threading.Event().wait(3.0)
        crew.goes_on(3)


def test_all_stopped_and_continued(tmp_path: Path) -> None:
    """Longer than every deadline, as with a laptop's lid or Ctrl-Z: nobody is to blame."""
    limits = deadlines(heartbeat=1.0, round=2.5)
    with Crew(tmp_path, path(3), 3, own={2: WAIT}, deadlines=limits) as crew:
        crew.at_rest(2, 1)
        for member in crew.members.values():
            member.process.send_signal(signal.SIGSTOP)
        assert not threading.Event().wait(3.0)
        for member in crew.members.values():
            member.tell()
            member.process.send_signal(signal.SIGCONT)
        crew.all_end_well()


def test_a_waiting_process_leaves_the_processor_alone(tmp_path: Path) -> None:
    with Crew(tmp_path, complete(3), 3, curve=True, own={2: WAIT}) as crew:
        crew.at_rest(2, 0, 1)
        assert not threading.Event().wait(2.5)
        crew.goes_on(2)
        for rank in (0, 1):
            waited = crew.members[rank].said("round")[2]
            assert waited["seconds"] > 2.0
            assert waited["cpu"] < 0.02 * waited["seconds"], waited


@pytest.mark.parametrize(("code", "heard"), [(4, 4), (0, 3)])
def test_abort_ends_all_with_its_code(code: int, heard: int, tmp_path: Path) -> None:
    with Crew(tmp_path, path(4), 4, own={0: {"acts": {"2": [["abort", code]]}}}) as crew:
        codes = crew.start().finish()
        assert codes == {0: code, 1: heard, 2: heard, 3: heard}  # none can end others as if all were well
        for rank in (1, 2, 3):
            assert crew.error(rank) == "agent 0 has ended the run: its own output says why"


def test_an_abort_is_read_when_who_aborted_has_long_left(tmp_path: Path) -> None:
    # all are in round 3 when 0 aborts: one that is behind could read of it in round 2
    own: dict[int, dict[str, Any]] = {0: {"acts": {"3": [["wait"], ["abort", 4]]}}, 1: {"acts": {"3": [["wait"]]}}}
    with Crew(tmp_path, path(3), 3, own=own) as crew:
        crew.start().said(0, "waiting")
        crew.said(1, "waiting")
        crew.members[0].tell()
        assert crew.finish(0) == {0: 4}
        crew.members[1].tell()
        assert set(crew.finish().values()) == {4}
        assert "agent 0 has ended the run" in crew.error(2)


def test_orphans_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        own = {rank: {"parent": reading} for rank in range(3)}
        own[2] |= WAIT
        with Crew(tmp_path, path(3), 3, own=own) as crew:
            crew.start(pass_fds=(reading,)).said(2, "waiting")
            os.close(writing)
            writing = -1
            codes = crew.finish(0, 1)
            crew.members[2].tell()
            assert set((codes | crew.finish(2)).values()) == {3}
            assert crew.error(1) == "the process that started this one has ended"
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


# before the first round


def test_different_network_files(tmp_path: Path) -> None:
    own = {1: {"edges": [[0, 1], [1, 2], [0, 2]]}}
    with Crew(tmp_path, path(3), 3, own=own) as crew:
        crew.start(0, 1)
        assert set(crew.finish().values()) <= {2}, crew.report()
        assert "agent 1 has another network file" in crew.error(0)


def test_an_agent_that_does_not_come(tmp_path: Path) -> None:
    with Crew(tmp_path, path(3), 3, curve=True, deadlines=deadlines(connect=3.0)) as crew:
        crew.start(0, 1)
        assert set(crew.finish().values()) == {3}
        where = crew.spec["addresses"]["2"]
        assert f"agent 2 at {where}: nobody answers there" in crew.error(1)
        assert "connection deadline" in crew.error(1)
        assert 'agent 1 has ended the run: agent 1 says: "not connected within 3 s' in crew.error(0)


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with Crew(tmp_path, path(2), 2, tcp=True, own={0: WAIT, 1: WAIT}) as crew:
        crew.start().said(0, "waiting")
        with Crew(tmp_path, path(2), 2, tcp=True, addresses=crew.spec["addresses"]) as other:
            assert other.start(0).finish() == {0: 2}
            assert f"agent 0 cannot listen at {crew.spec['addresses']['0']}" in other.error(0)


def test_a_neighbour_that_comes_late_misses_nothing(tmp_path: Path) -> None:
    """What one neighbour sends while another has not come yet is kept for that one."""
    own = {rank: {"acts": {"0": [["gather"]]}} for rank in range(3)}
    limits = deadlines(round=2.0)
    with Crew(tmp_path, path(3), 3, own=own, deadlines=limits) as crew:
        crew.start(0, 1).said(0, "started")
        crew.said(1, "started")
        assert not threading.Event().wait(2.5)  # 0 and 1 have met, and 1 keeps what 0 says for 2
        crew.start(2)
        crew.all_end_well()
        assert all(crew.members[rank].said("gathered")[0] == [0, 1, 2] for rank in range(3))
