"""Wide records: a run on a sparse file, and a solve of few records of many features against one with (d, d) matrices.

python -m tests.benchmarks.bench_wide
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from admmnet.solvers.losses import Logistic
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.wide import WideSolver
from tests.wide_files import write_wide

from .common import least, unit_rows

ROWS, WIDTH, FILLED = 5_000, 20_000, 80


def sparse_file() -> None:
    """A whole command, and the memory beyond that of the imports."""
    words = ["--algorithm", "pp-admm", "--agents", "5", "--seed", "1", "--quiet"]
    with tempfile.TemporaryDirectory() as place:
        file = write_wide(Path(place) / "wide.libsvm", ROWS, WIDTH, FILLED)
        size = Path(file).stat().st_size / 1e6
        found = []
        for command in (["--version"], ["run", "--data", file, *words, "--out", f"{place}/run"]):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-m", "admmnet", *command], check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begin
            found.append((seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
    seconds, beyond = found[1][0], found[1][1] - found[0][1]
    print(f"sparse file of {size:.1f} MB, {ROWS:,} x {WIDTH:,}, pp-admm: {seconds:.1f} s, {beyond:.0f} MiB over import")
    assert seconds < 10.0
    assert beyond < 200.0


def solves(n: int, d: int, *, sparse: bool) -> None:
    """Six rounds of solves; the two kinds of solver take turns."""
    X, y = unit_rows(np.random.default_rng(5), n, d)
    if sparse:
        X *= np.random.default_rng(6).random(X.shape) < FILLED / d
    rows = {"wide": csr_array(X) if sparse else X, "dense": X}

    def seconds(name: str) -> float:
        solver = (WideSolver if name == "wide" else LocalSolver)(rows[name], y, Logistic())
        begin = time.perf_counter()
        for t in range(6):
            solver.solve(np.random.default_rng(t).standard_normal(d) * 0.02 / d**0.5, 0.005, 1e-8)
        return time.perf_counter() - begin

    took = least({name: partial(seconds, name) for name in rows}, 2)
    form = "CSR" if sparse else "dense"
    print(f"{n:,} x {d:,}, {form}: {took['dense'] / took['wide']:6.1f} times as fast as with (d, d) matrices")
    assert took["wide"] < took["dense"]


def main() -> None:
    """All of them; an AssertionError where a bound is missed."""
    sparse_file()
    for n, d in ((100, 300), (400, 1_000), (1_400, 1_500), (400, 3_000)):
        solves(n, d, sparse=False)
        solves(n, d, sparse=True)


if __name__ == "__main__":
    main()
