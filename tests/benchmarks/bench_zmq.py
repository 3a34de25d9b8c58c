"""Round time of the zmq transport against a plain PUSH/PULL ping of the same size, on loopback.

Five processes on a complete graph exchange vectors of 105 numbers a thousand times over tcp with CURVE, once more
over ipc. The yardstick is what ZeroMQ itself needs in the same run: two processes send one bare message of the
same size each way, without CURVE, header, checksum or rules; a round trip is halved. Five processes share the
cores of the machine, so a round is far more than one message: the ratio says how much.

    python -m tests.benchmarks.bench_zmq [ROUNDS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import zmq

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
    words = ("-m", "tests.benchmarks.bench_zmq", "echo", *map(str, ports), str(rounds))
    child = subprocess.Popen([sys.executable, *words], cwd=Path(__file__).resolve().parents[2])
    message, times = os.urandom(HEADER + 8 * NUMBERS), []
    try:
        for _ in range(rounds):
            begin = time.perf_counter()
            out.send(message)
            if not back.poll(20_000):
                raise SystemExit("no echo within 20 s")
            back.recv()
            times.append(500 * (time.perf_counter() - begin))
        child.wait(20)
    finally:
        child.kill()
        child.wait()
        context.destroy(0)
    return np.array(times[rounds // 10 :])


def echo(into: str, out: str, rounds: str) -> None:
    context = zmq.Context()
    pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    pull.connect(f"tcp://127.0.0.1:{into}")
    push.connect(f"tcp://127.0.0.1:{out}")
    for _ in range(int(rounds)):
        if not pull.poll(20_000):
            break
        push.send(pull.recv())
    context.destroy(1000)


def exchange(rounds: int, *, curve: bool) -> np.ndarray:
    """Milliseconds of every round at every process."""
    spec: dict[str, Any] = {"rounds": rounds, "numbers": NUMBERS, "job": "times", "deadlines": QUICK}
    with (
        tempfile.TemporaryDirectory(prefix="admmnet-") as folder,
        Crew(Path(folder), complete(AGENTS), AGENTS, curve=curve, **spec) as crew,
    ):
        codes = crew.start().finish()
        if any(codes.values()):
            raise SystemExit(crew.report())
        tables = [member.said("times")[0] for member in crew.members.values()]
    times: np.ndarray = 1000 * np.array(tables)[:, rounds // 10 :]  # the first ones warm up
    return times.ravel()


def main(rounds: int) -> None:
    bare = np.median(ping(rounds))
    print(f"{'what':28} {'median ms':>10} {'p99 ms':>8} {'against a ping':>15}")
    print(f"{'bare message, one way':28} {bare:10.3f} {'':8} {1:15.1f}")
    result = {}
    for name, curve in (("5 agents, tcp with CURVE", True), ("5 agents, ipc", False)):
        times = exchange(rounds, curve=curve)
        result[name] = median = float(np.median(times))
        print(f"{name:28} {median:10.3f} {np.percentile(times, 99):8.3f} {median / bare:15.1f}")
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0], **result}))
    if result["5 agents, tcp with CURVE"] > TARGET:
        raise SystemExit(f"the median round must stay below {TARGET:g} ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["echo"]:
        echo(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
