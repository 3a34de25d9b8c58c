"""The command line, whose process is killed, or whose disk is full, as it makes a write last.

ADMMNET_CRASH = HOW:AT:RANK. HOW is ``kill``, ``full`` (from then on) or ``none``; AT the number of the fsync, rename,
link or removal, from 1. RANK is that of an MPI process, or -1. Their number goes to ADMMNET_WRITES. Whatever agents
hand over to be sent is in ADMMNET_LOG, a line each, before it leaves. With ADMMNET_NOISE noise follows from agent and
round, whatever process draws it. ADMMNET_ROUND = ROUND:RANK kills a rank as it begins a round.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admmnet.__main__ import main
from admmnet.rng import AgentStreams
from admmnet.running.rounds import Rounds
from admmnet.transport.local import LocalTransport
from admmnet.transport.zmq.transport import ZmqTransport

WRITES = ("fsync", "replace", "rename", "link", "unlink")


def arm(how: str, at: int) -> None:
    """Let the fault strike at a write."""
    done, system = 0, os  # type: int, Any

    def striking(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            if how == "kill" and done == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "full" and done >= at and real is not real_unlink:
                raise OSError(28, os.strerror(28), str(given[0]))
            return real(*given, **more)

        return write

    real_unlink = os.unlink
    for name in WRITES:
        setattr(system, name, striking(getattr(system, name)))
    if "ADMMNET_WRITES" in os.environ:
        atexit.register(lambda: Path(os.environ["ADMMNET_WRITES"]).write_text(str(done)))


def log(transport: Any, file: int) -> None:
    """Write down what is handed over."""
    for verb, place in (("exchange", 1), ("reduce", 2)):

        def logged(real: Callable[..., Any], place: int) -> Callable[..., Any]:
            def send(self: Any, outgoing: Any, *given: Any, **more: Any) -> Any:
                round = given[place - 1]
                said = [[round, i, one.tobytes().hex()] for i, one in outgoing.items() if one is not None]
                os.write(file, "".join(json.dumps(entry) + "\n" for entry in said).encode())
                return real(self, outgoing, *given, **more)

            return send

        setattr(transport, verb, logged(getattr(transport, verb), place))


def fix(noise: bool, last: int) -> None:
    """Let noise follow from agent and round, and kill this process when a round begins."""
    run = Rounds.run

    def running(self: Rounds, round: int, **how: bool) -> bool:
        if round == last:
            os.kill(os.getpid(), signal.SIGKILL)
        for node in self._nodes if noise else ():
            node.door._secret.streams = AgentStreams(node.id, 100 + round)
        return run(self, round, **how)

    Rounds.run = running  # type: ignore[method-assign]


if __name__ == "__main__":
    how, at, rank = os.environ.get("ADMMNET_CRASH", "none:0:-1").split(":")
    mpi = "PMI_RANK" in os.environ
    if mpi:
        from admmnet.transport.mpi import MPITransport
    file = os.open(os.environ["ADMMNET_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for kind in (LocalTransport, ZmqTransport, *((MPITransport,) if mpi else ())):
        log(kind, file)
    if rank in ("-1", os.environ.get("PMI_RANK", "")):
        arm(how, int(at))
    last, whose = os.environ.get("ADMMNET_ROUND", "-9:-1").split(":")
    fix("ADMMNET_NOISE" in os.environ, int(last) if whose == os.environ.get("PMI_RANK", "-1") else -9)
    main()
