"""Five agents for many minutes, stopped, killed, parted and cut off: all finish, nothing grows.

Every agent is `admmnet agent` over tcp with CURVE, in a process of its own; a proxy stands on every line. Once in a few
seconds an agent is stopped (SIGSTOP) or lines are cut, for less than the deadlines. Now and then an agent is killed and
started again at once, or the network is parted for longer than the deadlines. Once an agent is away for so long that
the others go on without it; it comes back. In the end every agent must have finished with the same model; ledgers and
receipts must verify, within each folder and against the others; and memory and descriptors of the last quarter must be
those of the second. The last half a minute does not count, in which figures of the whole run are made.

    python -m tests.benchmarks.soak [MINUTES]
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from admmnet.transport.hosts.network import read_network, write_network
from tests.processes.launch import ROOT
from tests.processes.zmq_crew import Proxy, free_ports, proxy_to

AGENTS, TRIAL = 5, 300
HEARTBEAT = 4.0
REGROUP = 10.0
"""Seconds after which the others go on without who is away."""
AWAY = 60.0
"""Seconds for which an agent is away, at most a fifth of the whole."""
GROWTH = 8 * 2**20
"""Bytes by which the last quarter may be above the second: what allocators and page caches do."""
KILLS, PARTS = 0.08, 0.04
"""How often an agent is killed, or the network parted, in place of something smaller."""
END = 30.0
"""Seconds at the end that do not count."""
PROGRAM = (sys.executable, "-m", "admmnet")


def network_files(folder: Path, opened: ExitStack) -> dict[tuple[int, int], Proxy]:
    """A network file for every agent, in which all others are reached by a proxy of their own; the proxies."""
    (folder / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(AGENTS)))
    words = ("network", "init", f"complete:{AGENTS}", "--hosts", folder / "hosts", "-o", folder / "net")
    subprocess.run([*PROGRAM, *map(str, words)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60)
    network = read_network(folder / "net" / "network.toml")
    proxies = {
        (i, j): opened.enter_context(proxy_to(network.peers[j].address, keep=False))
        for i, j in permutations(range(AGENTS), 2)
    }
    for i in range(AGENTS):
        peers = tuple(
            p if p.agent == i else structs.replace(p, address=proxies[i, p.agent].address) for p in network.peers
        )
        write_network(replace(network, peers=peers), folder / "net" / f"network-{i}.toml")
    return proxies


def start(folder: Path, name: str, rounds: int) -> list[subprocess.Popen[bytes]]:
    """All agents, with folders of their own."""
    settings = {"algorithm": "pp-admm", "data": "census", "split": "iid", "seed": 0, "rounds": rounds, "epsilon": 1000}
    settings |= {"heartbeat-deadline": HEARTBEAT, "round-deadline": 120, "regroup-deadline": REGROUP}
    settings |= {"strikes": 10_000, "resume": "auto"}
    words = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    return [start_one(folder, name, i, words) for i in range(AGENTS)]


def start_one(folder: Path, name: str, i: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """An agent, new or one that goes on."""
    own = {
        "--id": i,
        "--network": folder / "net" / f"network-{i}.toml",
        "--secret": folder / "net" / "keys" / f"agent-{i:03d}.secret.toml",
        "-o": folder / f"{name}-{i}",
    }
    return begin([*PROGRAM, "agent", *(str(word) for pair in own.items() for word in pair), *words])


def begin(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start an agent, whose messages go to a file beside its folder."""
    env, out = os.environ | {"OPENBLAS_NUM_THREADS": "1"}, command[command.index("-o") + 1]
    with Path(f"{out}.err").open("ab") as said:
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=said)


def killed(processes: list[subprocess.Popen[bytes]], i: int, away: float) -> None:
    """Kill an agent, and start it again by the same command after some time."""
    processes[i].kill()
    processes[i].wait()
    time.sleep(away)
    command: Any = processes[i].args
    processes[i] = begin(command)


