"""`admmnet agent` with a fault: ADMMNET_FAULT = HOW:AGENT:ROUND.

``faulty_agent.py run HOW:AGENT:ROUND WORDS`` is `admmnet run --transport zmq` with agents of this kind.

The fault strikes as the agent closes a round's charges, before it sends anything of that round; ``halfway`` kills it
when it has told one of several agents the total of that round's sum. ``end-HOW:AGENT:POINT`` strikes when the last
files are to be written (0), when they are drafts (1), when most have said so (2), when they have their names (3).
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admmnet.__main__ import main
from admmnet.cli import again, run_command_line
from admmnet.errors import BudgetError, RunError
from admmnet.privacy.ledger.file import Ledger
from admmnet.running import chain, closing, spawn
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.transport import ZmqTransport


def hang() -> None:
    """Says that it has got here, if anybody wants to know, and stays."""
    if "ADMMNET_ARRIVED" in os.environ:
        os.close(os.open(os.environ["ADMMNET_ARRIVED"], os.O_WRONLY))
    threading.Event().wait()


def hold() -> None:
    """Says so in a file, and stays until somebody opens the pipe."""
    pipe = Path(os.environ["ADMMNET_ARRIVED"])
    pipe.with_suffix(".held").touch()
    os.close(os.open(pipe, os.O_RDONLY))


def full() -> None:
    """No file grows any more: what a full disk looks like to who writes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def clock() -> None:
    """The wall clock jumps by a year, forward and back at every look."""
    real, looks = time.time, iter(range(10**9))
    time.time = lambda: real() + (-1) ** next(looks) * 3.2e7


def fail() -> None:
    raise RunError("the cable is cut")


def cable(*states: str) -> None:
    """Pull this host's cable out (down), or put it in (up)."""
    for state in states:
        subprocess.run(["ip", "link", "set", "cable", state], check=True, timeout=20)


FAULTS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "hang": hang,
    "full": full,
    "clock": clock,
    "fail": fail,
    "cut": lambda: cable("down"),
    "blink": lambda: cable("down", "up"),
    "hold": hold,
    "none": lambda: None,
}


def arm(how: str, round: int) -> None:
    """Let the fault strike in a round."""
    commit, commits = Ledger.commit, iter(range(10**9))

    def commit_or_fail(self: Ledger) -> None:
        if next(commits) == round:
            threading.Event().wait(0.2)  # what was sent before has left ZeroMQ's thread
            FAULTS[how]()
        commit(self)

    Ledger.commit = commit_or_fail  # type: ignore[method-assign]


def arm_end(how: str, point: int) -> None:
    patched: Any = closing
    starts: Any = again
    keep, stage, write = starts.keep_drafts, Member.stage, patched.write_whole

    def strike(here: int) -> None:
        if here == point:
            threading.Event().wait(0.2)  # what was sent before has left ZeroMQ's thread
            FAULTS[how]()

    def keep_drafts(*given: Any) -> None:
        strike(0)
        keep(*given)

    def write_whole(files: Any) -> None:
        write(files)
        strike(3)

    def staged(*end: Any) -> bytes:
        strike(1)
        agreed: bytes = stage(*end)
        strike(2)
        return agreed

    starts.keep_drafts, patched.write_whole = keep_drafts, write_whole
    Member.stage = staged  # type: ignore[method-assign, assignment]


def arm_stall(round: int) -> None:
    """From a round on, in this start and in all that follow, wait for others and send nothing."""
    exchange, done = ZmqTransport.exchange, iter(range(10**9))

    def stalling(self: ZmqTransport, *given: Any, **more: Any) -> Any:
        if next(done) < round:
            return exchange(self, *given, **more)
        return self._member._wait(lambda: set(self._from))

    ZmqTransport.exchange = stalling  # type: ignore[method-assign]


def arm_broke() -> None:
    """Afford nothing in a start that is planned anew."""

    def target(*given: Any) -> Any:
        raise BudgetError("the account is exhausted")

    patched: Any = chain
    patched._target = target


def arm_start() -> None:
    """Kill the agent before it has greeted anybody."""
    Member.meet = lambda self, *given, **more: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore


if __name__ == "__main__":
    if sys.argv[1] == "run":
        os.environ["ADMMNET_FAULT"] = sys.argv[2]
        spawn.MODULE = "tests.processes.faulty_agent"
        sys.exit(run_command_line(["run", "--transport", "zmq", *sys.argv[3:]]))
    how, agent, round = os.environ["ADMMNET_FAULT"].split(":")
    if sys.argv[sys.argv.index("--id") + 1] == agent:
        if how == "start":
            arm_start()
        elif how == "broke":
            arm_broke()
        elif how == "stall":
            arm_stall(int(round))
        elif how.startswith("end-"):
            arm_end(how.removeprefix("end-"), int(round))
        else:
            arm(how, int(round))
    main()
