"""Masked sums: the same model as without masks, two epsilons, and what cannot work is refused with words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunResult, run
from admmnet.cli import run_command_line
from admmnet.masking import Attempt, Masks
from admmnet.methods.agents import Agents
from admmnet.methods.sums import SumMethod
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from admmnet.transport import Transport
from tests.command_runs import Admmnet


def go(people: str, out: Path, **others: Any) -> RunResult:
    given: dict[str, Any] = {"algorithm": "noisy-gd", "topology": "ring:5", "seed": 0, "delta": 1e-4}
    given |= {"trust": "masked", "colluders": 1}
    return run(data=people, out=str(out), **given | others)


@pytest.mark.parametrize(("algorithm", "colluders"), [("noisy-gd", 0), ("noisy-gd", 1), ("ssp", 3)])
def test_the_total_is_exactly_that_of_what_was_put_in(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, colluders: int
) -> None:
    sent: list[np.ndarray[Any, Any]] = []
    reduce = Transport.reduce

    def watched(self: Transport, outgoing: Any, *rest: Any) -> Any:
        sent.append(np.array(list(outgoing.values())))
        return reduce(self, outgoing, *rest)

    def silent(self: Masks, attempt: Attempt, context: bytes, size: int) -> Any:
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(Transport, "reduce", watched)
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


def test_noise_is_for_the_strictest_who_is_named_where_it_costs_much(people: str, tmp_path: Path) -> None:
    for strict, noted in ((0.25, True), (0.8, False)):
        table = {"2": {"epsilon": strict}, "3": {"epsilon": 4.0}}
        result = go(people, tmp_path / str(strict), budgets=table, rounds=3, split="sizes:1:2:4:8:16")
        assert all(0.999 * strict < entry["epsilon_spent"] <= strict for entry in result.summary["per_agent"])
        notes = [note for note in result.summary["notes"] if "for agent 2, which reports the least budget left" in note]
        assert bool(notes) == noted


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


def test_both_epsilons_are_told_wherever_one_is(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    finished = go(people, tmp_path / "run", rounds=5)
    second = finished.summary["privacy"]["epsilon_if_all_collude"]
    assert admmnet.ok("ledger", "export", finished.folder).out.splitlines()[0].endswith("total_epsilon_if_all_collude")
    words = "--algorithm noisy-gd --topology ring:5 --trust masked --colluders 1 --delta 1e-4 --rounds 5 --records 80"
    planned = admmnet.json("calibrate", *words.split(), "--features", "6")
    told = [entry["worst_case"]["epsilon_if_all_collude"] for entry in planned["agents"]]
    assert told == pytest.approx([second] * 5, rel=1e-3)
