"""python -m admmnet, and the console script of the same name."""

from __future__ import annotations

import gc
import os
import sys


def main(bare: str = "--help") -> None:
    """Run the command line and leave with its exit code; without words, `bare` is the word."""
    # until `KEPT.begin`: of what imports make nothing is garbage, and looking for it takes a quarter of the start
    gc.disable()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # read once, as a library is loaded
        os.environ.setdefault(name, "1")  # a run takes one thread a process: others would only wait, and spin
    from admmnet.cli import run_command_line

    code = run_command_line(sys.argv[1:] or [bare])
    gc.freeze()  # the process ends: what it leaves is not searched for garbage
    sys.exit(code)


if __name__ == "__main__":
    main("run")  # mpirun -n 5 python -m admmnet
