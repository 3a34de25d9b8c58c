"""`admmnet agent` that logs what it sends, in ADMMNET_LOG; ``logged_agent.py run WORDS`` starts such agents."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from admmnet.__main__ import main
from admmnet.cli import run_command_line
from admmnet.running import spawn
from admmnet.transport import Inbox, Outgoing
from admmnet.transport.zmq.transport import ZmqTransport


def log_messages(agent: int, folder: Path) -> None:
    """Write down what the agent says before any neighbour can hear it, and which process it is."""
    (folder / f"pid-{agent}").write_text(str(os.getpid()))
    exchange = ZmqTransport.exchange

    def logging(self: ZmqTransport, outgoing: Outgoing, round: int) -> Inbox:
        with (folder / f"sent-{agent}.jsonl").open("a") as file:
            said = outgoing[agent]
            file.write(json.dumps([round, agent, None if said is None else said.tobytes().hex()]) + "\n")
        return exchange(self, outgoing, round)

    ZmqTransport.exchange = logging  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1] == "run":
        spawn.MODULE = "tests.processes.logged_agent"
        sys.exit(run_command_line(sys.argv[1:]))
    log_messages(int(sys.argv[sys.argv.index("--id") + 1]), Path(os.environ["ADMMNET_LOG"]))
    main()
