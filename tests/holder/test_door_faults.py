"""What is said when something fails behind the door; nodes and resumed runs at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, RunError
from admmnet.holder import NO, Ask, Asking, Door, Holder, Released, SimulatedHolder
from admmnet.holder.answers import Measurement
from admmnet.holder.door import FAILED, answer_all
from admmnet.holder.outbox import Outbox
from admmnet.holder.secrets import Secret
from admmnet.methods.base import Agent, AgentPlan, Facts
from admmnet.methods.consensus import ConsensusMethod
from admmnet.privacy.events import Laplace, NoRecords
from admmnet.rng import AgentStreams
from admmnet.running.node import Node
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector

from .doors import ASKED, COSTS, LOGISTIC, Book, D, ask, door_of, records

PLACES = [(LocalSolver, "solve", 1), (BlockSolver, "solve", 2), (LocalSolver, "losses", 1), (Secret, "laplace", 1)]


@pytest.mark.parametrize("fault", [KeyError(0.7351948), RunError("0.7351948"), RequestError("0.7351948")], ids=repr)
@pytest.mark.parametrize(("kind", "name", "members"), PLACES)
def test_a_fault_inside_is_one_fixed_text_where_records_are_private(
    kind: Any, name: str, members: int, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> Any:
        raise fault

    monkeypatch.setattr(kind, name, failing)
    for holder in (Holder, SimulatedHolder):
        book: Any = Book()
        of = holder.of([records()] * members)
        doors = [Door(of, k, LOGISTIC, book, AgentStreams(k, 1)) for k in range(members)]
        for answer in answer_all(doors, [Ask(ASKED["comparison"])] * members, 0):
            assert isinstance(answer, Exception)
            if holder is SimulatedHolder:  # nothing to hide, and an internal error stays one
                assert type(answer) is type(fault)
                assert "0.7351948" in str(answer)
                continue
            assert isinstance(answer, RunError)
            assert (str(answer), answer.__cause__, answer.__suppress_context__) == (FAILED, None, True)
        assert book.charged == [*COSTS["comparison"]] * members, "what it cost stays charged, and no more"


def test_an_interrupt_is_not_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalSolver, "solve", stopping)
    with pytest.raises(KeyboardInterrupt):
        ask(door_of(Book()), ASKED["objective"])


def test_nothing_behind_the_door_of_private_records_is_shown() -> None:
    door = door_of(Book())
    with pytest.raises(RequestError, match="nothing behind the door of private records is shown"):
        _ = door.secret
    assert door_of(Book(), SimulatedHolder).secret.kept == {}
    shown = {name for name in dir(door) if not name.startswith("_")}
    assert shown == {"answer", "attempt", "marks", "nothing", "outbox", "records", "secret", "simulated", "spoke"}
    assert door.outbox is None  # otherwise it holds answers that may leave


# nodes


class Scripted(ConsensusMethod):
    """Says what it is given; asks what it is given before."""

    name = "scripted"

    def __init__(self, questions: Sequence[Measurement], vector: Vector | None) -> None:
        facts = Facts(nx.path_graph(2), {0: 9, 1: 9}, D, {})
        super().__init__(RunConfig(algorithm="admm", beta=1e-8, eta=0.1).sections.method, facts)
        self.questions, self.vector, self.answers = questions, vector, list[Any]()

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        for question in self.questions:
            self.answers.append((yield Ask(question)))
        return self.vector


def node_of(book: Any, questions: Sequence[Any], vector: Vector | None) -> Node:
    method = Scripted(questions, vector)
    return Node(method.agent(0, AgentPlan(0.1)), method, door_of(book), book)


@pytest.mark.parametrize(
    ("asked", "vector", "charged"),
    [((), np.ones(D), (NoRecords(),)), ((), None, ()), ((ASKED["output"],), np.ones(D), COSTS["output"])],
    ids=["nothing asked", "nothing said", "asked"],
)
def test_a_vector_that_asked_nothing_is_noted_at_no_cost(asked: Any, vector: Any, charged: Any) -> None:
    node = node_of(book := Book(), asked, vector)
    assert node.propose(0) is vector
    assert book.charged == list(charged)
    assert node.agent.releases == (vector is not None)


def test_a_method_is_sent_the_answers_and_a_fault_names_agent_and_round(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(Book(), (ASKED["output"], replace(ASKED["joining gate"], threshold=1e3)), None)
    node.propose(0)
    released, no = node.method.answers  # type: ignore[attr-defined]
    assert isinstance(released, Released)
    assert no is NO
    monkeypatch.setattr(Secret, "gaussian", lambda *_: 1 / 0)
    with pytest.raises(RunError, match=f"^agent 0, round 5: {FAILED}$"):
        node.propose(5)


@pytest.mark.parametrize("name", ["held gate", "comparison"])
def test_what_a_run_that_goes_on_pays_again(name: str) -> None:
    """A held threshold is nowhere but in the process that drew it; the paper's gate is paid once."""
    no = replace(ASKED[name], threshold=1e3)
    first, second = Book(), Book()
    before, after = node_of(first, (no,), None), node_of(second, (no,), None)
    before.door.outbox = Outbox()
    before.propose(0)
    after.door.marks = before.door.marks
    after.door.outbox = Outbox({0: before.door.outbox.take()}, last=0)
    after.propose(0)
    assert second.log == []
    after.propose(1)
    if name == "comparison":
        books = [[e.gate_epsilon for e in book.charged if isinstance(e, Laplace)] for book in (first, second)]
        assert books == [[0.5], [0.0]]
    else:
        assert first.charged == second.charged == list(COSTS[name])
