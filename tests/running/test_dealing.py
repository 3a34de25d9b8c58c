"""Accounts and resumed runs know how records in memory were dealt: as a pool, as shards, or by groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import NetworkClassifier, PrivacyWarning, RequestError, run
from admmnet.data import DataSettings
from admmnet.data.sources import validate
from tests.people_runs import Stop, stopping

rng = np.random.default_rng(5)
X = rng.standard_normal((120, 3))
y = np.where(X[:, 0] > 0, 1, -1)
POOL: dict[str, Any] = {"X": X, "y": y, "agents": 2}
SHARDS: dict[str, Any] = {"shards": [(X[:60], y[:60]), (X[60:], y[60:])]}
BY_RANK: dict[str, Any] = {"shards": dict(enumerate(SHARDS["shards"]))}
RUN: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 4, "delta": 1e-4, "no_test": True, "private": True}


@pytest.mark.parametrize(("first", "then"), [(POOL, SHARDS), (SHARDS, POOL)])
def test_an_account_refuses_records_dealt_otherwise(
    first: dict[str, Any], then: dict[str, Any], tmp_path: Path
) -> None:
    account = tmp_path / "account"
    run(**first, **RUN, epsilon=0.5, account=account, out=tmp_path / "one")
    with pytest.raises(RequestError, match=r"opened with split = '(iid|shards)', this run has '(iid|shards)'"):
        run(**then, **RUN, epsilon=1.0, account=account, out=tmp_path / "two")
    again = BY_RANK if first is SHARDS else first  # a mapping is the same shards
    result = run(**again, **RUN, epsilon=1.0, account=account, out=tmp_path / "three")
    assert result.summary["privacy"]["account_epsilon_spent"] > 0.5


def test_an_account_refuses_other_groups(tmp_path: Path) -> None:
    account, groups = tmp_path / "account", np.arange(120) % 2

    def model(epsilon: float) -> NetworkClassifier:
        return NetworkClassifier(agents=2, epsilon=epsilon, delta=1e-4, account=account)

    model(0.5).fit(X, y, groups=groups)
    kept = json.loads((account / "records.json").read_text())
    assert kept["data"] == "arrays"
    assert kept["split"].startswith("groups:")
    for other in (None, np.arange(120) // 60, 1 - groups):
        refused = "opened with split = 'groups:"
        with pytest.warns(PrivacyWarning, match=refused), pytest.raises(RequestError, match=refused):
            model(1.0).fit(X, y, groups=other)
    model(1.0).fit(X, y, groups=np.where(groups, "w", "e"))  # the same owners, by other names


@pytest.mark.parametrize("mode", [{"no_account": True}, {"seed": 0, "private": False}])
def test_a_run_goes_on_with_records_of_its_kind(mode: dict[str, Any], tmp_path: Path) -> None:
    for name, first, then in (("pool", POOL, SHARDS), ("shards", SHARDS, POOL)):
        with pytest.raises(Stop):
            run(**first, **{**RUN, **mode}, on_round=stopping(2), out=tmp_path / name)
        with pytest.raises(RequestError, match=r"differs from the interrupted|give them as before"):
            run(resume=tmp_path / name, **then)
        assert run(resume=tmp_path / name, **first).summary["rounds"] == 4


@pytest.mark.parametrize("split", ["shards", "groups:ab"])
def test_files_are_not_dealt_by_a_program(split: str) -> None:
    with pytest.raises(RequestError, match="means that a program dealt the records"):
        validate(DataSettings(data="census", split=split))
