"""The command line with faults, in any process on any transport, and a log of what its agents say.

ADMMNET_FAULT = HOW:AGENT:ROUND strikes as an agent (a rank of MPI; "all") closes a round's charges, before it sends
anything of that round. ``end-HOW`` strikes when the last files are to be written (0), when they are drafts (1), when
most have said so (2), when they have their names (3). ``wrong=NUMBER`` is in what the agent sends, from the start on.
ADMMNET_CRASH = HOW:AT:AGENT strikes at the AT-th fsync, rename, link or removal of a process, from 1: ``kill``, or
``full`` from then on. Their number goes to the file ADMMNET_WRITES-AGENT. The relay is agent "relay".
In the folder ADMMNET_LOG is what agents say, before it leaves. With ADMMNET_NOISE noise follows from agent and round.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.__main__ import main
from admmnet.data import rows
from admmnet.errors import RunError
from admmnet.privacy.ledger.file import Ledger
from admmnet.rng import AgentStreams
from admmnet.running import closing, spawn
from admmnet.running.observer import Observer
from admmnet.running.party import Party
from admmnet.running.rounds import Rounds
from admmnet.transport import Transport, World
from admmnet.transport.zmq.member import Member, ZmqTransport
from tests.processes.launch import FAULTY

WRITES = ("fsync", "replace", "rename", "link", "unlink")


def hang() -> None:
    """Says that it has got here, in the folder ADMMNET_ARRIVED, and stays until a file "go" is there."""
    folder = Path(os.environ.get("ADMMNET_ARRIVED", "nowhere"))
    if folder.exists():
        (folder / str(os.getpid())).touch()
    while not (folder / "go").exists():
        time.sleep(0.02)


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
    "hang": hang,
    "full": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),  # no file grows any more
    "clock": clock,
    "fail": failing(RunError("the cable is cut")),
    "bug": failing(ValueError("an odd number")),
}


def strike(how: str) -> None:
    time.sleep(0.2)  # what was sent before has left ZeroMQ's thread
    FAULTS[how]()


def around(owner: Any, name: str, act: Callable[..., Any]) -> None:
    """Have ``act(real, *arguments)`` take the place of a function."""
    real = getattr(owner, name)
    setattr(owner, name, lambda *given, **more: act(real, *given, **more))


def arm(how: str, round: int) -> None:
    """Let the fault strike in a round: once, also where a ledger is opened again in another start."""
    commits = Counter[str]()

    def commit(real: Callable[..., Any], own: Ledger) -> None:
        commits[str(own.path)] += 1
        if commits[str(own.path)] == round + 1:
            strike(how)
        real(own)

    around(Ledger, "commit", commit)


def arm_end(how: str, point: int) -> None:
    """Strike before or behind one of the steps of an end."""

    def step(before: int | None, after: int | None) -> Callable[..., Any]:
        def take(real: Callable[..., Any], *given: Any) -> Any:
            if point == before:
                strike(how)
            found = real(*given)
            if point == after:
                strike(how)
            return found

        return take

    around(closing, "keep_drafts", step(0, None))
    around(Member, "stage", step(1, 2))
    around(closing, "write_whole", step(None, 3))


def arm_stall(round: int) -> None:
    """From a round on, in this start and in all that follow, wait for others and send nothing."""
    done = iter(range(10**9))

    def exchange(real: Callable[..., Any], own: ZmqTransport, *given: Any, **more: Any) -> Any:
        return (
            real(own, *given, **more) if next(done) < round else own.world._wait(lambda: set(own.graph[own.world.rank]))
        )

    around(ZmqTransport, "exchange", exchange)


def arm_wrong(agent: int, number: float) -> None:
    """Have an agent send the number in place of its first."""

    def exchange(real: Callable[..., Any], own: Any, outgoing: Any, *more: Any) -> Any:
        if outgoing.get(agent) is not None:
            outgoing = {**outgoing, agent: np.concatenate([[number], outgoing[agent][1:]])}
        return real(own, outgoing, *more)

    for transport, _ in networks():
        around(transport, "exchange", exchange)


def arm_fault(how: str, agent: str, at: int) -> None:
    """Arm the fault of ADMMNET_FAULT in this process."""
    observed: list[int] = []

    def told_of(round: int) -> int:
        observed.append(round)
        return round

    if how == "start":  # before it has greeted anybody
        around(Member, "meet", lambda *_, **__: FAULTS["kill"]())
    elif how == "load":
        around(rows, "to_norm_1", FAULTS["bug"])
    elif how == "model":  # it tells of another model than it has
        around(Observer, "observe", lambda real, own, round, *more: real(own, told_of(round), *more))
        around(Party, "models", lambda real, own: real(own) + 1e300 * (observed[-1:] == [at]))
    elif how == "stall":
        arm_stall(at)
    elif how.startswith("wrong="):
        arm_wrong(int(agent), float(how.removeprefix("wrong=")))
    elif how.startswith("end-"):
        arm_end(how.removeprefix("end-"), at)
    elif how != "none":
        arm(how, at)


def arm_writes(how: str, at: int) -> None:
    """Count this process's writes, and let the fault of ADMMNET_CRASH strike at one."""
    done, unlink = 0, os.unlink

    def write(real: Callable[..., Any], *given: Any, **more: Any) -> Any:
        nonlocal done
        done += 1
        if how == "kill" and done == at:
            FAULTS["kill"]()
        if how == "full" and done >= at and real is not unlink:
            raise OSError(28, os.strerror(28), str(given[0]))
        return real(*given, **more)

    for name in WRITES:
        around(os, name, write)
    if "ADMMNET_WRITES" in os.environ:
        atexit.register(lambda: Path(f"{os.environ['ADMMNET_WRITES']}-{name_of_process()}").write_text(str(done)))


