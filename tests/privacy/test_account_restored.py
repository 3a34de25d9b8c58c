"""An account beside an older copy of a run's folder: all that the run could have charged counts as spent."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import BudgetError, CheckFailed
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
    place.run("first", epsilon=0.5, **KINDS[kind], **SECRET)
    before = audit.read(place.file(), account=True)
    restore(place.account, 0, 1.0)
    whole = place.file().read_bytes()
    found = audit.read(place.file(), account=True)
    assert json.loads(whole.splitlines()[-1])["kind"] == "restored"
    assert (found.count, found.runs) == (before.count, before.runs)
    filter, spent = found.contract.account, found.totals
    assert filter is not None
    assert filter.epsilon == 1.0
    assert (spent.mu_squared if filter.order is None else spent.curve[filter.order]) == filter.limit
    assert filter.order is not None or spent.kappa == max(filter.kappa, before.totals.kappa)
    assert math.isclose(found.total()["epsilon_spent"] or 0.0, 1.0, rel_tol=1e-3)
    if kind == "masked":
        assert spent.unmasked is not None
        assert spent.unmasked.mu_squared == filter.parts * filter.limit
    for epsilon in (1.0, 0.5):
        restore(place.account, 0, epsilon)
        assert place.file().read_bytes() == whole
    shown = admmnet.json("account", "show", place.account)
    assert shown[0]["total"] == found.total()
    with pytest.raises(BudgetError, match="all of epsilon 1 is spent"):
        place.run("second", epsilon=1.0, **KINDS[kind], **SECRET)
    if kind == "order":
        place.run("third", epsilon=2.0, **KINDS[kind], **SECRET)
    else:  # a larger epsilon leaves discrete noise less than may be missing
        with pytest.raises(BudgetError, match="an older copy of a run's folder was put back: it pays for no further"):
            place.run("third", epsilon=2.0, **KINDS[kind], **SECRET)
    audit.read(place.file(), account=True)
    assert place.file().read_bytes().startswith(whole)


def test_an_account_in_which_no_run_has_begun_has_no_filter(tmp_path: Path) -> None:
    restore(tmp_path, 0, 1.0)
    assert not [*tmp_path.iterdir()]


Change = Callable[[dict[str, Any]], object]
FORGED: dict[str, tuple[Change, str]] = {
    "less": (lambda line: line["total"].update(epsilon_spent=0.7), "total.epsilon_spent is 0.7, recomputed"),
    "a smaller epsilon": (lambda line: line.update(epsilon=0.4), "epsilon is 0.4, below that of the run before"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_line_is_told(name: str, place: Place) -> None:
    place.run("first", epsilon=0.5, **KINDS["mu^2"], **SECRET)
    restore(place.account, 0, 1.0)
    change, told = FORGED[name]
    *lines, last = place.file().read_bytes().splitlines()
    line = json.loads(last)
    change(line)
    place.file().write_bytes(b"\n".join([*lines, json.dumps(line, separators=(",", ":")).encode()]) + b"\n")
    with pytest.raises(CheckFailed, match=told):
        audit.read(place.file(), account=True)


def test_a_ledger_has_no_such_line(place: Place) -> None:
    path = place.run("first", **KINDS["mu^2"], **SECRET).folder / "ledger/agent-000.jsonl"
    restore(place.account, 0, 1.0)
    line = json.loads(place.file().read_bytes().splitlines()[-1])
    lines = path.read_bytes().splitlines()[:-1]
    line["previous"] = digest(lines[-1])
    path.write_bytes(b"\n".join([*lines, json.dumps(line, separators=(",", ":")).encode()]) + b"\n")
    with pytest.raises(CheckFailed, match="stands in no account"):
        audit.read(path)
