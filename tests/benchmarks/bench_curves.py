"""How a round's processor time grows with agents, records, features and ranks; and a model of it for a cluster.

    python -m tests.benchmarks.bench_curves [--figures FILE.json] [--draw docs/pictures]

A point is a seeded run of `pp-admm` at epsilon 5 on unit rows, test errors at the end alone, over `mpirun` where it has
several ranks. Its time is the processor time of a round, the first two left out, of the rank that takes most: waiting
is not in it, so that other work on the machine hardly is. The limit is reading the rank's records once, as fast as the
same process does it. Least of three interleaved repeats.

The model is linear in what is done (``UNITS``). It is fitted to the points of ``CURVES`` by least squares of relative
errors and judged by ``HELD_OUT``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.optimize import nnls

from admmnet import RunConfig, run
from admmnet.data import DataSettings, Records
from admmnet.report.figure import BLUE, GREY, RED, Curve, Look, Panel, Picture, save
from admmnet.running.rounds import Rounds
from admmnet.transport import open_world
from admmnet.transport.layout import automatic_block
from admmnet.types import Vector

from ..processes.launch import mpirun_path
from .common import made, row, unit_rows

Point = tuple[int, int, int, int]
"""Agents N, records of each n, features d, ranks."""
ROUNDS, REPEATS, SKIPPED = 14, 3, 2
CURVES: dict[str, list[Point]] = {
    "agents N": [(N, 100, 100, 1) for N in (10, 30, 100, 300, 1000, 2000)],
    "records of an agent n": [(5, n, 100, 1) for n in (100, 300, 1000, 3000, 10_000, 30_000)],
    "features d": [(5, 3000, d, 1) for d in (10, 30, 100, 300, 1000)],
    "ranks": [(400, 200, 100, ranks) for ranks in (1, 2, 4, 8)],
}
"""Points by what changes along a curve."""
HELD_OUT: list[Point] = [(600, 300, 60, 1), (300, 400, 80, 3), (1000, 150, 50, 6)]
"""Points that the model has not seen."""
UNITS = (
    (1e9, "ns a number read"),
    (1e6, "us an agent alone"),
    (1e6, "us an agent in a block"),
    (1e9, "ns an entry of a (d, d) matrix of an agent alone"),
    (1e9, "ns a figure of all agents, which the writer gets"),
    (1e6, "us a message to another rank"),
)
"""What the model is linear in."""
LATENCY, BANDWIDTH = 50e-6, 1.25e9
"""Seconds a message and bytes a second between hosts: taken for a 10 Gbit/s network, not measured."""


def point(agents: int, n: int, d: int, folder: str) -> None:
    """Run on this rank; the first prints processor time of a round and of reading, each of the rank that takes most."""
    ends: list[float] = []
    reads: list[float] = []
    plain = Rounds.run

    def timed(self: Rounds, round: int) -> bool:
        ends.append(time.process_time())
        return plain(self, round)

    def loader(settings: DataSettings, count: int, mine: Sequence[int]) -> Records:
        shards = {i: unit_rows(np.random.default_rng(i), n, d) for i in mine}
        for _ in range(5):
            begin = time.process_time()
            for X, _y in shards.values():
                X.max()
            reads.append(time.process_time() - begin)
        return made(shards, count, n, unit_rows(np.random.default_rng(0), 100, d))

    with patch.object(Rounds, "run", timed):
        config = RunConfig(
            algorithm="pp-admm",
            epsilon=5.0,
            seed=0,
            rounds=ROUNDS,
            measure_every=ROUNDS,
            topology=f"regular:{agents}:4",
            out=folder,
        )
        run(config, loader=loader)
    world = open_world("auto")
    own = (ends[-1] - ends[SKIPPED]) / (len(ends) - 1 - SKIPPED)
    found = world.gather([own, min(reads)])
    if world.rank == 0:
        print(json.dumps([max(part) for part in zip(*found, strict=True)]), flush=True)


def measured(points: Sequence[Point]) -> dict[Point, tuple[float, float]]:
    """Least seconds of a round, and of reading, of every point; each run has processes of its own."""
    found: dict[Point, tuple[float, float]] = {}
    for _ in range(REPEATS):
        for agents, n, d, ranks in points:
            launch = [mpirun_path(), "-n", str(ranks)] if ranks > 1 else []
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            with tempfile.TemporaryDirectory() as folder:
                words = ["-m", "tests.benchmarks.bench_curves", "point", *map(str, (agents, n, d)), f"{folder}/run"]
                ended = subprocess.run(
                    [*launch, sys.executable, *words],
                    env=environment,
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                    timeout=600,
                )
            seconds, reading = json.loads(ended.stdout.splitlines()[-1])
            before = found.get((agents, n, d, ranks), (np.inf, np.inf))
            found[agents, n, d, ranks] = min(before[0], seconds), min(before[1], reading)
    return found


def terms(agents: int, n: int, d: int, ranks: int) -> Vector:
    """What a rank does in a round: ``UNITS``; agents are solved alone up to 64, as `--block auto` decides."""
    block, several, alone = automatic_block(agents, ranks), ranks > 1, agents <= 64
    own = min(agents, math.ceil(math.ceil(agents / block) / ranks) * block)  # of the rank that has most
    messages = several * min(ranks - 1, 4.0 * own)
    return np.array([own * n * d, own * alone, own * (not alone), own * d * d * alone, several * agents * 9, messages])


def fitted(found: dict[Point, tuple[float, float]]) -> Vector:
    """Seconds of each of the ``terms``."""
    rows = np.array([terms(*where) / seconds for where, (seconds, _) in found.items()])
    size = np.linalg.norm(rows, axis=0)
    return np.asarray(nnls(rows / size, np.ones(len(rows)))[0] / size)


def predicted(model: Vector, agents: int, n: int, d: int, ranks: int, hosts: int) -> float:
    """Seconds of a round: a rank's processor time, and what crosses between hosts in it, one after the other.

    The writer gets nine figures of every agent; models stay where they are in rounds between measurements.
    """
    crossing = 0.0 if hosts == 1 else agents * 9 * 8.0 * (hosts - 1) / hosts / BANDWIDTH
    messages = 0.0 if hosts == 1 else LATENCY * (min(ranks * hosts - 1, 4) + np.log2(ranks * hosts))
    return float(model @ terms(agents, n, d, ranks * hosts)) + crossing + messages


def read(file: Path) -> dict[Point, tuple[float, float]]:
    return {(N, n, d, ranks): (seconds, reading) for N, n, d, ranks, seconds, reading in json.loads(file.read_text())}


def draw(found: dict[Point, tuple[float, float]], model: Vector, folder: Path) -> None:
    """Draw the curves, the model and the limit into scaling.png."""
    places = {"agents N": 0, "records of an agent n": 1, "features d": 2, "ranks": 3}
    panels = []
    for name, points in CURVES.items():
        x = [where[places[name]] for where in points]
        lines = {
            "a round": (BLUE, "o", [found[where][0] for where in points]),
            "the model": (RED, "", [float(model @ terms(*where)) for where in points]),
            "reading the records once": (GREY, "", [found[where][1] for where in points]),
        }
        dashes = {"the model": "dashed", "reading the records once": "dotted"}
        curves = tuple(
            Curve(label, Look(colour, marker, dashes.get(label, "solid")), x, [1e3 * value for value in y])
            for label, (colour, marker, y) in lines.items()
        )
        fixed = [f"{letter} = {points[0][k]:,}" for k, letter in enumerate(("N", "n", "d")) if places[name] != k]
        panels.append(Panel(", ".join(fixed), name, "ms a round", curves, xlog=True, ylog=True))
    note = "Processor time of the rank that takes most; pp-admm, 4 neighbours, least of 3 runs; one rank, or as told."
    picture = Picture("What a round costs", (tuple(panels[:2]), tuple(panels[2:])), note)
    save(folder / "scaling.png", picture, dpi=120)


def report(found: dict[Point, tuple[float, float]], model: Vector) -> None:
    """Print the fit, the points held out, rounds over reading, and the table of a cluster."""
    print("; ".join(f"{c * scale:.3g} {unit}" for c, (scale, unit) in zip(model, UNITS, strict=True)))
    seen = [where for where in found if where not in HELD_OUT]
    off = [abs(float(model @ terms(*where)) / found[where][0] - 1.0) for where in seen]
    print(f"fit: {np.median(off):.0%} off at the median of {len(seen)} points, {max(off):.0%} at most")
    for where in HELD_OUT:
        seconds, said = found[where][0], float(model @ terms(*where))
        print(f"held out {where}: {1e3 * seconds:.2f} ms, the model says {1e3 * said:.2f}, {said / seconds - 1.0:+.0%}")
    print(row("hosts x ranks", *(f"{N:,} agents" for N in (1000, 10_000))), row(*["---"] * 3), sep="\n")
    for hosts, ranks in ((1, 1), (1, 2), (1, 16), (4, 16), (16, 16)):
        cells = [f"{1e3 * predicted(model, N, 1000, 100, ranks, hosts):,.0f} ms" for N in (1000, 10_000)]
        print(row(f"{hosts} x {ranks}", *cells))


def main() -> None:
    """Measure, or read what was measured, and print; draw if asked."""
    parser = argparse.ArgumentParser(description="Scaling curves of a round, and a model of it for a cluster.")
    parser.add_argument("point", nargs="*", help="what a process of this script's own is told")
    parser.add_argument(
        "--figures", type=Path, help="read points from this file; where there is none, measure and write"
    )
    parser.add_argument("--draw", type=Path, help="folder for scaling.png")
    words = parser.parse_args()
    if words.point:
        _, agents, n, d, folder = words.point
        point(int(agents), int(n), int(d), folder)
        return
    points = dict.fromkeys([*(where for curve in CURVES.values() for where in curve), *HELD_OUT])
    file = words.figures
    found = read(file) if file is not None and file.exists() else measured(list(points))
    if file is not None:
        file.write_text(json.dumps([[*where, *value] for where, value in found.items()]) + "\n")
    model = fitted({where: value for where, value in found.items() if where not in HELD_OUT})
    if words.draw is not None:
        draw(found, model, words.draw)
    report(found, model)


if __name__ == "__main__":
    main()
