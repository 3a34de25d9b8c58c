"""Masked sums: the same model as without masks, two epsilons, and what cannot work is refused with words."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from msgspec import convert

from admmnet import RequestError, RunResult, read_run, run
from admmnet.cli import run_command_line
from admmnet.config.run_config import RunConfig
from admmnet.errors import CheckFailed
from admmnet.masking import Attempt, Masks
from admmnet.methods import fixed
from admmnet.methods.agents import Agents
from admmnet.methods.sums import SumMethod
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from admmnet.record.agree import contradictions
from admmnet.record.forms import Summary
from admmnet.running import plan
from admmnet.transport.collective import gather_owned
from admmnet.transport.local import LocalTransport, LocalWorld
from tests.command_runs import Admmnet
from tests.interrupted_runs import Place
from tests.people_runs import summary_of, write_people
from tests.privacy.ledgers import chained, parsed


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("people") / "people.npz", 400, width=5)


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go(people, tmp_path_factory.mktemp("finished") / "run", rounds=5).folder


def go(people: str, out: Path, **others: Any) -> RunResult:
    given: dict[str, Any] = {"algorithm": "noisy-gd", "topology": "ring:5", "seed": 0, "delta": 1e-4}
    given |= {"trust": "masked", "colluders": 1}
    return run(data=people, out=str(out), **given | others)


@pytest.mark.parametrize(("algorithm", "colluders"), [("noisy-gd", 0), ("noisy-gd", 1), ("ssp", 3)])
def test_the_total_is_exactly_that_of_what_was_put_in(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, colluders: int
) -> None:
    sent: list[np.ndarray[Any, Any]] = []
    reduce = LocalTransport.reduce

    def watched(self: LocalTransport, outgoing: Any, *rest: Any) -> Any:
        sent.append(np.array(list(outgoing.values())))
        return reduce(self, outgoing, *rest)

    def silent(self: Masks, attempt: Attempt, context: bytes, size: int) -> Any:
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(LocalTransport, "reduce", watched)
    seen = go(people, tmp_path / "seen", algorithm=algorithm, colluders=colluders)
    with_masks = sent.copy()
    sent.clear()
    monkeypatch.setattr(Masks, "words", silent)
    bare = go(people, tmp_path / "bare", algorithm=algorithm, colluders=colluders)
    assert (seen.theta == bare.theta).all()
    assert len(sent) == bare.summary["rounds"]
    for one, other in zip(with_masks, sent, strict=True):
        assert (one.sum(axis=0) == other.sum(axis=0)).all()  # modulo 2^64
        assert np.count_nonzero(one - other) == one.size  # and no number went as it is
        assert np.abs(other).max() < 2**52 < np.abs(one.astype(float)).max()


def test_two_epsilons_are_of_the_honest_noise_and_of_the_agent_s_own(people: str, tmp_path: Path) -> None:
    result = go(people, tmp_path / "run", colluders=2, rounds=20)
    privacy, entry = result.summary["privacy"], result.summary["per_agent"][0]
    assert privacy["trust"] == "masked"
    assert privacy["colluders"] == 2
    assert 0.999 < privacy["epsilon_proven"] <= 1.0
    book = audit.read(tmp_path / "run" / "ledger" / "agent-000.jsonl")
    events = [event for _, event, _ in book.events if isinstance(event, DiscreteGaussian)]
    assert [event.agents for event in events] == 20 * [5]
    assert book.header["trust"] == "masked"
    mu = math.sqrt(sum((event.sensitivity / event.sigma) ** 2 for event in events))
    # alone an agent has a third of the variance
    assert entry["epsilon_spent"] == pytest.approx(gaussian_epsilon(mu, 1e-4), rel=1e-6)
    spent = entry["epsilon_spent_if_all_collude"]
    assert spent == pytest.approx(gaussian_epsilon(math.sqrt(3.0) * mu, 1e-4), rel=1e-6)
    assert book.events[-1][2]["total"]["epsilon_if_all_collude"] == spent
    whole = privacy["epsilon_if_all_collude"]
    assert spent <= whole == pytest.approx(spent, rel=1e-3)  # what the filter lets through
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


def test_noise_is_for_the_strictest_of_the_participants(people: str, tmp_path: Path) -> None:
    table = {"0": {"epsilon": 0.25}, "3": {"epsilon": 4.0}}
    result = go(people, tmp_path / "run", budgets=table, rounds=10, split="sizes:1:2:4:8:16")
    spent = [entry["epsilon_spent"] for entry in result.summary["per_agent"]]
    assert all(0.999 * 0.25 < value <= 0.25 for value in spent)


@pytest.mark.parametrize("share", [0.002, 0.49, 2.01, 1e-300, math.nan, True, "1"])
def test_whose_word_of_its_noise_does_not_follow_from_its_budget_is_refused_by_name(
    share: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strictest word makes everybody's noise: 0.002 would be 500 times as much."""
    graph, near = nx.complete_graph(5), math.sqrt(2.0 * Target(1.0, 1e-5).nominal_rho() / 10.0)

    def lied(world: Any, owners: Any, mine: Any, valid: Any, what: str, *, topic: str) -> Any:
        if "noise" in what:
            mine = mine | {3: share * near if type(share) is float else share}
        return gather_owned(world, owners, mine, valid, what, topic=topic)

    monkeypatch.setattr(plan, "gather_owned", lied)
    config = RunConfig(algorithm="noisy-gd", trust="masked", colluders=1, delta=1e-5, rounds=10).sections.method
    public = plan.Public(dict.fromkeys(range(5), 2000), 7)
    with pytest.raises(RequestError, match="agent 3 says that its share of sensitivity in the noise is"):
        plan.decide(fixed(config), graph, LocalWorld(), [range(5)], public)


