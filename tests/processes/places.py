"""A run that one command begins again and again, on any transport, and what holds of it whenever it was killed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.evidence.judge import judged
from admmnet.privacy.events import DiscreteGaussian, Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger import audit
from admmnet.record.reader import look_at
from tests.people_runs import write_people

from .launch import DEADLINE, FAULTY, Ended, Process, begin, mpirun_path

FEW = ("--agents", "3", "--rounds", "3")
MASKED = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1")
ENCODED = ("--encode", "private", "--whiten", "on")
METHODS: dict[str, tuple[str, ...]] = {
    "pp-admm": ("--algorithm", "pp-admm", "--topology", "path:3"),
    "output": ("--algorithm", "pp-admm", "--topology", "path:3", "--release", "output"),
    "gated": ("--algorithm", "ipp-admm", "--gate", "above-threshold", "--topology", "path:3"),
    "stages": ("--algorithm", "noisy-gd", "--topology", "path:3", *ENCODED),
    "masked": (*MASKED, "--topology", "complete:3", *ENCODED),
}


def words_of(folder: Path, method: str, *more: str) -> tuple[str, ...]:
    """Words of a method on a file of people in a folder."""
    people = write_people(folder / "people.npz", 160, width=3, noise=0.5)
    return (*METHODS[method], "--data", people, "--delta", "1e-4", *more)


class Place:
    """Where a run, its account and its log are, and how it is begun; with a seed there is no account."""

    def __init__(
        self, folder: Path, name: str, *words: str, transport: str = "local", ranks: int = 3, account: bool = True
    ) -> None:
        self.folder, self.log, self.transport, self.ranks = folder / name, folder / f"{name}.log", transport, ranks
        self.log.mkdir(exist_ok=True)
        self.seeded = "--seed" in words
        self.account = folder / f"{name}.account" if account and not self.seeded else None
        own = ("--account", str(self.account)) if self.account else ("--no-account",)
        always = ("--quiet", "--out", str(self.folder), "--resume", "auto")
        self._words = ("run", *words, *(() if self.seeded else ("--no-test", *own)), *always)
        self.process: Process

    def begin(self, **more: object) -> None:
        """Begin the run, or go on with it; ``more`` is for ``faulty_agent``."""
        for file in self.log.glob("pid-*"):
            file.unlink()
        env = {f"ADMMNET_{name.upper()}": value for name, value in {"log": self.log, **more}.items()}
        words = (sys.executable, "-m", FAULTY, *self._words, "--transport", self.transport)
        mpi = (mpirun_path(), "-n", str(self.ranks)) if self.transport == "mpi" else ()
        self.process, self._until = begin(*mpi, *words, **env), time.monotonic() + DEADLINE

    def ended(self) -> Ended:
        """How the run has ended, once all its processes are gone."""
        out, err = self.process.communicate(timeout=DEADLINE)
        assert "Traceback" not in err, err
        while any(self.living(file.name.removeprefix("pid-")) for file in self.log.glob("pid-*")):
            assert time.monotonic() < self._until, "an agent outlives its starter"
        return Ended(self.process.wait(), out, err)

    def run(self, **more: object) -> Ended:
        self.begin(**more)
        return self.ended()

    def wait(self, reached: Callable[[], bool]) -> bool:
        """Wait until something is so, or the run has ended: whether it was so first."""
        while self.process.poll() is None:
            assert time.monotonic() < self._until
            if reached():
                return True
            time.sleep(0.003)
        return False

    def living(self, name: str) -> int:
        """Number of one of its processes; 0 if it is not there, or a zombie."""
        file = self.log / f"pid-{name}"
        pid = int((file.exists() and file.read_text()) or "0")
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return 0
        return 0 if state == "Z" else pid

    def kill(self, victim: str) -> None:
        """SIGKILL one of its processes, if it is there."""
        if pid := self.living(victim):
            os.kill(pid, 9)

    def sayings(self) -> int:
        """Vectors that agents have begun to send, in all attempts."""
        return sum(file.read_bytes().count(b"\n") for file in self.log.glob("sent-*.jsonl"))

    def sent(self) -> dict[int, Counter[int]]:
        """Rounds in which each agent has handed something over, and how many different messages there were."""
        said = set[tuple[int, int, str]]()
        for file in self.log.glob("sent-*.jsonl"):
            said |= {(agent, round, text) for round, agent, text in map(json.loads, file.read_text().split("\n")[:-1])}
        return {i: Counter(round for agent, round, _ in said if agent == i) for i in {agent for agent, _, _ in said}}

    def check_killed(self, rounds: int) -> None:
        """Whatever there is verifies; what has left stands in ledgers and accounts, once, and is always the same."""
        books: dict[str, Any] = {}
        if any((self.folder / "ledger").glob("agent-*.jsonl")):
            # killed between the last two files: `verify` says that a resume makes the one that is missing
            last = (self.folder / "manifest.json").exists() and not (self.folder / "summary.json").exists()
            found = look_at(self.folder)
            assert [fault for fault in found.faults if not (last and "--resume goes on" in fault)] == []
            books = {Path(name).name: book for name, book in found.ledgers.items()}
        for agent, left in self.sent().items():
            assert set(left.values()) == {1}, "a round left twice with different bytes"
            charged = {round for round, _ in released(books.get(f"agent-{agent:03d}.jsonl"))}
            # of a simulation the last charges may be lost
            assert self.seeded or {round for round in left if round < rounds} <= charged, (agent, left, charged)
        for name, book in books.items():
            assert set(released(book).values()) <= {1}
            assert self.account is None or released(book) <= released(self.held(name))

    def held(self, name: str) -> Any:
        """Account of an agent; None where nothing is in it yet."""
        assert self.account is not None
        return audit.read(self.account / name, account=True) if (self.account / name).stat().st_size else None

    def check(self) -> None:
        """The run has finished, and all that was promised holds."""
        judged(self.folder)
        assert not list(self.folder.glob("journal*"))
        assert {count for left in self.sent().values() for count in left.values()} == {1}
        for path in sorted((self.folder / "ledger").iterdir()):
            book = audit.read(path)
            assert set(released(book).values()) <= {1}
            if self.account is not None:
                assert [(r, e) for r, e, _ in self.held(path.name).events] == [(r, e) for r, e, _ in book.events]

    def digests(self) -> dict[str, str]:
        """What must be the same in two runs with a seed, whole or interrupted."""
        files = [*self.folder.glob("ledger/*.jsonl"), self.folder / "metrics.csv"]
        found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        with np.load(self.folder / "model.npz") as model:
            return found | {"theta": hashlib.sha256(model["theta"].tobytes()).hexdigest()}


def released(book: Any) -> Counter[tuple[int, str]]:
    """Charges for vectors and sums, by round and mechanism."""
    kinds, events = (ObjectivePerturbation, Gaussian, DiscreteGaussian), [] if book is None else book.events
    return Counter((round, event.mechanism) for round, event, _ in events if isinstance(event, kinds))
