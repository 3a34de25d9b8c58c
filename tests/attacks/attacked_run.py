"""The command line for every process of a run, whose reader is broken where ADMMNET_ATTACK says bug."""

from __future__ import annotations

import os
import sys

from admmnet.cli import run_command_line
from admmnet.data import sources
from admmnet.running import spawn

SECRET = "HIV-positive"


def broken(*arguments: object, **settings: object) -> None:
    """Stand in for a reader with a bug: NumPy and Python quote what they cannot convert."""
    float(SECRET)


if __name__ == "__main__":
    spawn.MODULE = "tests.attacks.attacked_run"
    if os.environ["ADMMNET_ATTACK"] == "bug":
        sources.read_npz = broken  # type: ignore[assignment, attr-defined]
    sys.exit(run_command_line(sys.argv[1:]))
