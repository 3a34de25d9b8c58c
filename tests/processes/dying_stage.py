"""A run of three agents, one of which is killed among stages: ``dying_stage.py FOLDER NAME=VALUE ... [RANK CALL]``.

The killed rank dies at the so manyth time that it would write down what a stage has found. A folder that is there goes
on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from admmnet import run
from admmnet.running import prologue
from admmnet.running.resume import resumed_config
from admmnet.transport import open_world
from tests.running.raw_runs import loader, raw_config


def main(folder: str, seed: str, rank: str = "-1", call: str = "0") -> None:
    world, calls, write = open_world("mpi"), 0, prologue._write

    def dying(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if (world.rank, calls) == (int(rank), int(call)):
            os.kill(os.getpid(), signal.SIGKILL)
        write(*args)

    prologue._write = dying  # type: ignore[assignment]
    if (Path(folder) / "config.toml").exists():
        config = resumed_config(folder)
    else:
        settings: dict[str, Any] = {"seed": int(seed)} if seed != "none" else {"seed": None, "simulate": True}
        config = raw_config(Path(folder), rounds=4, transport="mpi", **settings)
    run(config, loader=loader)


if __name__ == "__main__":
    main(*sys.argv[1:])
