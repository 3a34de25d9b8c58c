"""Methods from outside with state of their own, and single-site methods: interrupted and resumed, the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

from admmnet import BudgetError, RequestError, RunConfig, read_run, run
from admmnet.holder.answers import Asking
from admmnet.methods import METHODS
from admmnet.methods.agent import AgentPlan, Contact
from admmnet.methods.base import Agent, ModelState
from admmnet.methods.consensus import ConsensusState
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.single_site.descent import DPSGD
from admmnet.types import Matrix, Vector
from tests.interrupted_runs import Place, assert_same


@dataclass(slots=True)
class Heavy(ConsensusState):
    """With what a momentum needs."""

    velocity: Vector = field(default_factory=lambda: np.zeros(0))
    previous: Vector | None = None
    turns: int = 0


class HeavyBall(PPADMM):
    """PP-ADMM whose duals see a running mean of its broadcasts."""

    name = "heavy-ball"

    def start(self, agent: Agent, width: int) -> Heavy:
        state = Heavy.zero(agent.degree, width)
        state.velocity = np.zeros(width)
        return state

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        found = yield from super().propose(agent, round)
        if found is None:
            return None
        state: Heavy = agent.state
        if state.previous is not None:
            state.velocity = 0.5 * state.velocity + (found - state.previous)
        state.previous, state.turns = found, state.turns + 1
        moved: Vector = found + 0.1 / state.turns * state.velocity
        return moved


@dataclass(slots=True)
class Own:
    """A state that is no ``ConsensusState``; nobody tells it of neighbours that are gone for good."""

    theta: Vector
    dual: Vector
    heard: Matrix

    def linear_term(self, eta: float, proximal: float, contact: Contact | None) -> Vector:
        around: Vector = len(self.heard) * self.theta + self.heard.sum(axis=0)
        return 2.0 * self.dual - eta * around - proximal * self.theta

    def absorb(
        self,
        neighbours: Sequence[int],
        own: Vector | None,
        inbox: Mapping[int, Vector],
        eta: float,
        contact: Contact | None,
    ) -> None:
        self.theta = self.theta if own is None else own
        self.heard = np.array([inbox.get(j, self.heard[row]) for row, j in enumerate(neighbours)])
        self.dual = self.dual + 0.5 * eta * (len(self.heard) * self.theta - self.heard.sum(axis=0))


class Stranger(PPADMM):
    """PP-ADMM with a state of its own, whose agents are made by ``agent`` and whose graph is that of networkx."""

    name = "stranger"

    def agent(self, id: int, plan: AgentPlan) -> Agent:
        agent = super().agent(id, plan)
        graph: Any = self.facts.graph
        assert isinstance(graph, nx.Graph)
        assert (agent.neighbours[0], id) in graph.edges
        assert agent.degree == graph.degree[id] == len(dict(graph.degree([id, *graph[id]]))) - 1
        return agent

    def start(self, agent: Agent, width: int) -> Any:
        return Own(np.zeros(width), np.zeros(width), np.zeros((agent.degree, width)))


@dataclass(slots=True)
class Averaged(ModelState):
    """With the sum of all models."""

    total: Vector
    count: int = 0


class AveragedSGD(DPSGD):
    """DP-SGD whose model is the mean over its epochs."""

    name = "averaged-sgd"

    def start(self, agent: Agent, width: int) -> Averaged:
        return Averaged(np.zeros(width), np.zeros(width))

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        if own is not None:
            agent.state.total, agent.state.count = agent.state.total + own, agent.state.count + 1

    def model(self, agent: Agent) -> Vector:
        mean: Vector = agent.state.total / max(1, agent.state.count)
        return mean


@dataclass(slots=True)
class Jotted(ConsensusState):
    """With one value of a kind of its own."""

    jotted: Any = None


class Jotting(PPADMM):
    """PP-ADMM that keeps a value from the first broadcast on; it goes into what is said."""

    name = "jotting"
    first: ClassVar[Any] = None
    later: ClassVar[Any] = None
    seen: ClassVar[list[tuple[Agent, Any]]] = []

    def start(self, agent: Agent, width: int) -> Jotted:
        state = Jotted.zero(agent.degree, width)
        state.jotted = self.first
        return state

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        self.seen.append((agent, agent.state.jotted))
        agent.state.jotted = self.later
        super().absorb(agent, own, inbox)


@pytest.fixture
def jotting(monkeypatch: pytest.MonkeyPatch) -> type[Jotting]:
    class Own(Jotting):
        seen: ClassVar[list[tuple[Agent, Any]]] = []

    monkeypatch.setitem(METHODS, "jotting", Own)
    return Own


REFUSED: dict[str, Any] = {
    "list": [1.0, 2.0],
    "dict": {1: 2.0},
    "set": {1},
    "dataclass": ModelState(np.zeros(2)),
    "generator": np.random.default_rng(0),
    "large": 2**70,
    "objects": np.array([None, 1]),
    "texts": np.array(["a"]),
    "list in a tuple": (1, [2]),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_state_that_no_checkpoint_can_hold_is_refused(name: str, jotting: type[Jotting], place: Place) -> None:
    jotting.first = REFUSED[name]
    with pytest.raises(RequestError, match=r"Jotted\.jotted .* tuple of these"):
        place.whole("run", algorithm="jotting", checkpoint_every=1)
    assert not (place.folder / "run").exists()  # before the first round
    jotting.first, jotting.later = None, REFUSED[name]
    with pytest.raises(
        RequestError, match=r"Jotted\.jotted .* tuple of these; runs without --checkpoint-every do without"
    ):
        place.whole("run", algorithm="jotting", checkpoint_every=2)
    kept = (place.folder / "run").glob("checkpoint/*/*")
    assert {path.parent.name for path in kept} == {"000000"}  # before the first round
    assert place.whole("without", algorithm="jotting")


@pytest.mark.parametrize(
    "value",
    [
        *(3, -(2**63), 0.1, True, "word", 1j, None, (), (1, 2.5, True, None, "x", (np.float32(0.1),))),
        *(np.float64(0.1), np.float32(0.1), np.int8(3), np.bool_(True)),
        *(np.array(2.5), np.arange(3), np.ones((2, 3), order="F"), np.zeros((0, 2))),
    ],
    ids=repr,
)
def test_state_comes_back_as_its_own_kind(value: Any, jotting: type[Jotting], place: Place) -> None:
    jotting.later = value
    cut = place.interrupted("cut", 4, algorithm="jotting", checkpoint_every=5)
    jotting.seen.clear()
    place.resume(cut)
    agent = jotting.seen[-1][0]  # of the run: the first ones are those that were checked before it
    found = next(value for whose, value in jotting.seen if whose is agent)
    assert type(found) is type(value)
    assert repr(found) == repr(value)
    if isinstance(value, np.ndarray):
        assert (found.dtype, found.shape, found.flags.writeable) == (value.dtype, value.shape, True)
        assert found.flags.f_contiguous == value.flags.f_contiguous  # the order decides the last bits of products


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (HeavyBall, AveragedSGD):
        monkeypatch.setitem(METHODS, kind.name, kind)


class OneSite(Place):
    """Place of runs without a network."""

    def config(self, name: str, **settings: Any) -> RunConfig:
        values: dict[str, Any] = {"data": str(self.data), "out": str(self.folder / name), "seed": 3}
        return RunConfig(**values | {"epsilon": 20.0, "delta": 1e-4, "simulate": True} | settings)


@pytest.fixture
def site(place: Place) -> OneSite:
    return OneSite(place.folder)


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("after", [0, 4])
def test_an_outside_method_of_the_network_goes_on(after: int, place: Place) -> None:
    whole = place.whole("whole", algorithm="heavy-ball")
    cut = place.interrupted("cut", after, algorithm="heavy-ball", checkpoint_every=1)
    assert_same(whole, place.resume(cut))
    plain = place.whole("plain")
    assert (run_theta(whole) != run_theta(plain)).any()


def test_methods_with_agents_and_states_of_their_own_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, Stranger.name, Stranger)
    ours, theirs = (run_theta(place.whole(name, algorithm=name)) for name in ("pp-admm", "stranger"))
    assert (ours == theirs).all()
    alone = place.whole("alone", algorithm="stranger", offline="3:3-")
    assert np.isfinite(run_theta(alone)).all()


SITES: dict[str, dict[str, Any]] = {
    "averaged": {"algorithm": "averaged-sgd", "batch": 20, "epochs": 5},
    "dp-scd": {"algorithm": "dp-scd", "batch": 20, "epochs": 5},
    "dp-scd noise": {"algorithm": "dp-scd", "batch": 20, "epochs": 5, "dual_noise": True, "sampling": "fixed"},
    "seq-dp-scd": {"algorithm": "seq-dp-scd", "batch": 20, "epochs": 5, "loss": "hinge"},
    "primal": {"algorithm": "primal-dp-scd", "method": "published", "epochs": 5},
    "dp-sgd shuffled": {"algorithm": "dp-sgd", "batch": 20, "epochs": 5, "sampling": "shuffled"},
    "sgd": {"algorithm": "sgd", "epochs": 5},
    "sdca": {"algorithm": "sdca", "regularisation": 1e-3},
}


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("after", [2, 4])
def test_single_site_methods_go_on_with_what_a_seeded_checkpoint_keeps(name: str, after: int, site: OneSite) -> None:
    """Also where nothing is left but the end: after the last of five epochs."""
    whole = site.whole("whole", **SITES[name])
    cut = site.interrupted("cut", after, checkpoint_every=1, **SITES[name])
    assert_same(whole, site.resume(cut))


def test_without_a_seed_they_are_refused_before_anything_is_written(site: OneSite) -> None:
    for own in ({"simulate": True}, {"simulate": False, "no_test": True, "no_account": True}):
        with pytest.raises(RequestError, match="dp-scd without a seed"):
            site.whole("run", algorithm="dp-scd", seed=None, checkpoint_every=1, **own)
    assert not (site.folder / "run").exists()


# accounts


def private(site: OneSite, name: str, **settings: Any) -> Any:
    own = {"seed": None, "simulate": False, "no_test": True, "account": str(site.folder / "account")}
    return run(site.config(name, **own | {"algorithm": "dp-scd", "batch": 20} | settings)).summary["privacy"]


def test_an_account_spans_runs_of_single_site_methods(site: OneSite) -> None:
    first = private(site, "one", epsilon=1.0)
    again = private(site, "two", epsilon=2.0, algorithm="dp-sgd")
    assert first["epsilon_spent"] <= first["account_epsilon_spent"] <= 1.0
    assert again["epsilon_spent"] < again["account_epsilon_spent"] <= 2.0
    for name in ("one", "two"):
        (ledger,) = read_run(site.folder / name).ledgers.values()
        assert ledger.header["account"]
    with pytest.raises(BudgetError, match="account"):
        private(site, "three", epsilon=2.0)
    with pytest.raises(RequestError, match="zero-out"):  # what BANCO costs is proven for replace-one
        private(site, "four", epsilon=4.0, algorithm="banco", batch="auto")


def test_an_interrupted_seeded_run_goes_on_in_its_account(site: OneSite) -> None:
    own = {"algorithm": "dp-scd", "batch": 20, "epochs": 5}
    whole = site.whole("whole", account=str(site.folder / "a"), **own)
    cut = site.interrupted("cut", 2, checkpoint_every=1, account=str(site.folder / "b"), **own)
    assert_same(whole, site.resume(cut))
    assert (site.folder / "a/agent-000.jsonl").read_bytes() == (site.folder / "b/agent-000.jsonl").read_bytes()


def run_theta(folder: Path) -> Any:
    with np.load(folder / "model.npz") as archive:
        return archive["theta"]
