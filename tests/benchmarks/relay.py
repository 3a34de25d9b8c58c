"""Agents over one relay, measured as whole processes: ``relay.py delay``, ``soak SECONDS [SEED]``.

``delay``: seconds of a round of pp-admm on ring:16, d = 100, behind lines of 50 ms each way, over two hops, and round
trips of a start. ``soak``: the relay is killed, or moves to another address with another key, and agents are killed,
all started again by the same commands; memory and open files at the end over those after a sixth of the time.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from admmnet.__main__ import main
from admmnet.transport.zmq.member import ZmqTransport
from tests.people_runs import write_people
from tests.processes.relayed import Hosts

DELAY, REPEATS = 0.05, 5
PLAIN = ("--algorithm", "pp-admm", "--seed", "3", "--quiet", "--no-test", "--measure-every", "1000000")
WAIT = ("--connect-deadline", "600", "--heartbeat-deadline", "60")


class Measured(Hosts):
    """Hosts with records of their own size, whose lines are as long as asked."""

    def __init__(self, folder: Path, graph: str, rounds: int, width: int, delay: float = 0.0) -> None:
        super().__init__(folder, rounds, *WAIT, "--strikes", "1000", graph=graph, own=WAIT, delay=delay)
        data = write_people(folder / "rows.npz", 60 * self.agents, width=width)
        self.words = (*PLAIN, "--rounds", str(rounds), "--data", data)

    def module(self, agent: int) -> str:
        return "tests.benchmarks.relay"

    def own(self, agent: int) -> dict[str, str]:
        return {"ADMMNET_TIMES": str(self.folder / f"times-{agent}")}


def timed_agent() -> None:
    """`admmnet agent` that writes down when it began, came to its first exchange, and had each exchange over."""
    exchange, times = ZmqTransport.exchange, [time.monotonic()]

    def timing(self: ZmqTransport, *given: Any, **more: Any) -> Any:
        times.extend([time.monotonic()] * (len(times) == 1))
        found = exchange(self, *given, **more)
        times.append(time.monotonic())
        return found

    ZmqTransport.exchange = timing  # type: ignore[method-assign]
    atexit.register(lambda: Path(os.environ["ADMMNET_TIMES"]).write_text(json.dumps(times)))
    main()


def usage(pid: int) -> tuple[int, int]:
    """Pages of a process's memory, and its open files."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]), len(os.listdir(f"/proc/{pid}/fd"))


def delayed() -> None:
    """Median of a round's seconds over two hops, and the round trips of a start, of the agent that began last."""
    middle = median(np.concatenate([np.diff(own[6:]) for own in timed(16, 60, DELAY)]).tolist())
    starts = [
        min(times[0][1] - max(own[0] for own in times) for times in [timed(3, 2, delay) for _ in range(REPEATS)])
        for delay in (0.0, DELAY)
    ]
    print(
        f"a round of ring:16 at d = 100 behind lines of 50 ms: {1000 * middle:.0f} ms, two hops {2000 * DELAY:.0f} ms; "
        f"from the begin of an agent to its first exchange {(starts[1] - starts[0]) / (2 * DELAY):.1f} round trips"
    )


def timed(agents: int, rounds: int, delay: float) -> list[list[float]]:
    """Instants of agents on a ring, see ``timed_agent``."""
    with tempfile.TemporaryDirectory() as name, Measured(Path(name), f"ring:{agents}", rounds, 100, delay) as hosts:
        hosts.start_all()
        assert {code for code, _ in hosts.all_ended()} == {0}
        return [json.loads((hosts.folder / f"times-{i}").read_text()) for i in range(agents)]


def soak(seconds: float, seed: int) -> None:
    """Kills and moves in a run without end; agents 0 and 1 and the relay are measured before each that ends them."""
    stream, begun = np.random.default_rng(seed), time.monotonic()
    marks: dict[str, list[tuple[float, int, int]]] = {"agents": [], "relay": []}
    events = dict.fromkeys(("relay killed", "relay moved", "agent killed"), 0)
    with tempfile.TemporaryDirectory() as name, Measured(Path(name), "ring:5", 10**6, 100) as hosts:
        hosts.start_all()
        while (age := time.monotonic() - begun) < seconds:
            threading.Event().wait(float(stream.uniform(5.0, 15.0)))
            ended = {i: process.poll() for i, process in hosts.processes.items()}
            told = {i: hosts.ended(i) for i, code in ended.items() if code is not None}
            assert not told, told
            for i in (-1, 0, 1):
                marks["relay" if i < 0 else "agents"].append((age, *usage(hosts.processes[i].pid)))
            # moves end all processes: one in the first sixth alone, so that the others grow as old as they can
            how = str(stream.choice(["relay killed", "agent killed"])) if events["relay moved"] else "relay moved"
            if how == "relay killed" and age > seconds / 8:
                continue  # the relay grows old, too
            events[how] += 1
            if how == "agent killed":
                agent = int(stream.integers(2, 5))
                hosts.kill(agent)
                hosts.start(agent)
                continue
            hosts.kill(-1)
            if how == "relay moved":
                hosts.move()
            hosts.start_relay()
        lines = (hosts.folder / "relay.log").read_text().count('"event": "start"')
    print(f"{seconds:.0f} s: {events}, {lines} starts, nobody has ended")
    for whom, found in marks.items():
        early = [mark for mark in found if seconds / 8 < mark[0] < seconds / 5]
        late = [mark for mark in found if mark[0] > 0.9 * seconds]
        memory, files = (max(one[k] for one in late) / max(one[k] for one in early) for k in (1, 2))
        print(f"{whom}: memory {memory:.2f} times, open files {files:.2f} times those after a sixth of the time")


if __name__ == "__main__":
    if sys.argv[1] == "soak":
        soak(float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    else:
        {"agent": timed_agent, "delay": delayed}[sys.argv[1]]()