def networks() -> list[tuple[Any, Any]]:
    """Transports of this process, and their worlds."""
    if "PMI_RANK" not in os.environ:
        return [(Transport, World), (ZmqTransport, Member)]
    from admmnet.transport.mpi import MPITransport, MPIWorld

    return [(Transport, World), (MPITransport, MPIWorld)]


def log(own: str, folder: Path) -> None:
    """Write down the process, what its agents hand over, and each gather's topic: figures of a round are of "rows"."""
    (folder / f"pid-{own}").write_text(str(os.getpid()))  # MPI may be killed as it begins, too
    sent = os.open(folder / f"sent-{own}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hand_over(real: Callable[..., Any], one: Any, outgoing: Any, *given: Any, **more: Any) -> Any:
        (round,) = (number for number in given[:2] if isinstance(number, int))
        said = [[round, i, one.tobytes().hex()] for i, one in outgoing.items() if one is not None]
        os.write(sent, "".join(json.dumps(entry) + "\n" for entry in said).encode())
        return real(one, outgoing, *given, **more)

    def gather(real: Callable[..., Any], one: Any, value: Any, topic: str | None = None) -> Any:
        with (folder / f"gathers-{own}").open("a") as file:
            file.write(f"{topic or ('rows' if isinstance(value, np.ndarray) else 'ready')}\n")
        return real(one, value, *([] if topic is None else [topic]))

    for transport, world in networks():
        around(world, "gather", gather)
        for name, act in (("exchange", hand_over), ("reduce", hand_over), ("collect", gather)):
            if name in vars(transport):
                around(transport, name, act)


def fix_noise() -> None:
    def run(real: Callable[..., Any], own: Rounds, round: int, **how: bool) -> Any:
        for node in own.party.nodes:
            node.door._secret.streams = AgentStreams(node.id, 100 + round)
        return real(own, round, **how)

    around(Rounds, "run", run)


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
        arm_fault(how, agent, int(at))
    how, at, agent = os.environ.get("ADMMNET_CRASH", "none:0:all").split(":")
    if agent in (own, "all") and own != "starter":
        arm_writes(how, int(at))
    if "ADMMNET_NOISE" in os.environ:
        fix_noise()
    main()