def test_the_strictest_agent_is_named_where_it_costs_much(people: str, tmp_path: Path) -> None:
    for strict, noted in ((0.25, True), (0.8, False)):
        result = go(people, tmp_path / str(strict), budgets={"2": {"epsilon": strict}}, rounds=3)
        notes = [note for note in result.summary["notes"] if "for agent 2, which reports the least budget left" in note]
        assert bool(notes) == noted


def test_a_run_begun_again_has_other_masks_and_the_same_bits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Masks.words
    seen: list[bytes] = []

    def noted(self: Masks, *given: Any) -> Any:
        found = words(self, *given)
        seen.append(found.tobytes())
        return found

    monkeypatch.setattr(Masks, "words", noted)
    settings = {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1}
    whole = place.whole("whole", **settings)
    stopped = place.interrupted("stopped", 4, **settings)
    resumed = place.resume(stopped)
    assert (whole / "model.npz").read_bytes() == (resumed / "model.npz").read_bytes()
    assert len(set(seen)) == len(seen) == 4 * (7 + 5 + 7)  # its rounds came again, under other masks


def test_a_private_run_that_is_resumed_repeats_what_it_sent_and_pays_once(place: Place) -> None:
    stopped = place.interrupted("stopped", 4, algorithm="noisy-gd", trust="masked", colluders=2, seed=None)
    summary = summary_of(place.resume(stopped))
    book = audit.read(stopped / "ledger" / "agent-000.jsonl")
    assert [round for round, _, _ in book.events] == list(range(7))
    assert summary["per_agent"][0]["refused_at"] is None
    assert summary["privacy"]["epsilon_spent"] <= 5.0


