"""What comes back from a gather: of whom it is believed, and what it may be."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import networkx as nx
import pytest

from admmnet.config.run_config import RunConfig
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.methods import fixed
from admmnet.record.forms import AgentEntry
from admmnet.running.before import nominal_of, target_of
from admmnet.running.summary import heard
from admmnet.running.topics import Figures
from admmnet.transport import Transport, World
from admmnet.transport.collective import owned, share

OWNERS = ((0, 1), (2,))
JUNK: list[Any] = [None, True, 0, -1, 2.5, 1e400, "7", [], {}, [7], 2**60, "\x1b[2J", [[2, [2]]], [[[2], 2]]]


class Heard(World):
    """Process 0 of two; what the other says is given, one answer a gather, then nothing."""

    name, shared_folder, lasting, rank, size = "mpi", True, True, 0, 2

    def __init__(self, *said: Any) -> None:
        self.said = list(said)

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        said = self.said.pop(0) if self.said else None
        pair = [one if isinstance(one, AdmmnetError) else json.loads(json.dumps(one)) for one in (value, said)]
        return pair[::-1] if self.rank else pair

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        raise NotImplementedError

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        raise NotImplementedError


def positive(agent: int, value: Any) -> bool:
    return type(value) is int and 1 <= value <= 2**53


def sizes(said: Any) -> dict[int, int]:
    """What process 0 takes for the sizes of all agents when the other one says this."""
    mine = {0: 5, 1: 6}
    return owned(world := Heard(said), share(world, {"values": mine}), OWNERS, mine, positive, "size")


def test_a_process_is_believed_of_its_own_agents_alone_and_a_wrong_answer_names_the_agent() -> None:
    assert sizes({"values": {"0": 99, "2": 7, "1": 99, "3": 99}}) == {0: 5, 1: 6, 2: 7}
    for junk in JUNK:
        for said in (junk, {"values": junk}, {"values": {"2": junk}}):
            with pytest.raises(RequestError, match=r"^agent 2 says that its size is .*, which cannot be") as caught:
                sizes(said)
            assert caught.value.shared
            assert str(caught.value).isprintable()


@pytest.mark.parametrize(("answer", "size"), [(None, 9), ({"values": {"2": 7}}, 7)])
def test_an_agent_that_takes_no_part_and_has_never_spoken_stands_with_a_public_value(answer: Any, size: int) -> None:
    world = Heard()
    world.journal = SimpleNamespace(told={}, asked=Counter())
    own = {"values": {"0": 5, "1": 6}}
    for answers in ([own, answer], [own, None]):  # what it has said stands in later starts
        world.journal.asked.clear()
        found = owned(world, answers, OWNERS, {0: 5, 1: 6}, positive, "size", absent=lambda agent: 9)
        assert found == {0: 5, 1: 6, 2: size}


def test_another_process_steers_no_terminal() -> None:
    with pytest.raises(RunError) as caught:
        share(Heard(RunError("done\x1b[2J\x07")), 7)
    assert str(caught.value) == "done?[2J?"


def test_a_budget_left_is_its_owners_word_and_never_above_what_is_public() -> None:
    config = fixed(RunConfig(algorithm="pp-admm", delta=1e-4).sections.method)
    targets = {i: target_of(config, i) for i in OWNERS[0]}
    most = targets[0].nominal_rho()

    def told(two: Any, **more: float) -> dict[int, float]:
        return nominal_of(config, Heard({"values": {"2": two, **more}}), OWNERS, targets)

    assert told(0.25 * most, **{"0": 1e9, "1": 1e-300}) == {0: most, 1: most, 2: 0.25 * most}
    for rho in (2.0 * most, 0.0, -most, float("nan"), float("inf"), 1e-300, "1", None):
        with pytest.raises(RequestError, match=r"agent 2 says that its budget left \(rho\)"):
            told(rho)
    deaf = Heard({"values": {"2": 1e-300}})  # where nobody has an account no word is asked for
    journal = deaf.journal = SimpleNamespace(told={}, asked=Counter())
    deaf.shared_folder = False
    found = nominal_of(config, deaf, OWNERS, targets, accounted=False)
    assert found == dict.fromkeys(range(3), most)
    assert deaf.said
    assert journal.told == {"budget left (rho)": {str(i): rho for i, rho in found.items()}}  # for later starts


def entry(agent: int, **figures: Any) -> dict[str, Any]:
    own = {"joined_at", "figures", "asked", "yes", "silent"}  # of some methods alone
    nothing = dict.fromkeys(name for name in AgentEntry.__struct_fields__ if name not in own)
    return nothing | {"agent": agent, "records": 9, "degree": 2, "releases": 1, "rho": 0.5} | figures


def word(*entries: Any, **other: Any) -> dict[str, Any]:
    digests = {f"ledger/agent-{one['agent']:03d}.jsonl": "01a"[one["agent"]] * 64 for one in entries}
    return {"agents": list(entries), "digests": digests, "seconds": [1.0, 0.0, 1.0], "frames": {"late": 1}} | other


def words_of(answer: Any) -> list[Figures]:
    """What process 0 makes of its own word and of the other's."""
    mine = msgspec.convert(word(entry(0), entry(1)), Figures)
    transport: Any = SimpleNamespace(world=Heard(answer), owners=OWNERS)
    return heard(mine, transport)


def test_a_process_speaks_for_its_own_agents_in_the_summary() -> None:
    digests = {f"ledger/agent-00{i}.jsonl": "a" * 64 for i in range(3)} | {"../secret": "a" * 64}
    others = (entry(2, rho=0.7), entry(0, rho=9.0), entry(1, rho=9.0))
    mine, said = words_of(word(*others, digests=digests, frames={"late": 2, "made up": 1}))
    assert [one.rho for one in mine.agents] == [0.5, 0.5]
    assert [(one.agent, one.rho) for one in said.agents] == [(2, 0.7)]
    assert said.digests == {"ledger/agent-002.jsonl": "a" * 64}
    assert said.frames == {"late": 2}


def test_a_word_that_cannot_be_read_is_left_out() -> None:
    wrong = [
        *JUNK,
        *({**word(entry(2)), key: junk} for key in ("digests", "seconds", "frames") for junk in JUNK if junk != {}),
        *(word(entry(2, rho=junk)) for junk in JUNK if junk not in (None, 0, 2.5, 2**60)),
        *(word(entry(2, releases=junk)) for junk in JUNK if type(junk) is not int or junk < 0 or junk > 2**53),
        *(word(entry(2), frames={"late": junk}) for junk in (-1, 2.5, None, 2**60)),
        word(entry(2, more=1)),
        *(word(entry(2), digests={"ledger/agent-002.jsonl": "a" * 64 + more}) for more in ("a", "\n")),
    ]
    for answer in wrong:
        assert [[one.agent for one in said.agents] for said in words_of(answer)] == [[0, 1]], answer
