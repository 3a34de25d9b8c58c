"""An account beside an older copy of a run's folder: all that the run could have charged counts as spent."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import BudgetError, CheckFailed
from admmnet.privacy.contract import Filter
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.lines import digest
from admmnet.running.accounts import restore
from tests.command_runs import Admmnet

from .accounts import Place

KINDS: dict[str, dict[str, Any]] = {
    "mu^2": {"algorithm": "pp-admm"},
    "kappa": {"algorithm": "noisy-gd"},
    "order": {"algorithm": "pp-admm", "account_order": True},
    "masked": {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1},
}
SECRET: dict[str, Any] = {"seed": None, "simulate": True}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_filter_had_left_is_spent_once(kind: str, place: Place, admmnet: Admmnet) -> None:
    restore(place.account, 0, 1.0)
    assert not place.account.exists() or not [*place.account.glob("*.jsonl")], "no run has begun: there is no filter"
    place.run("first", epsilon=0.5, **KINDS[kind], **SECRET)
    before = audit.read(place.file(), account=True)
    restore(place.account, 0, 1.0)
    whole = place.file().read_bytes()
    found = audit.read(place.file(), account=True)
    assert json.loads(whole.splitlines()[-1])["kind"] == "restored"
    assert (found.count, len(found.starts)) == (before.count, len(before.starts))
    filter, spent = found.contract.account, found.totals
    assert filter is not None
    assert filter.limit == Filter.keeping(1.0, 1e-4, filter.place, filter.kappa).limit
    assert (spent.mu_squared if filter.place is None else spent.curve[filter.place]) == filter.limit
    assert filter.order is not None or spent.kappa == max(filter.kappa, before.totals.kappa)
    assert math.isclose(found.total()["epsilon_spent"] or 0.0, 1.0, rel_tol=1e-3)
    if kind == "masked":
        assert spent.unmasked is not None
        assert spent.unmasked.mu_squared == filter.parts * filter.most_added
    for epsilon in (1.0, 0.5):
        restore(place.account, 0, epsilon)
        assert place.file().read_bytes() == whole
    assert admmnet.json("account", "show", place.account)[0]["total"] == found.total()
    with pytest.raises(BudgetError, match="all of epsilon 1 is spent"):
        place.run("second", epsilon=1.0, **KINDS[kind], **SECRET)
    if kind == "order":
        place.run("third", epsilon=2.0, **KINDS[kind], **SECRET)
        restore(place.account, 0, 2.0)
        found, order = audit.read(place.file(), account=True), filter.place
        assert found.totals.curve[order] == Filter.keeping(2.0, 1e-4, order).limit
    else:  # a larger epsilon leaves discrete noise less than may be missing
        with pytest.raises(BudgetError, match="an older copy of a run's folder was put back: it pays for no further"):
            place.run("third", epsilon=2.0, **KINDS[kind], **SECRET)
    audit.read(place.file(), account=True)
    assert place.file().read_bytes().startswith(whole)


def test_discrete_noise_bounds_how_far_an_epsilon_is_raised(place: Place) -> None:
    """No copy was put back: a run at an epsilon between what is spent and that bound is paid for."""
    place.run("first", epsilon=20.0, **KINDS["masked"], **SECRET)
    for epsilon in (20.0, 40.0):
        with pytest.raises(BudgetError, match=rf"epsilon {epsilon:g} leaves nothing .* spent epsilon 19.*below 27\."):
            place.run("refused", epsilon=epsilon, **KINDS["masked"], **SECRET)
    place.run("second", epsilon=25.0, **KINDS["masked"], **SECRET)


def test_a_forged_line_is_told(place: Place) -> None:
    ledger = place.run("first", epsilon=0.5, **KINDS["mu^2"], **SECRET).folder / "ledger/agent-000.jsonl"
    restore(place.account, 0, 1.0)
    *lines, last = place.file().read_bytes().splitlines()

    def told(path: Path, before: list[bytes], **values: Any) -> str:
        line = json.loads(last)
        line["total"] |= values.pop("total", {})
        line |= values
        path.write_bytes(b"\n".join([*before, json.dumps(line, separators=(",", ":")).encode()]) + b"\n")
        with pytest.raises(CheckFailed) as caught:
            audit.read(path, account=path != ledger)
        return str(caught.value)

    assert "total.epsilon_spent is 0.7, recomputed" in told(place.file(), lines, total={"epsilon_spent": 0.7})
    assert "epsilon is 0.4, below that of the run before" in told(place.file(), lines, epsilon=0.4)
    own = ledger.read_bytes().splitlines()[:-1]
    assert "stands in no account" in told(ledger, own, previous=digest(own[-1]))
