"""A run of three agents in which one rank fails: ``failing_run.py HOW library|command FOLDER DATA [RANK ...]``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.data import rows
from admmnet.errors import RunError
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.transport import open_world


def fail(how: str) -> None:
    if how == "run-error":
        raise RunError("the cable is cut")
    if how in ("value-error", "value-error-in-loading"):
        raise ValueError("an odd number")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "exit":
        sys.exit(7)
    if how == "hang":
        threading.Event().wait()
    os.kill(os.getpid(), signal.SIGKILL)


def main(how: str, way: str, folder: str, data: str, *ranks: str) -> None:
    failing = open_world("mpi").rank in ([1] if not ranks else map(int, ranks))
    solve, to_norm_1, calls = LocalSolver.solve, rows.to_norm_1, 0

    def solve_or_fail(self: LocalSolver, *args: Any, **named: Any) -> Solution:
        nonlocal calls
        calls += 1
        if failing and calls == 3 and how != "value-error-in-loading":  # round 2
            fail(how)
        return solve(self, *args, **named)

    def finish_or_fail(*args: Any, **named: Any) -> Any:
        if failing and how == "value-error-in-loading":
            fail(how)
        return to_norm_1(*args, **named)

    LocalSolver.solve = solve_or_fail  # type: ignore[method-assign]
    rows.to_norm_1 = finish_or_fail
    if way == "library":
        patience: dict[str, Any] = {"transport": "mpi", "round_deadline": 2.0} if how == "hang" else {}
        run(RunConfig(algorithm="admm", data=data, rounds=5, agents=3, seed=0, out=folder, **patience))
        return
    words = f"run --algorithm admm --data {data} --rounds 5 --agents 3 --seed 0 --out {folder}"
    sys.exit(run_command_line(words.split()))


if __name__ == "__main__":
    main(*sys.argv[1:])
