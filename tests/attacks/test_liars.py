"""One agent of five lies: the others end, lose a round a start at most, and nobody else is held to account.

The liar is struck, its edge goes, or it stays, as `liar.LIES` says. ``ADMMNET_LIES=all`` tells each lie in the first
start, and in a later one after the relay was killed; else each of them once.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from admmnet import read_run
from admmnet.transport.zmq.relay import Memory
from tests.processes.relayed import PRIVATE, QUIET, Hosts

from .liar import EDGE, FREE, LIES, MAYBE, OUT, STRUCK

pytestmark = pytest.mark.processes
ROUNDS = 8
SUMS = ("total", "sum", "masked")
"""Lies of runs with sums."""
BOTH = "ADMMNET_LIES" in os.environ
PLACES = [(lie, start) for k, lie in enumerate(LIES) for start in ((0, 1) if BOTH else (k % 2,))]


class Liars(Hosts):
    lie, liar = "", -1

    def module(self, agent: int) -> str:
        return "tests.attacks.liar" if agent == self.liar else super().module(agent)

    def own(self, agent: int) -> dict[str, str]:
        return {"ADMMNET_LIE": self.lie}


@pytest.mark.parametrize(("lie", "start"), PLACES)
def test_a_lie(lie: str, start: int, tmp_path: Path) -> None:
    fate, liar = LIES[lie][0], int(lie.partition("@")[2] or 2)
    words: tuple[str, ...] = (*PRIVATE, *QUIET)
    words = ("--algorithm", "noisy-gd", *words[2:]) if lie.startswith(SUMS) else words
    words += ("--whiten", "on") if lie.startswith("stages") else ()  # a sum before the first round
    words += ("--trust", "masked", "--colluders", "1") if lie.startswith("masked") else ()
    more = ("--regroup-deadline", "1", "--round-deadline", "4", "--strikes", "2", "--connect-deadline", "8")
    with Liars(tmp_path, ROUNDS, *more, graph="ring:5", words=words) as hosts:
        hosts.lie, hosts.liar = f"{lie}:{liar}:{start}", liar
        hosts.start_all()
        if start:
            hosts.done(4, 3)
            hosts.kill(-1)
            hosts.start_relay()
        honest = [agent for agent in range(5) if agent != liar]
        ends = {agent: hosts.ended(agent) for agent in honest}
        assert {code for code, _ in ends.values()} <= {0, 5}, ends
        assert {*honest} <= hosts.summaries(liar=liar).keys()
        path = tmp_path / "relay/relay.json"
        kept = msgspec.json.decode(path.read_bytes(), type=Memory) if path.exists() else Memory("", {}, [], [])
        if fate == MAYBE:
            assert kept.out.keys() <= {liar}, kept
        elif fate == OUT or (fate == STRUCK and liar in kept.out):
            assert kept.out.keys() == {liar}, kept
        else:
            assert not kept.out
        assert all(liar in (i, j) for i, j, _ in kept.cut)
        assert fate == MAYBE or bool(kept.cut) == (fate == EDGE)
        ended = (tmp_path / "relay.log").read_text().count('"start-ended"')
        for agent in honest:
            (book,) = read_run(tmp_path / str(agent)).ledgers.values()
            rounds = {round for round, _, _ in book.events}  # `summaries` has seen that nothing is charged twice
            assert len(rounds) >= ROUNDS - ended - start
        assert fate in (OUT, EDGE, FREE, STRUCK, MAYBE, "refused")
