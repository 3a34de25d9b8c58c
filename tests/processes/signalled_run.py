"""A run, all processes of which stop in one round and wait for a signal: ``signalled_run.py WORDS``.

WORDS are those of the command line, or ``library SETTINGS``, a table in JSON.

Every process writes a byte to the pipe at ADMMNET_ARRIVED when it stands in round ADMMNET_ROUND.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from admmnet import run
from admmnet.cli import run_command_line
from admmnet.running import spawn
from admmnet.running.rounds import Rounds

if __name__ == "__main__":
    spawn.MODULE = "tests.processes.signalled_run"
    run_round = Rounds.run

    def standing(self: Rounds, round: int, *, alone: bool = False) -> bool:
        if round == int(os.environ["ADMMNET_ROUND"]):
            with open(os.environ["ADMMNET_ARRIVED"], "wb") as arrived:
                arrived.write(b".")
            signal.pause()
        return run_round(self, round, alone=alone)

    Rounds.run = standing  # type: ignore[method-assign]
    if sys.argv[1] == "library":
        run(**json.loads(sys.argv[2]))
    sys.exit(run_command_line(sys.argv[1:]))
