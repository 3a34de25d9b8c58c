"""Runs that are killed at random instants and resumed: ledgers verify, and account every message that was received.

``ADMMNET_KILLS=200`` in the environment asks for that many kills a transport; without it there are a few.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger import audit
from admmnet.record.reader import look_at
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.local import LocalTransport, LocalWorld
from tests.people_runs import write_people

from .launch import DEADLINE, ROOT, mpirun_path
from .warm import FORKS

pytestmark = pytest.mark.processes
KILLS = int(os.environ.get("ADMMNET_KILLS", "6"))
AGENTS, ROUNDS = 3, 40
METHODS: dict[str, dict[str, Any]] = {
    "pp-admm": {"algorithm": "pp-admm"},
    "output": {"algorithm": "pp-admm", "release": "output"},
    "ipp-admm": {"algorithm": "ipp-admm", "gate": "above-threshold"},
}


def config(folder: Path, name: str, method: str, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"topology": f"ring:{AGENTS}", "rounds": ROUNDS, "epsilon": 5.0}
    values |= {"data": str(folder / "people.npz"), "out": str(folder / name)}
    values |= {"delta": 1e-4} | METHODS[method] | others
    return RunConfig(**values, no_test="seed" not in values)


class Logging(LocalTransport):
    """Writes down what every agent says before any neighbour can hear it."""

    def __init__(self, world: LoggingWorld, graph: nx.Graph, block: int = 1) -> None:
        super().__init__(world, graph, block)
        self._log = world.log

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        said = [[round, i, v.tobytes().hex()] for i, v in outgoing.items() if v is not None]
        with self._log.open("a") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in said))
        return super().exchange(outgoing, round)


class LoggingWorld(LocalWorld):
    def __init__(self, log: Path) -> None:
        self.log = log

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Logging(self, graph, block)


def victim(settings: RunConfig, log: Path) -> None:
    """Run in a process of its own until somebody kills it."""
    run(settings, world=LoggingWorld(log))


def attempt(settings: RunConfig, log: Path, seconds: float) -> bool:
    """Run for some seconds at most, then SIGKILL; return whether the run ended by itself."""
    process = FORKS.Process(target=victim, args=(settings, log))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join(DEADLINE)
    code = process.exitcode
    process.close()
    assert code in (0, -9), code
    return code == 0


def length(settings: RunConfig, log: Path) -> float:
    """Seconds that the run takes there, from the start of its process."""
    attempt(settings, log.with_name("warm.jsonl"), 0.0)
    begin = time.perf_counter()
    assert attempt(settings, log, DEADLINE)
    return time.perf_counter() - begin


def messages(log: Path) -> list[tuple[int, int, str]]:
    """Round, agent and message; the last line may be torn, its message was not handed over."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [(round_, agent, vector) for round_, agent, vector in map(json.loads, lines)]


def charged(book: audit.VerifiedLedger, method: str) -> Counter[int]:
    """Releases charged, by round."""
    kind = Gaussian if method == "output" else ObjectivePerturbation
    return Counter(round_ for round_, event, _ in book.events if isinstance(event, kind))


def check_folder(folder: Path) -> list[audit.VerifiedLedger]:
    """Whatever there is verifies."""
    if not any((folder / "ledger").glob("agent-*.jsonl")):
        return []
    # killed between the last two files: `verify` says that a resume makes the one that is missing
    last = (folder / "manifest.json").exists() and not (folder / "summary.json").exists()
    run = look_at(folder)
    assert [fault for fault in run.faults if not (last and "--resume goes on" in fault)] == []
    return list(run.ledgers.values())


def check_sent(said: list[tuple[int, int, str]], books: list[audit.VerifiedLedger], method: str) -> None:
    """What was sent is charged, once, and always the same."""
    for agent in {*range(len(books)), *(speaker for _, speaker, _ in said)}:
        received = Counter(round_ for round_, speaker, _ in set(said) if speaker == agent)
        # killed while the ledgers were made, it leaves some of them
        paid = charged(books[agent], method) if agent < len(books) else Counter()
        assert all(received[round_] == 1 == paid[round_] for round_ in received), (agent, received, paid)
        assert sum(paid.values()) == len(paid), (agent, paid)


