"""The command line with faults, in any process on any transport, and a log of what its agents say.

ADMMNET_FAULT = HOW:AGENT:ROUND strikes as an agent (a rank of MPI; "all") closes a round's charges, before it sends
anything of that round. ``end-HOW`` strikes when the last files are to be written (0), when they are drafts (1), when
most have said so (2), when they have their names (3). ``wrong=NUMBER`` is in what the agent sends, from the start on.
ADMMNET_CRASH = HOW:AT:AGENT strikes at the AT-th fsync, rename, link or removal of a process, from 1: ``kill``, or
``full`` from then on. Their number goes to ADMMNET_WRITES. The relay is agent "relay".
In the folder ADMMNET_LOG is what agents say, before it leaves. With ADMMNET_NOISE noise follows from agent and round.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.__main__ import main
from admmnet.cli import again
from admmnet.data import rows
from admmnet.errors import RunError
from admmnet.privacy.ledger.file import Ledger
from admmnet.rng import AgentStreams
from admmnet.running import closing, spawn
from admmnet.running.observer import Observer
from admmnet.running.rounds import Rounds
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.transport import ZmqTransport, ZmqWorld
from tests.processes.launch import FAULTY

WRITES = ("fsync", "replace", "rename", "link", "unlink")


def stay() -> None:
    """Says that it has got here, if anybody wants to know, and stays."""
    if "ADMMNET_ARRIVED" in os.environ:
        with open(os.environ["ADMMNET_ARRIVED"], "wb") as arrived:
            arrived.write(b".")
    threading.Event().wait()


def hold() -> None:
    """Says so in a file, and stays until somebody opens the pipe."""
    pipe = Path(os.environ["ADMMNET_ARRIVED"])
    pipe.with_suffix(".held").touch()
    os.close(os.open(pipe, os.O_RDONLY))


def clock() -> None:
    """The wall clock jumps by a year, forward and back at every look."""
    real, looks = time.time, iter(range(10**9))
    time.time = lambda: real() + (-1) ** next(looks) * 3.2e7


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **more: object) -> None:
        raise error

    return fail


FAULTS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "interrupt": failing(KeyboardInterrupt()),
    "hang": stay,
    "hold": hold,
    "full": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),  # no file grows any more
    "clock": clock,
    "fail": failing(RunError("the cable is cut")),
    "bug": failing(ValueError("an odd number")),
}


def arm(how: str, round: int) -> None:
    """Let the fault strike in a round: once, also where a ledger is opened again in another start."""
    patched: Any = Ledger
    commit, commits = Ledger.commit, Counter[str]()

    def commit_or_fail(self: Ledger) -> None:
        commits[str(self.path)] += 1
        if commits[str(self.path)] == round + 1:
            threading.Event().wait(0.2)  # what was sent before has left ZeroMQ's thread
            FAULTS[how]()
        commit(self)

    patched.commit = commit_or_fail


def arm_end(how: str, point: int) -> None:
    patched: Any = closing
    starts: Any = again
    member: Any = Member
    keep, stage, write = starts.keep_drafts, Member.stage, patched.write_whole

    def strike(here: int) -> None:
        if here == point:
            threading.Event().wait(0.2)
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

    starts.keep_drafts, patched.write_whole, member.stage = keep_drafts, write_whole, staged


def arm_stall(round: int) -> None:
    """From a round on, in this start and in all that follow, wait for others and send nothing."""
    patched: Any = ZmqTransport
    exchange, done = ZmqTransport.exchange, iter(range(10**9))

    def stalling(self: ZmqTransport, *given: Any, **more: Any) -> Any:
        if next(done) < round:
            return exchange(self, *given, **more)
        return self._member._wait(lambda: set(self._from))

    patched.exchange = stalling


def arm_wrong(transport: Any, agent: int, number: float) -> None:
    """Have an agent send the number in place of its first."""
    exchange = transport.exchange

    def sending(self: Any, outgoing: Any, *more: Any) -> Any:
        own = outgoing.get(agent)
        if own is not None:
            outgoing = {**outgoing, agent: np.concatenate([[number], own[1:]])}
        return exchange(self, outgoing, *more)

    transport.exchange = sending


def strike(how: str, agent: str, at: str) -> None:
    """Arm the fault of ADMMNET_FAULT in this process."""
    patched: tuple[Any, ...] = Member, rows, Observer
    if how == "start":  # before it has greeted anybody
        patched[0].meet = lambda *_, **__: FAULTS["kill"]()
    elif how == "load":
        patched[1].to_norm_1 = failing(ValueError("an odd number"))
    elif how == "model":  # it tells of another model than it has
        models = Observer.models
        patched[2].models = lambda self: models(self) + (1e300 if getattr(self, "_round", 0) == int(at) else 0.0)
    elif how == "stall":
        arm_stall(int(at))
    elif how.startswith("wrong="):
        for transport in transports():
            arm_wrong(transport, int(agent), float(how.removeprefix("wrong=")))
    elif how.startswith("end-"):
        arm_end(how.removeprefix("end-"), int(at))
    elif how != "none":
        arm(how, int(at))


def arm_writes(how: str, at: int) -> None:
    """Count this process's writes, and let the fault of ADMMNET_CRASH strike at one."""
    done, system = 0, os  # type: int, Any

    def striking(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            if how == "kill" and done == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "full" and done >= at and real is not unlink:
                raise OSError(28, os.strerror(28), str(given[0]))
            return real(*given, **more)

        return write

    unlink = os.unlink
    for name in WRITES:
        setattr(system, name, striking(getattr(system, name)))
    if "ADMMNET_WRITES" in os.environ:
        atexit.register(lambda: Path(os.environ["ADMMNET_WRITES"]).write_text(str(done)))


def transports() -> list[Any]:
    """Of this process."""
    if "PMI_RANK" not in os.environ:
        return [LocalTransport, ZmqTransport]
    from admmnet.transport.mpi import MPITransport

    return [MPITransport]


def log(own: str, folder: Path) -> None:
    """Write down the process, what its agents hand over, and each gather's topic and time.

    That time is how many exchanges and sums have begun before. Figures of a round are of topic "rows".
    """
    (folder / f"pid-{own}").write_text(str(os.getpid()))  # MPI may be killed as it begins, too
    sent = os.open(folder / f"sent-{own}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    worlds: list[Any] = [LocalWorld, ZmqWorld]
    if "PMI_RANK" in os.environ:
        from admmnet.transport.mpi import MPIWorld

        worlds = [MPIWorld]
    done = 0

    def handing(real: Callable[..., Any], place: int) -> Callable[..., Any]:
        def send(self: Any, outgoing: Any, *given: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            said = [[given[place], i, one.tobytes().hex()] for i, one in outgoing.items() if one is not None]
            os.write(sent, "".join(json.dumps(entry) + "\n" for entry in said).encode())
            return real(self, outgoing, *given, **more)

        return send

    def gathering(real: Callable[..., Any], of: str | None) -> Callable[..., Any]:
        def gather(self: Any, value: Any, topic: str = "ready") -> Any:
            with (folder / f"gathers-{own}").open("a") as file:
                file.write(f"{done} {of or topic}\n")
            return real(self, value) if of else real(self, value, topic)

        return gather

    for one in transports():
        one.exchange, one.reduce = handing(one.exchange, 0), handing(one.reduce, 1)
        one.collect = gathering(one.collect, "rows")
    for world in worlds:
        world.gather = gathering(world.gather, None)


def fix_noise() -> None:
    patched: Any = Rounds
    run = Rounds.run

    def running(self: Rounds, round: int, **how: bool) -> bool:
        for node in self._party.nodes:
            node.door._secret.streams = AgentStreams(node.id, 100 + round)
        return run(self, round, **how)

    patched.run = running


def name_of_process() -> str:
    """Its agent, its rank, "relay", or "starter" of agents."""
    if "--id" in sys.argv:
        return sys.argv[sys.argv.index("--id") + 1]
    if sys.argv[1] == "relay":
        return "relay"
    return "starter" if "zmq" in sys.argv else os.environ.get("PMI_RANK", "0")


if __name__ == "__main__":
    spawn.MODULE, own = FAULTY, name_of_process()
    if "ADMMNET_LOG" in os.environ:
        log(own, Path(os.environ["ADMMNET_LOG"]))
    how, agent, at = os.environ.get("ADMMNET_FAULT", "none:0:0").split(":")
    if agent in (own, "all") and own != "starter":
        strike(how, agent, at)
    how, at, agent = os.environ.get("ADMMNET_CRASH", "none:0:all").split(":")
    if agent in (own, "all") and own != "starter":
        arm_writes(how, int(at))
    if "ADMMNET_NOISE" in os.environ:
        fix_noise()
    main()
