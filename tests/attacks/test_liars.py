"""One agent of five lies: the others end, lose few rounds a start, and nobody else is held to account.

The liar is struck, its edge goes, or it stays, as `liar.LIES` says. It lies before it has formed a start or, in
`test_liars_later`, once it has formed one, where the relay is killed, too. ``ADMMNET_LIES=all`` tells each lie in both
places, else it is told in one.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.privacy.events import ObjectivePerturbation
from tests.processes.relayed import PRIVATE, QUIET, Hosts

from .liar import EDGE, FREE, LIES, MAYBE, OUT, STRUCK, Agent, counted

pytestmark = pytest.mark.processes
ROUNDS, APART, RECORDS = 6, 3, 120
"""Rounds of a run; most by which agents of a start can be apart, the diameter of five without one; of each agent."""
SUMS = ("total", "sum", "masked")
"""Lies of runs with sums."""
NEVER = ("files-none", "sum-word", "total-early")
"""Lies in which something never comes, or the rest: a total is early, or in time."""
AT_FIRST, LATER = ([*LIES] if "ADMMNET_LIES" in os.environ else [*LIES][k::2] for k in range(2))


class Liars(Hosts):
    """Agents are threads of this process; the relay is a process that can be killed."""

    liar, first = -1, 0

    def start(self, agent: int, fault: str = "", *more: str) -> None:
        network, out = self.folder / "net/network.toml", self.folder / str(agent)
        words = ["agent", "--id", str(agent), "--network", str(network), *self.words, *self.more, "-o", str(out)]
        own = self.first if agent == self.liar else float("inf")
        self.processes[agent] = Agent(words, own)  # type: ignore[assignment]


@pytest.mark.parametrize("lie", AT_FIRST)
def test_a_lie(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(lie, 0, tmp_path, monkeypatch)


def tell(lie: str, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline decides anything, but for what never comes: the machine may be as slow as it likes."""
    (fate, arm), liar = LIES[lie], int(lie.partition("@")[2] or 2)
    words: tuple[str, ...] = (*PRIVATE, *QUIET)
    words = ("--algorithm", "noisy-gd", *words[2:]) if lie.startswith(SUMS) else words
    words += ("--whiten", "on") if lie.startswith("stages") else ()  # a sum before the first round
    words += ("--trust", "masked", "--colluders", "1") if lie.startswith("masked") else ()
    late = ("--strikes", "1", "--round-deadline", "8") if lie.startswith(NEVER) else ("--strikes", "2")
    more = ("--regroup-deadline", "10", "--connect-deadline", "20", "--heartbeat-deadline", "10", *late)
    counted(monkeypatch)
    arm(monkeypatch)
    own = ("--heartbeat-deadline", "10")
    with Liars(tmp_path, ROUNDS, *more, graph="ring:5", words=words, own=own) as hosts:
        hosts.liar, hosts.first = liar, start
        hosts.start_all()
        if start:
            hosts.done(4, 3)
            hosts.kill(-1)
            hosts.start_relay()
        honest = [agent for agent in range(5) if agent != liar]
        ends = {agent: hosts.ended(agent) for agent in honest}
        assert {code for code, _ in ends.values()} <= {0, 5}, ends
        assert {*honest} <= hosts.summaries(liar=liar).keys()
        kept = hosts.kept()
        if fate == MAYBE:
            assert kept.out.keys() <= {liar}, kept
        elif fate == OUT or (fate == STRUCK and liar in kept.out):
            assert kept.out.keys() == {liar}, kept
        else:
            assert not kept.out
        assert all(liar in (i, j) for i, j, _ in kept.cut)
        assert fate == MAYBE or bool(kept.cut) == (fate == EDGE)
        assert fate in (OUT, EDGE, FREE, STRUCK, MAYBE, "refused")
        ended = (tmp_path / "relay.log").read_text().count('"start-ended"') + start
        for agent in honest:  # a start goes on after the round that the first of its agents has begun
            (book,) = read_run(tmp_path / str(agent)).ledgers.values()
            gaps = [b - a - 1 for a, b in pairwise([-1, *sorted({round for round, _, _ in book.events}), ROUNDS])]
            assert max(gaps) <= APART
            assert sum(gap > 0 for gap in gaps) <= ended
            if lie == "counts":  # noise, ledger and proof are of the records that are there, whatever another says
                made = [event for _, event, _ in book.events if isinstance(event, ObjectivePerturbation)]
                assert book.header["records"] == RECORDS
                assert {(event.records, event.sensitivity) for event in made} == {(RECORDS, 2.0 / RECORDS)}
