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
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.zmq.transport import ZmqTransport, ZmqWorld

MODULE = "tests.processes.logged_agent"


def log_messages(agent: int, folder: Path, transport: type[Transport]) -> None:
    """Write down who the agent is, its words before any neighbour hears them, and how many before each gather."""
    (folder / f"pid-{agent}").write_text(str(os.getpid()))
    patched: Any = transport
    exchange = patched.exchange

    def logging(self: Transport, outgoing: Outgoing, round: int, *more: Any, **others: Any) -> Inbox:
        with (folder / f"sent-{agent}.jsonl").open("a") as file:
            said = outgoing[agent]
            file.write(json.dumps([round, agent, None if said is None else said.tobytes().hex()]) + "\n")
        heard: Inbox = exchange(self, outgoing, round, *more, **others)
        return heard

    def counting(self: ZmqWorld, value: Any) -> list[Any]:
        sent = folder / f"sent-{agent}.jsonl"
        with (folder / f"gathers-{agent}").open("a") as file:
            file.write(f"{len(sent.read_bytes().splitlines()) if sent.exists() else 0}\n")
        return gather(self, value)

    patched.exchange = logging
    patched, gather = ZmqWorld, ZmqWorld.gather
    patched.gather = counting


if __name__ == "__main__":
    if sys.argv[1] == "run":
        spawn.MODULE = MODULE
        sys.exit(run_command_line(sys.argv[1:]))
    log = Path(os.environ["ADMMNET_LOG"])
    if sys.argv[1] == "mpi":
        (log / f"pid-{os.environ.get('PMI_RANK')}").write_text(str(os.getpid()))  # MPI may be killed as it begins, too
        from mpi4py import MPI

        from admmnet.transport.mpi import MPITransport

        log_messages(MPI.COMM_WORLD.rank, log, MPITransport)
        sys.exit(run_command_line(sys.argv[2:]))
    log_messages(int(sys.argv[sys.argv.index("--id") + 1]), log, ZmqTransport)
    main()
