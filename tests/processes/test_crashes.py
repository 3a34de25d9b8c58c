"""A process is killed, or its disk is full, at any of its writes: the same command goes on, and nothing is lost.

Nothing is charged twice, no round is sent twice with different bytes, accounts hold what ledgers hold, and there is
one model. A run without a fault counts the writes, so that a new one is tried without an edit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .places import FEW, Place, words_of
from .relayed import NONE, PRIVATE, QUIET, Hosts

pytestmark = [pytest.mark.processes, pytest.mark.timeout(3600)]
ROUNDS = 3
FIVE = (*FEW, "--epsilon", "5")
BOTH, SEEDED = {"0": "kill full", "1": "kill full"}, (*FIVE, "--seed", "3")


def tried(file: Path, faults: str, few: int | None) -> list[tuple[int, str]]:
    """Writes of a run without a fault, and what strikes there: each and all, or some and one by turns."""
    writes, kinds = int(file.read_text()), faults.split()
    if few is None:
        return [(at, fault) for at in range(1, writes + 1) for fault in kinds]
    return [(1 + writes * (2 * k + 1) // (2 * few), kinds[k % len(kinds)]) for k in range(few)]


def check_each(folder: Path, victims: dict[str, str], few: int | None, *words: str, **how: Any) -> None:
    """Kill each victim at writes of an unbroken run, or fill its disk, twice; then the run goes on."""
    whole = Place(folder, "whole", *words, **how)
    assert whole.run(writes=folder / "writes", crash="none:0:all").code == 0
    whole.check()
    for victim, faults in victims.items():
        own = "0" if victim == "all" else victim
        for at, fault in tried(folder / f"writes-{own}", faults, few):
            place = Place(folder, f"{fault}-{victim}-{at}", *words, **how)
            for again in (0, 7):
                if at > again:
                    ended = place.run(crash=f"{fault}:{at - again}:{victim}")
                    assert place.transport == "mpi" or ended.code in (-9, 3, 0), ended.err
                place.check_killed(ROUNDS)
            ended = place.run()
            assert ended.code == 0, (fault, victim, at, ended.err)
            place.check()
            assert not place.seeded or place.digests() == whole.digests()


ONE = [(method, account) for method in ("pp-admm", "gated", "stages", "masked") for account in (True, False)]


@pytest.mark.parametrize(
    ("method", "account", "few"),
    [
        *(pytest.param(*one, None, id=f"{one[0]}-{one[1]}-each") for one in ONE),
        *(pytest.param(*one, 3, id=f"{one[0]}-some") for one in ONE if one[1] == (one[0] != "stages")),
    ],
)
def test_one_process(method: str, account: bool, few: int | None, tmp_path: Path) -> None:
    check_each(tmp_path, {"all": "kill full"}, few, *words_of(tmp_path, method, *FIVE), account=account)


@pytest.mark.parametrize(
    ("method", "words", "victims", "few"),
    [
        pytest.param("pp-admm", FIVE, BOTH, None, id="pp-admm-each"),
        pytest.param("masked", FIVE, BOTH, None, id="masked-each"),
        pytest.param("stages", SEEDED, BOTH, None, id="stages-each"),
        pytest.param("masked", FIVE, {"0": "kill", "1": "full"}, 1, id="masked-some"),
        pytest.param("stages", SEEDED, {"1": "kill"}, 1, id="stages-some"),
    ],
)
def test_a_rank(method: str, words: tuple[str, ...], victims: dict[str, str], few: int | None, tmp_path: Path) -> None:
    """Of masked sums a round is void of which some have their part, and some have not; seeded runs end as if whole."""
    ranks = 3 if few is None else 2
    check_each(tmp_path, victims, few, *words_of(tmp_path, method, *words), transport="mpi", ranks=ranks)


@pytest.mark.parametrize("few", [pytest.param(None, id="each"), pytest.param(1, id="some")])
def test_an_agent_of_one_command(few: int | None, tmp_path: Path) -> None:
    check_each(tmp_path, {"1": "kill full"}, few, *words_of(tmp_path, "pp-admm", *FIVE), transport="zmq")


def test_other_processes_go_on(tmp_path: Path) -> None:
    """Begun on five ranks, killed, on two, killed, in one: with noise by agent and round as in one unbroken run.

    A solve begins elsewhere in a new process, and so ends elsewhere within its tolerance.
    """
    words = words_of(tmp_path, "pp-admm", *FIVE, "--topology", "ring:5", "--agents", "5", "--rounds", "8")
    whole, cut = Place(tmp_path, "whole", *words), Place(tmp_path, "cut", *words, transport="mpi")
    assert whole.run(noise=1).code == 0
    for cut.ranks, fault in ((5, "kill:2:3"), (2, "kill:1:2")):
        assert cut.run(noise=1, fault=fault).code != 0
    cut.transport = "local"
    assert cut.run(noise=1).code == 0
    cut.check()
    mine, theirs = (np.load(place.folder / "model.npz")["theta"] for place in (cut, whole))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
    assert np.ptp(mine) > 0.01


class Crashing(Hosts):
    """Hosts of which some die at a write, or the relay (-1) does; they are started again."""

    crash, victims = "none:0", tuple[int, ...]()

    def own(self, agent: int) -> dict[str, str]:
        name, crash = "relay" if agent < 0 else str(agent), self.crash if agent in self.victims else "none:0"
        return {"ADMMNET_CRASH": f"{crash}:{name}", "ADMMNET_WRITES": str(self.folder / "writes")}

    def carry_through(self) -> None:
        """All end with one model, whatever strikes the victims, and no round has left twice with different bytes.

        Of several all are killed as soon as one has died. The relay notes a fault: an agent is killed before.
        """
        relay = -1 in self.victims
        for agent in range(3):
            self.start(agent, "kill:2:1" if relay else NONE)
        watched = [self.processes[place] for place in self.victims]

        def over() -> bool:
            return [self.processes[agent].poll() for agent in range(3)] == [0] * 3

        def struck() -> bool:
            if relay and self.processes[2].poll() == -9:
                self.start(2)
            log = self.folder / "relay.log"
            told = log.read_text() if relay and log.exists() else ""
            return self.crash != "none:0" and (any(one.poll() is not None for one in watched) or "cannot" in told)

        self.until(lambda: struck() or over())
        self.crash = "none:0"
        for place, process in zip(self.victims, watched, strict=True):
            if process.poll() != 0 and not over():
                assert process.poll() in (None, -9, 3), process.communicate()
                self.kill(place)
                self.start(place)
        assert {code for code, _ in self.all_ended()} == {0}
        assert self.summaries().keys() == {0, 1, 2}
        for agent in range(3):
            lines = (self.folder / f"sent-{agent}.jsonl").read_text().splitlines()
            said = {(round, text) for round, _, text in map(json.loads, lines) if round < ROUNDS}
            assert 0 < len(said) == len({round for round, _ in said})


@pytest.mark.parametrize("few", [pytest.param(None, id="each"), pytest.param(2, id="some")])
@pytest.mark.parametrize("victims", [(1,), (0, 1, 2), (-1,)], ids=["one", "all", "relay"])
def test_hosts(victims: tuple[int, ...], few: int | None, tmp_path: Path) -> None:
    def carry_through(name: str, crash: str) -> None:
        (tmp_path / name).mkdir()
        hosts = Crashing(tmp_path / name, ROUNDS, words=(*PRIVATE, *QUIET))
        hosts.crash, hosts.victims = crash, victims
        with hosts:
            hosts.carry_through()
            assert crash != "none:0" or hosts.ended(-1)[0] == 0

    carry_through("whole", "none:0")
    counted = tmp_path / "whole" / f"writes-{'relay' if victims[0] < 0 else victims[0]}"
    for at, fault in tried(counted, "kill full", few):
        carry_through(f"{fault}-{at}", f"{fault}:{at}")
