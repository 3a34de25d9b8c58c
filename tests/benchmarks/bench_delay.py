"""What a round and the start cost between hosts that are far apart: every line has a delay of its own.

Every agent is `admmnet agent` over tcp with CURVE, in a process of its own, in a private run; a proxy on every line
hands on what comes after DELAY milliseconds, and a connection costs a round trip. The exchange of a round is what
agents spend in sending and waiting for vectors; the first round is left out. What comes before it, and what comes after
the last, is told in round trips: a run without delays is taken off. Ends with exit code 1 if a round with the delay
takes more than 1.3 times its exchange.

    python -m tests.benchmarks.bench_delay [AGENTS [TOPOLOGY [DELAY [ROUNDS [WORDS ...]]]]]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs

from admmnet.transport.hosts.network import read_network, write_network
from tests.people_runs import write_people
from tests.processes.launch import ROOT
from tests.processes.zmq_crew import free_ports, proxy_to

DEADLINE = 900.0
PROGRAM = (sys.executable, "-m", "admmnet")
TIMED = (sys.executable, "-m", "tests.benchmarks.timed_agent")
MOST = 1.3
"""A round over its exchange, where lines have a delay."""
WORDS = ("--algorithm", "pp-admm", "--epsilon", "10", "--no-account", "--no-test", "--quiet")


def run(agents: int, topology: str, delay: float, rounds: int, *words: str) -> list[float]:
    """Seconds of a round, of its exchange, before the rounds, of these since all lines stood, and after: medians."""
    with tempfile.TemporaryDirectory(prefix="admmnet-") as name, ExitStack() as opened:
        folder = Path(name)
        (folder / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(agents)))
        init = ("network", "init", topology, "--hosts", str(folder / "hosts"), "-o", str(folder / "net"))
        subprocess.run([*PROGRAM, *init], check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=DEADLINE)
        people = write_people(folder / "people.npz", 100 * agents)
        network, running = read_network(folder / "net" / "network.toml"), []
        begun = time.monotonic()
        for i in range(agents):
            known = {
                j: opened.enter_context(proxy_to(network.peers[j].address, keep=False, delay=delay)).address
                for j in network.neighbours(i)
            }
            peers = tuple(structs.replace(peer, address=known.get(peer.agent, peer.address)) for peer in network.peers)
            own = folder / "net" / f"network-{i}.toml"
            write_network(replace(network, peers=peers), own)
            place = ("--id", i, "--network", own, "--secret", folder / "net" / "keys" / f"agent-{i:03d}.secret.toml")
            command = [*TIMED, str(folder / f"{i}.json"), "agent", *map(str, place), *WORDS, "--data", people]
            command += ["--rounds", str(rounds), *words, "-o", str(folder / str(i))]
            running.append(subprocess.Popen(command, cwd=ROOT))
        try:
            codes = [process.wait(DEADLINE) for process in running]
        finally:
            for process in running:
                process.kill()
        if any(codes):
            raise SystemExit(f"exit codes {codes}")
        figures, told = [], [json.loads((folder / f"{i}.json").read_text()) for i in range(agents)]
        stood = max(at["lines"] for at in told)
        for at in told:
            rounds_, exchange = (at["last"] - at["first"]) / at["rounds"], at["exchange"] / at["rounds"]
            figures.append((rounds_, exchange, at["begun"] - begun, at["begun"] - stood, at["end"] - at["last"]))
    return [float(median) for median in np.median(figures, axis=0)]


def main(agents: int, topology: str, delay: float, rounds: int, *words: str) -> None:
    """Print what a round and the start cost."""
    found = {}
    for late in (0.0, delay):
        round_, exchange, start, stood, end = found[late] = run(agents, topology, late, rounds, *words)
        sys.stdout.write(
            f"{topology}, {1000 * late:g} ms one way: a round {1000 * round_:.0f} ms, its exchange "
            f"{1000 * exchange:.0f} ms, {round_ / exchange:.2f} times; start {start:.2f} s, "
            f"{stood:.2f} s since lines stood, end {end:.2f} s\n"
        )
        sys.stdout.flush()
    start, stood, end = ((found[delay][k] - found[0.0][k]) / (2 * delay) for k in (2, 3, 4))
    sys.stdout.write(f"start {start:.1f} round trips, {stood:.1f} since lines stood, end {end:.1f}\n")
    round_, exchange = found[delay][:2]
    if round_ > MOST * exchange:
        raise SystemExit(f"a round must take at most {MOST:g} times its exchange")


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
