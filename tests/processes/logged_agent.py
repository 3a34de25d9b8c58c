"""Agents that log what they send, in ADMMNET_LOG.

``logged_agent.py run WORDS`` starts `admmnet agent` so, ``logged_agent.py mpi run WORDS`` is one rank of a run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from admmnet.__main__ import main
from admmnet.cli import run_command_line
from admmnet.running import spawn
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.zmq.transport import ZmqTransport, ZmqWorld

MODULE = "tests.processes.logged_agent"


def log_messages(agent: int, folder: Path, world: type[World], transport: type[Transport]) -> None:
    """Write down who the agent is, its words before any neighbour hears them, and each gather's topic and time.

    Its time is how many exchanges and sums the agent has begun before. Figures of a round are of topic "rows".
    """
    (folder / f"pid-{agent}").write_text(str(os.getpid()))
    patched, asking = transport, world  # type: Any, Any
    exchange, reduce, collect, gather = patched.exchange, patched.reduce, patched.collect, asking.gather
    done = 0

    def logging(self: Transport, outgoing: Outgoing, round: int, *more: Any, **others: Any) -> Inbox:
        nonlocal done
        done += 1
        with (folder / f"sent-{agent}.jsonl").open("a") as file:
            said = outgoing[agent]
            file.write(json.dumps([round, agent, None if said is None else said.tobytes().hex()]) + "\n")
        heard: Inbox = exchange(self, outgoing, round, *more, **others)
        return heard

    def summing(self: Transport, *given: Any, **others: Any) -> Any:
        nonlocal done
        done += 1
        return reduce(self, *given, **others)

    def counting(self: World, value: Any, topic: str = "ready") -> Any:
        with (folder / f"gathers-{agent}").open("a") as file:
            file.write(f"{done} {topic}\n")
        return gather(self, value, topic)

    def collecting(self: Transport, rows: Any) -> Any:
        with (folder / f"gathers-{agent}").open("a") as file:
            file.write(f"{done} rows\n")
        return collect(self, rows)

    patched.exchange, patched.reduce, patched.collect, asking.gather = logging, summing, collecting, counting


if __name__ == "__main__":
    if sys.argv[1] == "run":
        spawn.MODULE = MODULE
        sys.exit(run_command_line(sys.argv[1:]))
    log = Path(os.environ["ADMMNET_LOG"])
    if sys.argv[1] == "mpi":
        (log / f"pid-{os.environ.get('PMI_RANK')}").write_text(str(os.getpid()))  # MPI may be killed as it begins, too
        from mpi4py import MPI

        from admmnet.transport.mpi import MPITransport, MPIWorld

        log_messages(MPI.COMM_WORLD.rank, log, MPIWorld, MPITransport)
        sys.exit(run_command_line(sys.argv[2:]))
    log_messages(int(sys.argv[sys.argv.index("--id") + 1]), log, ZmqWorld, ZmqTransport)
    main()
