"""`admmnet run --transport zmq` in which one agent has a fault: ``faulty_run.py HOW:AGENT:ROUND WORDS``."""

from __future__ import annotations

import os
import sys

from admmnet.cli import run_command_line
from admmnet.running import spawn

if __name__ == "__main__":
    os.environ["ADMMNET_FAULT"] = sys.argv[1]
    spawn.MODULE = "tests.processes.faulty_agent"
    sys.exit(run_command_line(["run", "--transport", "zmq", *sys.argv[2:]]))