def wait_for(processes: list[subprocess.Popen[bytes]], folder: Path, name: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    for i, process in enumerate(processes):
        code = process.wait(max(1.0, until - time.monotonic()))
        if code:
            raise SystemExit(f"agent {i} ended with {code}:\n{(folder / f'{name}-{i}.err').read_text()}")


def size_of(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Bytes of memory and number of descriptors of a process."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize(), len(os.listdir(f"/proc/{process.pid}/fd"))


def disturb(
    processes: list[subprocess.Popen[bytes]],
    proxies: Mapping[tuple[int, int], Proxy],
    chance: random.Random,
    counts: dict[str, int],
) -> None:
    """Kill an agent, part the network, or stop an agent and cut lines for less than every deadline."""
    if chance.random() < KILLS:
        counts["kills"] += 1
        killed(processes, chance.randrange(AGENTS), chance.uniform(0.0, 2.0))
        return
    if chance.random() < PARTS:
        counts["partitions"] += 1
        few = set(chance.sample(range(AGENTS), 2))
        parted([line for pair, line in proxies.items() if len(few & set(pair)) == 1])
        return
    cut = chance.sample(sorted(proxies), chance.choice((0, 1, 1, 2, 4)))
    stopped = [chance.choice(processes)] if not cut or chance.random() < 0.3 else []
    counts["cuts"] += len(cut)
    counts["stops"] += len(stopped)
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    for line in cut:
        proxies[line].cut()
    time.sleep(chance.uniform(0.05, 0.15 * HEARTBEAT))
    for line in cut:
        proxies[line].mend()
    for process in stopped:
        process.send_signal(signal.SIGCONT)


def parted(lines: list[Proxy]) -> None:
    """Cut lines for longer than it takes to see that, and for less than the others wait."""
    for line in lines:
        line.cut()
    time.sleep(1.5 * HEARTBEAT)
    for line in lines:
        line.mend()


def grown(samples: list[list[tuple[int, int]]]) -> list[str]:
    """What has grown from the second quarter to the last, at which agent."""
    quarter, found = len(samples) // 4, []
    for i in range(AGENTS):
        for place, (what, allowed) in enumerate((("bytes of memory", GROWTH), ("descriptors", 4))):
            early, late = (
                max(sample[i][place] for sample in part)
                for part in (samples[quarter : 2 * quarter], samples[3 * quarter :])
            )
            print(f"agent {i}: {what}: second quarter at most {early}, last quarter at most {late}")
            if late > early + allowed:
                found.append(f"agent {i}: {what} grew from {early} to {late}")
    return found


def verify(folder: Path) -> list[str]:
    """What `ledger verify` finds, in every folder by itself and against all others."""
    found = []
    runs = [str(folder / f"soak-{i}") for i in range(AGENTS)]
    for run in runs:
        others = [word for other in runs if other != run for word in ("--against", other)]
        words = ["ledger", "verify", run, *others]
        said = subprocess.run([*PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, timeout=1800)
        print(said.stdout.strip())
        if said.returncode:
            found.append(f"{run}: {said.stderr.strip()}")
    models = {np.load(Path(run) / "model.npz")["theta"].tobytes() for run in runs}
    if len(models) > 1:
        found.append("agents have different models")
    for run in runs:
        summary = json.loads((Path(run) / "summary.json").read_text())
        print(f"{run}: {len(summary.get('starts', []))} starts, away {summary.get('away', {})}")
        if summary.get("starts") and len(summary["starts"][-1]["members"]) < AGENTS:
            found.append(f"{run}: the last start is without some agent")
    return found


def main(minutes: float) -> None:
    chance, counts = random.Random(0), {"stops": 0, "cuts": 0, "kills": 0, "partitions": 0, "away": 0}
    with tempfile.TemporaryDirectory(prefix="soak-") as name, ExitStack() as opened:
        folder = Path(name)
        proxies = network_files(folder, opened)
        trial = start(folder, "trial", TRIAL)
        wait_for(trial, folder, "trial", 600)
        took = json.loads((folder / "trial-0" / "summary.json").read_text())["seconds"]["total"]
        rounds = max(TRIAL, int(60 * minutes * TRIAL / took))
        print(f"{rounds} rounds: {TRIAL} took {took:.1f} s")
        processes = start(folder, "soak", rounds)
        samples: list[tuple[float, list[tuple[int, int]]]] = []
        begun = time.monotonic()
        while all(process.poll() is None for process in processes):
            if time.monotonic() > begun + 240 * minutes + 600:
                raise SystemExit(f"not finished after {time.monotonic() - begun:.0f} s")
            samples.append((time.monotonic(), [size_of(process) for process in processes]))
            time.sleep(chance.uniform(1.0, 4.0))
            if any(process.poll() is not None for process in processes):
                break
            if not counts["away"] and time.monotonic() > begun + 20 * minutes:
                counts["away"] = 1
                killed(processes, 3, min(AWAY, 12 * minutes))
            disturb(processes, proxies, chance, counts)
        wait_for(processes, folder, "soak", 600)
        end = samples[-1][0] - END
        faults = verify(folder) + grown([sizes for at, sizes in samples if at < end])
        print(json.dumps({"minutes": (time.monotonic() - begun) / 60, "rounds": rounds, **counts}))
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