@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.parametrize(("method", "seed"), [*((method, None) for method in METHODS), ("ipp-admm", 5)])
def test_killed_at_random_instants(method: str, seed: int | None, tmp_path: Path) -> None:
    """Every message ever received stands in ledgers and account; seeded runs end as if nobody had been killed."""
    write_people(tmp_path / "people.npz", 160, width=3, noise=0.5)
    stream = np.random.default_rng(KILLS)

    def settings_of(name: str, account: Path) -> RunConfig:
        own: dict[str, Any] = {"account": str(account)} if seed is None else {"seed": seed}
        return config(tmp_path, name, method, epsilon=8.0, **own)

    whole = length(settings_of("whole", tmp_path / "first"), tmp_path / "whole.jsonl")
    check_sent(messages(tmp_path / "whole.jsonl"), check_folder(tmp_path / "whole"), method)
    expected = digests(tmp_path / "whole")
    kills = trial = 0
    while kills < -(-KILLS // 4):
        trial, done, own = trial + 1, False, 0
        folder, account, log = (tmp_path / f"{name}{trial}" for name in ("run", "account", "sent"))
        settings = settings_of(folder.name, account).changed(resume="auto")
        while not done:
            done = attempt(settings, log, float(stream.uniform(0.1, 1.1)) * whole)
            own += not done
            books = check_folder(folder)
            if seed is None:
                check_sent(messages(log), books, method)
                check_accounts(books, account, method)
        assert seed is None or digests(folder) == expected
        kills += own


def check_accounts(books: list[audit.VerifiedLedger], account: Path, method: str) -> None:
    for i, book in enumerate(books):
        file = account / f"agent-{i:03d}.jsonl"
        if not file.stat().st_size:
            assert not book.events
            continue
        total = audit.read(file, account=True)
        assert charged(book, method) <= charged(total, method)
        assert total.totals.epsilon_proven(1e-4) <= book.header["budget"]["epsilon"] * (1 + 1e-9)


def digests(folder: Path) -> dict[str, str]:
    """What must be the same, whole or interrupted."""
    files = [*folder.glob("ledger/*.jsonl"), folder / "metrics.csv"]
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    with np.load(folder / "model.npz") as model:
        return found | {"theta": hashlib.sha256(model["theta"].tobytes()).hexdigest()}


class Crew:
    """A run of one process an agent, each of which somebody may kill."""

    def __init__(self, log: Path, *words: str, ranks: int = 0) -> None:
        self.log = log
        log.mkdir(exist_ok=True)
        for file in log.glob("pid-*"):
            file.unlink()
        command = [sys.executable, "-m", "tests.processes.logged_agent", *words]
        if ranks:
            command = [mpirun_path(), "-n", str(ranks), *command[:3], "mpi", *words]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "ADMMNET_LOG": str(log)}, stderr=subprocess.PIPE, text=True
        )
        self.end = time.monotonic() + DEADLINE

    def wait(self, reached: Callable[[], bool]) -> bool:
        """Wait until something is so, or the starter has ended: whether it was so first."""
        while time.monotonic() < self.end:
            if reached():
                return True
            try:
                self.process.wait(0.003)
            except subprocess.TimeoutExpired:
                continue
            return False
        pytest.fail(f"still waiting after {DEADLINE:g} s")

    def kill(self, victim: int | None) -> bool:
        """SIGKILL an agent, or the starter (None); whether it was there."""
        file = self.log / f"pid-{victim}"
        pid = self.process.pid if victim is None else int((file.exists() and file.read_text()) or "0")
        there = bool(pid) and runs(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if there else 0)
        return there

    def ended(self) -> int:
        """Exit code of the starter when all agents are gone."""
        _, self.told = self.process.communicate(timeout=DEADLINE)
        assert "Traceback" not in self.told, self.told
        pids = [int(file.read_text() or "0") for file in self.log.glob("pid-*")]
        while any(pid and runs(pid) for pid in pids):
            assert time.monotonic() < self.end, "an agent outlives its starter"
        return self.process.returncode

    def rounds(self, agent: int) -> int:
        """Rounds that an agent has begun to send, in all attempts."""
        file = self.log / f"sent-{agent}.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def crew_messages(log: Path) -> list[tuple[int, int, str]]:
    return [message for file in log.glob("sent-*.jsonl") for message in messages(file) if message[2]]


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("transport", ["zmq", "mpi"])
def test_agents_killed_at_random_instants(transport: str, seed: int | None, tmp_path: Path) -> None:
    """One agent, or the starter of zmq agents, in any round; whoever is left ends, and the run goes on."""
    write_people(tmp_path / "people.npz", 160, width=3, noise=0.5)
    stream = np.random.default_rng(KILLS)
    expected = None
    if seed is not None:
        run(config(tmp_path, "whole", "pp-admm", seed=seed, epsilon=20.0))
        expected = digests(tmp_path / "whole")
    words = f"--topology ring:{AGENTS} --rounds {ROUNDS} --algorithm pp-admm --epsilon 20"
    words += f" --quiet --transport {transport} --delta 1e-4{' --heartbeat-deadline 3' * (transport == 'zmq')}"
    words += " --resume auto --measure-every 1"  # as in Python
    words += " --no-test" if seed is None else f" --seed {seed}"
    kills, trial, enough = 0, 0, 1 if KILLS <= 6 else KILLS // 2
    while kills < enough:
        trial, own, code = trial + 1, 0, -1
        folder, account, log = (tmp_path / f"{name}{trial}" for name in ("run", "account", "log"))
        files = ["--data", str(tmp_path / "people.npz"), "--out", str(folder)]
        files += ["--account", str(account)] if seed is None else []
        while code:
            crew = Crew(log, "run", *words.split(), *files, ranks=AGENTS if transport == "mpi" else 0)
            victim = int(stream.integers(AGENTS))
            begun, wanted = crew.rounds(victim), int(stream.integers(1, ROUNDS + 5))
            alive = kills + own < enough and crew.wait(lambda: crew.rounds(victim) - begun >= wanted)  # noqa: B023 (used at once)
            if alive:
                crew.kill(None if transport == "zmq" and stream.random() < 0.25 else victim)
            code = crew.ended()
            own += alive
            books = check_folder(folder)
            if seed is None:
                check_sent(crew_messages(log), books, "pp-admm")
                check_accounts(books, account, "pp-admm")
            assert alive or code == 0, crew.told
        assert read_run(folder).summary is not None
        assert expected in (None, digests(folder))
        kills += own
