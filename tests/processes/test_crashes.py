"""A process is killed, or its disk is full, at any of its writes: the same command goes on, and nothing is lost.

Nothing is charged twice, no round is sent twice with different bytes, accounts hold what ledgers hold, and there is
one model. A run without a fault counts the writes, so that a new one is tried without an edit.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.evidence.judge import judged
from admmnet.privacy.ledger import audit
from tests.people_runs import write_people

from .launch import DEADLINE, ROOT, mpirun_path
from .relayed import PRIVATE, QUIET, Hosts
from .warm import Warm

pytestmark = [pytest.mark.processes, pytest.mark.timeout(3600)]
MODULE = "tests.processes.crashing"
FEW = ("--agents", "3", "--rounds", "3", "--epsilon", "5", "--delta", "1e-4", "--no-test", "--quiet")
MASKED = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--topology", "complete:3")
METHODS: dict[str, Sequence[str]] = {
    "pp-admm": ("--algorithm", "pp-admm", "--topology", "path:3"),
    "gated": ("--algorithm", "ipp-admm", "--gate", "above-threshold", "--topology", "path:3"),
    "stages": ("--algorithm", "noisy-gd", "--topology", "path:3", "--encode", "private", "--whiten", "on"),
    "masked": (*MASKED, "--encode", "private", "--whiten", "on"),
}


class Place:
    """Where a run and its account are, and how it is begun."""

    def __init__(self, folder: Path, name: str, *words: str, ranks: int = 0, account: bool = True) -> None:
        self.folder, self.log = folder / name, folder / f"{name}.sent"
        self.account = folder / f"{name}.account" if account else None
        own = ("--account", str(self.account)) if account else ("--no-account",)
        self.words = ("run", *words, *own, "--out", str(self.folder), "--resume", "auto")
        self.ranks = ranks

    def run(self, crash: str = "none:0:-1", **more: object) -> tuple[int, str]:
        """Exit code, and what was said on standard error."""
        env = os.environ | {"ADMMNET_CRASH": crash, "ADMMNET_LOG": str(self.log)}
        env |= {f"ADMMNET_{name.upper()}": str(value) for name, value in more.items()}
        if not self.ranks:
            process: Any = Warm(MODULE, *self.words, env=env, text=True)
        else:
            command = [mpirun_path(), "-n", str(self.ranks), "python", "-m", MODULE, *self.words]
            process = subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
        _, told = process.communicate(timeout=DEADLINE)
        return process.wait(), told

    def sent(self) -> dict[int, set[int]]:
        """Rounds in which each agent has handed something over; of a round there is one message."""
        sent: dict[tuple[int, int], set[str]] = {}
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            round, agent, said = json.loads(line)
            sent.setdefault((round, agent), set()).add(said)
        assert all(len(said) == 1 for said in sent.values()), "a round left twice with different bytes"
        return {i: {round for round, agent in sent if agent == i} for _, i in sent}

    def check_killed(self) -> None:
        """Whatever was handed over stands in ledgers and accounts."""
        for agent, rounds in self.sent().items():
            name = f"agent-{agent:03d}.jsonl"
            charged = {round for round, *_ in audit.read(self.folder / "ledger" / name).events}
            assert rounds <= charged | {3}  # the average asks nothing
            if self.account is not None:
                held = {round for round, *_ in audit.read(self.account / name, account=True).events}
                assert charged <= held

    def check(self) -> None:
        """The run has finished, and all that was promised holds."""
        judged(self.folder)
        assert not list(self.folder.glob("journal*"))
        self.sent()
        for path in sorted((self.folder / "ledger").iterdir()):
            book = audit.read(path)
            if self.account is not None:
                held = audit.read(self.account / path.name, account=True)
                assert [(r, e) for r, e, _ in held.events] == [(r, e) for r, e, _ in book.events]


def points(folder: Path, words: Sequence[str], every: int, **how: Any) -> range:
    """Writes of a run without a fault, of which some are tried."""
    place, writes = Place(folder, "whole", *words, **how), folder / "writes"
    assert place.run(writes=writes) == (0, "")
    place.check()
    return range(1 + every // 2, int(writes.read_text()) + 1, every)


@pytest.mark.parametrize("every", [pytest.param(1, id="each"), pytest.param(23, id="some")])
@pytest.mark.parametrize("account", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_one_process(method: str, account: bool, every: int, tmp_path: Path) -> None:
    words = (*METHODS[method], *FEW, "--data", write_people(tmp_path / "people.npz", 160, width=3, noise=0.5))
    for at in points(tmp_path, words, every, account=account):
        for how in ("kill", "full"):
            place = Place(tmp_path, f"{how}-{at}", *words, account=account)
            for again in (0, 7):  # it is killed twice
                code, told = place.run(f"{how}:{at - again}:-1") if at > again else (0, "")
                assert code in (-9, 3, 0), told
            place.check_killed()
            assert place.run() == (0, ""), (how, at)
            place.check()


@pytest.mark.parametrize("every", [pytest.param(1, id="each"), pytest.param(50, id="some")])
@pytest.mark.parametrize("method", ["pp-admm", "masked"])
def test_a_rank(method: str, every: int, tmp_path: Path) -> None:
    """Killed twice: of masked sums a round is void of which some have their part, and some have not."""
    words = (*METHODS[method], *FEW, "--data", write_people(tmp_path / "people.npz", 160, width=3, noise=0.5))
    for at in points(tmp_path, words, every):
        for rank in (0, 1):
            place = Place(tmp_path, f"{at}-{rank}", *words, ranks=3)
            for again in (0, 5):
                place.run(f"kill:{max(1, at - again)}:{rank}")
            assert place.run()[0] == 0, (at, rank)
            place.check()


@pytest.mark.parametrize("ranks", [2, 0])
def test_other_processes_go_on(ranks: int, tmp_path: Path) -> None:
    """Begun on five ranks, and killed: with noise by agent and round the model is that of an unbroken run.

    A solve begins elsewhere in a new process, and so ends elsewhere within its tolerance.
    """
    words = (*METHODS["pp-admm"][:2], "--topology", "ring:5", "--agents", "5", "--rounds", "8", *FEW[4:])
    words = (*words, "--data", write_people(tmp_path / "people.npz", 160, width=3, noise=0.5))
    whole, cut = Place(tmp_path, "whole", *words), Place(tmp_path, "cut", *words, ranks=5)
    assert whole.run(noise=1)[0] == 0
    assert cut.run(noise=1, round="5:2")[0] != 0
    cut.ranks = ranks
    assert cut.run(noise=1)[0] == 0
    cut.check()
    mine, theirs = (np.load(place.folder / "model.npz")["theta"] for place in (cut, whole))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
    assert np.ptp(mine) > 0.01


class Crashing(Hosts):
    """Hosts of which one dies at a write, and is started again."""

    def module(self, agent: int) -> str:
        return MODULE

    def own(self, agent: int) -> dict[str, str]:
        crash = self.crash if agent == self.victim else "none:0:-1"
        return {"ADMMNET_CRASH": crash, "ADMMNET_LOG": str(self.folder / f"sent-{agent}"), **self.writes(agent)}

    def writes(self, agent: int) -> dict[str, str]:
        return {"ADMMNET_WRITES": str(self.folder / "writes")} if agent == self.victim else {}

    crash, victim = "none:0:-1", 1


def hosts(folder: Path) -> Crashing:
    folder.mkdir()
    return Crashing(folder, 3, words=(*PRIVATE, *QUIET))


@pytest.mark.parametrize("every", [pytest.param(1, id="each"), pytest.param(17, id="some")])
def test_a_host(every: int, tmp_path: Path) -> None:
    with hosts(tmp_path / "whole") as whole:
        whole.start_all()
        assert whole.all_ended() == [(0, "")] * 3
    for at in range(1, int((tmp_path / "whole/writes").read_text()) + 1, every):
        for how in ("kill", "full"):
            with hosts(tmp_path / f"{how}-{at}") as own:
                own.crash = f"{how}:{at}:-1"
                own.start_all()
                code, told = own.ended(1)
                assert code in (-9, 3, 0), told
                own.crash = "none:0:-1"
                if code:
                    own.start(1)
                assert {own.ended(agent)[0] for agent in range(3)} == {0}, (how, at)
                assert own.summaries().keys() == {0, 1, 2}
                for agent in range(3):
                    said = [json.loads(line) for line in (own.folder / f"sent-{agent}").read_text().splitlines()]
                    assert len({(r, text) for r, _, text in said if r < 3}) == len({r for r, *_ in said if r < 3})