def test_a_colluder_that_keeps_silent_makes_an_attempt_void_and_all_others_pay_for_it(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summands, asked = SumMethod.summands, list[int]()

    def silent(self: SumMethod, agents: Agents, point: Any) -> Any:
        ask = next(summands(self, agents, point))
        asked.extend([4] * (len(agents) == 5))
        return (yield ask._replace(rows=np.array(agents.ids) != 4) if len(asked) == 3 else ask)

    monkeypatch.setattr(SumMethod, "summands", silent)
    result = go(people, tmp_path / "run", rounds=6)
    book = audit.read(tmp_path / "run" / "ledger" / "agent-000.jsonl")
    events = [(round, event.agents) for round, event, _ in book.events if isinstance(event, DiscreteGaussian)]
    assert events == [(0, 5), (1, 5), (2, 5), (3, 4), (4, 4), (5, 4)]
    one, both = book.events[0][1], book.totals
    assert isinstance(one, DiscreteGaussian)
    mu = one.sensitivity / one.sigma
    assert both.mu_squared == pytest.approx(6.0 * mu**2, rel=1e-6)
    assert both.unmasked is not None
    assert both.unmasked.mu_squared == pytest.approx((3 * 4.0 + 3 * 3.0) * mu**2, rel=1e-6)
    assert result.summary["per_agent"][4]["releases"] == 2
    assert any("1 masked sum was void, the first in round 2" in note for note in result.summary["notes"])
    whole = go(people, tmp_path / "whole", rounds=6)
    assert np.abs(result.theta - whole.theta).max() < 10.0  # no masks in the model


def test_both_epsilons_are_told_wherever_one_is(finished: Path, admmnet: Admmnet) -> None:
    second = summary_of(finished)["privacy"]["epsilon_if_all_collude"]
    assert admmnet.ok("ledger", "export", finished).out.splitlines()[0].endswith("total_epsilon_if_all_collude")
    words = "--algorithm noisy-gd --topology ring:5 --trust masked --colluders 1 --delta 1e-4 --rounds 5 --records 80"
    planned = admmnet.json("calibrate", *words.split(), "--features", "6")
    told = [entry["worst_case"]["epsilon_if_all_collude"] for entry in planned["agents"]]
    assert told == pytest.approx([second] * 5, rel=1e-3)


def test_a_summary_that_says_less_than_the_ledgers_is_found(finished: Path) -> None:
    folder, path = read_run(finished), finished / "summary.json"
    summary: Any = summary_of(folder.path)
    assert list(contradictions(path, convert(summary, Summary), folder.ledgers)) == []
    for place, key, value in (
        ("privacy", "trust", "local"),
        ("privacy", "colluders", 2),
        ("privacy", "epsilon_if_all_collude", 1.0),
        ("per_agent", "epsilon_spent_if_all_collude", 0.5),
    ):
        changed = deepcopy(summary)
        table: Any = changed[place][2] if place == "per_agent" else changed[place]
        table[key] = value
        assert list(contradictions(path, convert(changed, Summary), folder.ledgers)), key


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ({"colluders": 0}, "header's"),
        ({"colluders": 2}, "header's"),
        ({"colluders": None}, "replace-one"),
        ({"colluders": None, "trust": None}, "header does not say"),
    ],
)
def test_the_header_of_a_ledger_says_against_how_many_its_sums_were_masked(
    header: dict[str, Any], fault: str, finished: Path, tmp_path: Path
) -> None:
    lines = parsed((finished / "ledger" / "agent-001.jsonl").read_bytes())
    assert lines[0]["colluders"] == 1
    lines[0] = {name: value for name, value in (lines[0] | header).items() if value is not None}
    (tmp_path / "agent-001.jsonl").write_bytes(chained(lines))
    with pytest.raises(CheckFailed, match=fault):
        audit.read(tmp_path / "agent-001.jsonl")


@pytest.mark.parametrize(("colluders", "told"), [(0, "plans to charge more than epsilon"), (4, "at least 6 agents")])
def test_a_method_that_plans_other_masks_than_its_run_promises_is_refused(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colluders: int, told: str
) -> None:
    """The door masks by the contract, against K = 3, and that is not what these methods have planned."""
    monkeypatch.setattr(SumMethod, "colluders", colluders)
    with pytest.raises(RequestError, match=told):
        go(people, tmp_path / "run", colluders=3, rounds=3)
    for ledger in (tmp_path / "run" / "ledger").glob("*"):
        assert not audit.read(ledger).events


def test_an_account_says_the_least_k_of_its_runs_and_its_own_second_epsilon(
    people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    """The first run's noise holds against one, the second's against three: the total against one alone."""
    given: dict[str, Any] = {"rounds": 3, "account": str(tmp_path / "account"), "seed": None, "simulate": True}
    go(people, tmp_path / "first", **given)
    second = go(people, tmp_path / "second", epsilon=2.0, colluders=3, **given)
    totals = audit.read(tmp_path / "account" / "agent-000.jsonl", account=True).totals
    privacy, whole = second.summary["privacy"], Contract.reading(1e-4).spent(totals, alone=True)
    assert whole is not None
    assert totals.colluders == privacy["account_colluders"] == 1
    assert privacy["account_epsilon_if_all_collude"] == whole
    assert whole > second.summary["per_agent"][0]["epsilon_spent_if_all_collude"]
    shown = admmnet.json("account", "show", tmp_path / "account")
    assert [entry["colluders"] for entry in shown] == 5 * [1]
