"""The command line with one agent that sends a wrong number: ``wrong_run.py NUMBER run WORDS``."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import numpy as np

from admmnet.cli import run_command_line
from admmnet.running import spawn

LIAR = 1


def wrong(exchange: Any, number: float) -> Any:
    """Exchange in which the liar's vector has the number in place of its first."""

    def sending(self: Any, outgoing: Any, *more: Any) -> Any:
        own = outgoing.get(LIAR)
        if own is not None:
            outgoing = {**outgoing, LIAR: np.concatenate([[number], own[1:]])}
        return exchange(self, outgoing, *more)

    return sending


if __name__ == "__main__":
    spawn.MODULE = "tests.processes.wrong_run"
    number = os.environ.setdefault("ADMMNET_NUMBER", sys.argv[1])
    for module, name in (("mpi", "MPITransport"), ("zmq.transport", "ZmqTransport")):
        transport = getattr(import_module(f"admmnet.transport.{module}"), name)
        transport.exchange = wrong(transport.exchange, float(number))
    sys.exit(run_command_line(sys.argv[1:] if sys.argv[1] == "agent" else sys.argv[2:]))
