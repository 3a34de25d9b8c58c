"""Round time of the zmq transport against a plain PUSH/PULL ping of the same size, on loopback.

Five processes on a complete graph exchange vectors of 105 numbers over tcp with CURVE, once more over ipc. The
yardstick is what ZeroMQ itself needs in the same run: two processes send one bare message of the same size each way,
without CURVE, header, checksum or rules; a round trip is halved. Five processes share the cores of the machine, so a
round is far more than one message: the ratio says how much. What receipts cost is measured in one run, of which every
other round has them.

    python -m tests.benchmarks.bench_zmq [ROUNDS]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from scipy.stats import trim_mean

from admmnet.record.folder import RECEIPTS
from admmnet.transport.zmq.wire import HEADER
from tests.processes.zmq_crew import QUICK, Crew, complete

AGENTS, NUMBERS, ROUNDS = 5, 105, 1000
TARGET = 2.0
"""Milliseconds of the median round."""


def ping(rounds: int) -> np.ndarray:
    """Milliseconds of one bare message from process to process."""
    context = zmq.Context()
    out, back = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (out, back)]
    child = get_context("spawn").Process(target=echo, args=(*ports, rounds), daemon=True)
    child.start()
    message, times = os.urandom(HEADER + 8 * NUMBERS), []
    try:
        for _ in range(rounds):
            begin = time.perf_counter()
            out.send(message)
            if not back.poll(20_000):
                raise SystemExit("no echo within 20 s")
            back.recv()
            times.append(500 * (time.perf_counter() - begin))
    finally:
        child.kill()
        context.destroy(0)
    return np.array(times[rounds // 10 :])


def echo(into: int, out: int, rounds: int) -> None:
    context = zmq.Context()
    pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    pull.connect(f"tcp://127.0.0.1:{into}")
    push.connect(f"tcp://127.0.0.1:{out}")
    for _ in range(rounds):
        if not pull.poll(20_000):
            break
        push.send(pull.recv())
    context.destroy(1000)


def exchange(rounds: int, *, curve: bool, receipts: bool = False) -> np.ndarray:
    """Milliseconds of every round at every process, on the clock and of its own: (processes, rounds, 2)."""
    spec: dict[str, Any] = {"rounds": rounds, "numbers": NUMBERS, "job": "times", "deadlines": QUICK}
    with (
        tempfile.TemporaryDirectory(prefix="admmnet-") as name,
        Crew(Path(name), complete(AGENTS), AGENTS, curve=curve, keep=name, receipts=receipts, **spec) as crew,
    ):
        (Path(name) / RECEIPTS).mkdir()
        if any(crew.start().finish().values()):
            raise SystemExit(crew.report())
        tables = [member.said("times")[0] for member in crew.members.values()]
    return 1000 * np.array(tables)[:, 2 * (rounds // 20) :]  # the first ones warm up


def main(rounds: int) -> None:
    bare = np.median(ping(rounds))
    print(f"{'what':28} {'median ms':>10} {'p99 ms':>8} {'against a ping':>15}")
    print(f"{'bare message, one way':28} {bare:10.3f} {'':8} {1:15.1f}")
    medians = {}
    for name, curve in (("5 agents, ipc", False), ("5 agents, tcp with CURVE", True)):
        times = exchange(rounds, curve=curve)[..., 0]
        medians[name] = median = float(np.median(times))
        print(f"{name:28} {median:10.3f} {np.percentile(times, 99):8.3f} {median / bare:15.1f}")
    mixed = exchange(rounds, curve=True, receipts=True)
    # every 16th round with receipts verifies and writes: means, without the tenth that the machine disturbed most
    without, with_ = (trim_mean(mixed[:, start::2], 0.1, axis=1).mean(axis=0) for start in (0, 1))
    for what, plain, more in zip(("clock", "processor"), without, with_ - without, strict=True):
        share = f"({100 * more / plain:.1f} %)"
        print(f"receipts in every other round, {what}: {plain:.3f} ms without, {more:.3f} ms more with {share}")
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], **medians}))
    if median > TARGET:
        raise SystemExit(f"the median round must stay below {TARGET:g} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
