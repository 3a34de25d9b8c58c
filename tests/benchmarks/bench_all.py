"""All measurements of speed and memory in turn, each in a process of its own; exit code 1 where a bound is missed.

python -m tests.benchmarks.bench_all [--data-dir DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("bench_rounds",),
    ("bench_solve",),
    ("bench_blocks",),
    ("bench_wide",),
    ("bench_scale", "--agents", "100,1000,10000"),
    ("bench_scale", "--ledgers", "--agents", "10000", "--rounds", "100"),
    ("bench_baselines",),
    ("bench_zmq", "1000"),
    ("bench_curves",),
    ("bench_shares",),
)
LONGEST = 3600
"""Seconds after which a script is ended."""


def main() -> int:
    """Run them; print what they print."""
    parser = argparse.ArgumentParser(description="All measurements of speed and memory.")
    parser.add_argument("--data-dir", help="folder of data sets, for bench_baselines and bench_shares")
    folder = parser.parse_args().data_dir
    missed = []
    for name, *words in SCRIPTS:
        more = ("--data-dir", folder) if folder and name in ("bench_baselines", "bench_shares") else ()
        print(f"\n## {' '.join((name, *words, *more))}\n", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.{name}", *words, *more]
        try:
            ended = subprocess.run(
                command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            missed.append(f"{name} (took over {LONGEST} s)")
            continue
        if ended.returncode:
            missed.append(name)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall bounds hold", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
