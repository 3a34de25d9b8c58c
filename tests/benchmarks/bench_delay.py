"""What a round and the start cost between hosts that are far apart: every line has a delay of its own.

Every agent is `admmnet agent` over tcp with CURVE, in a process of its own, in a private run; a proxy on every line
hands on what comes after DELAY milliseconds, and a connection costs a round trip. The exchange of a round is what
agents spend in sending and waiting for vectors. Start and end are what is left once all are connected, less that of a
run without delays, in round trips.

    python -m tests.benchmarks.bench_delay [AGENTS [TOPOLOGY [DELAY [ROUNDS [WORDS ...]]]]]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import structs

from admmnet.transport.hosts.network import read_network, write_network
from tests.people_runs import write_people
from tests.processes.launch import ROOT
from tests.processes.zmq_crew import free_ports, proxy_to

DEADLINE = 900.0
PROGRAM = (sys.executable, "-m", "admmnet")
WORDS = ("--algorithm", "pp-admm", "--epsilon", "10", "--no-account", "--no-test", "--quiet")


def run(agents: int, topology: str, delay: float, rounds: int, *words: str) -> tuple[float, float, float]:
    """Seconds of a round and of its exchange, medians over agents, and of all besides rounds."""
    with tempfile.TemporaryDirectory(prefix="admmnet-") as name, ExitStack() as opened:
        folder = Path(name)
        (folder / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(agents)))
        init = ("network", "init", topology, "--hosts", str(folder / "hosts"), "-o", str(folder / "net"))
        subprocess.run([*PROGRAM, *init], check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=DEADLINE)
        people = write_people(folder / "people.npz", 100 * agents)
        network, running = read_network(folder / "net" / "network.toml"), []
        for i in range(agents):
            known = {
                j: opened.enter_context(proxy_to(network.peers[j].address, keep=False, delay=delay)).address
                for j in network.neighbours(i)
            }
            peers = tuple(structs.replace(peer, address=known.get(peer.agent, peer.address)) for peer in network.peers)
            own = folder / "net" / f"network-{i}.toml"
            write_network(replace(network, peers=peers), own)
            place = ("--id", i, "--network", own, "--secret", folder / "net" / "keys" / f"agent-{i:03d}.secret.toml")
            command = [*PROGRAM, "agent", *map(str, place), *WORDS, "--data", people, "--rounds", str(rounds), *words]
            command += ["--log", str(folder / f"{i}.log"), "--log-level", "debug", "-o", str(folder / str(i))]
            running.append(subprocess.Popen(command, cwd=ROOT))
        try:
            codes = [process.wait(DEADLINE) for process in running]
        finally:
            for process in running:
                process.kill()
        if any(codes):
            raise SystemExit(f"exit codes {codes}")
        figures = [figures_of(folder / str(i), folder / f"{i}.log") for i in range(agents)]
    round_, exchange, besides = np.median(figures, axis=0).tolist()
    return round_, exchange, besides


def figures_of(run_folder: Path, log: Path) -> tuple[float, float, float]:
    """What one agent says: seconds of a round and of its exchange, and of the run besides its rounds."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [datetime.fromisoformat(event["time"]) for event in events if event["event"] == "round"]
    summary = json.loads((run_folder / "summary.json").read_text())
    rounds, spent = summary["rounds"], summary["seconds"]
    round_ = (ends[rounds - 1] - ends[0]).total_seconds() / (rounds - 1)
    return round_, spent["exchange"] / rounds, spent["total"] - rounds * round_


def main(agents: int, topology: str, delay: float, rounds: int, *words: str) -> None:
    """Print what a round and the start cost."""
    besides = {}
    for late in (0.0, delay):
        round_, exchange, besides[late] = run(agents, topology, late, rounds, *words)
        sys.stdout.write(
            f"{topology}, {1000 * late:g} ms one way: a round {1000 * round_:.0f} ms, its exchange "
            f"{1000 * exchange:.0f} ms, {round_ / exchange:.2f} times; start and end {besides[late]:.2f} s\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"start and end cost {(besides[delay] - besides[0.0]) / (2 * delay):.1f} round trips\n")


if __name__ == "__main__":
    given = sys.argv[1:]
    count = int(given[0]) if given else 16
    graph = given[1] if len(given) > 1 else f"regular:{count}:4"
    main(
        count,
        graph,
        float(given[2]) / 1000 if len(given) > 2 else 0.05,
        int(given[3]) if len(given) > 3 else 40,
        *given[4:],
    )
