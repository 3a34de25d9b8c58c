"""What follows from the mode: test records, what is shown, delta, groups, and accounts of other runs."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.config.defaults import with_delta
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.privacy.conversion import group_epsilon
from admmnet.report.page import make_report
from admmnet.report.series import read_series
from admmnet.running import summary
from admmnet.running.accounts import delta_of, records_of
from admmnet.running.summary import TEST_RECORDS, Word
from tests.people_runs import PRIVATE, Stop, small, stopping, summary_of, write_people


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz")


# test records


@pytest.mark.parametrize("form", ["csv", "npz", "libsvm"])
def test_the_schema_alone_encodes_files_of_agents(form: str, tmp_path: Path) -> None:
    """Rows and features are those that a public test file gives."""
    stream, columns = np.random.default_rng(3), {n: {"kind": "numeric", "low": 0, "high": 3} for n in ("size", "age")}
    schema: dict[str, Any] = {"labels": ["0", "1"], "features": 2}
    if form == "csv":
        schema = {"labels": ["0", "1"], "label": "y", "columns": columns}
    for name in ("0", "1", "test"):
        X = np.round(stream.uniform(0.1, 2.0, (20, 2)), 3)
        y, path = (X[:, 0] > 1.0).astype(int), tmp_path / f"{name}.{form}"
        if form == "npz":
            np.savez(path, X=X, y=y)
        line = "{2} 1:{0} 2:{1}\n" if form == "libsvm" else "{0},{1},{2}\n"
        if form != "npz":
            rows = [line.format(a, b, k) for (a, b), k in zip(X, y, strict=True)]
            path.write_text("".join(["size,age,y\n"] * (form == "csv") + rows))
    given = DataSettings(data=str(tmp_path / f"{{agent}}.{form}"), schema=schema)
    tested = load(given.changed(test=str(tmp_path / f"test.{form}")), 2, range(2))
    alone = load(given.changed(no_test=True), 2, range(2))
    assert alone.feature_names == tested.feature_names
    for agent in range(2):
        for mine, theirs in zip(alone.shards[agent], tested.shards[agent], strict=True):
            assert mine.tobytes() == theirs.tobytes()
    assert (alone.X_test.shape, alone.preprocessing) == ((0, len(tested.feature_names)), "public-bounds")
    bare = {key: value for key, value in schema.items() if key not in ("columns", "features")}
    with pytest.raises(RequestError, match="declare every column" if form == "csv" else "--features D"):
        load(given.changed(no_test=True, schema=bare), 2, range(2))


@pytest.mark.parametrize("baseline", [False, True])
def test_without_test_records_errors_are_null_everywhere(baseline: bool, people: str, tmp_path: Path) -> None:
    if baseline:
        pytest.importorskip("dp_accounting")
        config = RunConfig(algorithm="dp-sgd", data=people, epochs=2, out=str(tmp_path / "run"), **PRIVATE)
    else:
        config = small(people, tmp_path / "run", **PRIVATE)
    told = summary_of(run(config).folder)
    assert (told["mode"], "train_loss" in told) == ("private", False)
    assert told["test_error"] == dict.fromkeys(("mean", "std", "consensus", "records"))
    assert {entry["test_error"] for entry in told["per_agent"]} == {None}
    series = read_series(tmp_path / "run")
    assert np.isnan(series.network["test_error"]).all()
    assert np.isnan(series.agents["test_error"]).all()
    html = make_report([tmp_path / "run"]).html
    assert "0 for testing" in html
    assert "NaN" not in html


# what is shown follows the mode, the noise follows the seed


def test_an_unseeded_simulation(people: str, tmp_path: Path) -> None:
    """Shows what a seeded one shows; its noise is secret."""
    folder = run(small(people, tmp_path / "run", simulate=True)).folder
    told = summary_of(folder)
    assert (told["mode"], told["seeded"], told["test_error"]["records"]) == ("simulation", False, TEST_RECORDS)
    assert told["train_loss"] > 0.0
    assert "solve" in told["seconds"]
    for account in read_run(folder).ledgers.values():
        assert (account.header["mode"], account.header["noise"]) == ("simulation", "private")
    again = run(small(people, tmp_path / "again", simulate=True)).theta
    with np.load(folder / "model.npz") as model:
        assert (model["theta"] != again).any()


def test_times_are_rounded_before_they_are_gathered(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Word] = []

    def watching(*args: Any, **values: Any) -> Word:
        told.append(Word(*args, **values))
        return told[-1]

    monkeypatch.setattr(summary, "Word", watching)
    ticks = count(0.0, 1.23456)  # so that solves take whole seconds, too
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    for name, settings, digits in (("private", PRIVATE, 0), ("simulated", {"simulate": True}, 3)):
        told.clear()
        run(small(people, tmp_path / name, **settings))
        (seconds,) = (word.seconds for word in told)
        assert seconds == tuple(round(value, digits) for value in seconds)
        assert (seconds[1] == 0.0) is (name == "private")
        assert seconds[1] + seconds[2] <= seconds[0]


# delta


@pytest.mark.parametrize(
    ("counts", "accounts", "delta", "own"),
    [
        ([7000] * 5, {}, 1e-5, {}),
        ([10**6, 50_000], {}, 2e-6, {}),
        ([100, 7000], {0: 1e-6, 1: 1e-6}, 1e-6, {}),
        ([100, 7000], {1: 0.5}, 1e-5, {"1": {"delta": 0.5}}),  # one agent's account is its own affair
        ([100, 7000], {0: 1e-4, 1: 1e-6}, 1e-5, {"0": {"delta": 1e-4}, "1": {"delta": 1e-6}}),
    ],
)
def test_delta_auto(
    counts: list[int], accounts: dict[int, float], delta: float, own: dict[str, dict[str, float]]
) -> None:
    config = with_delta(RunConfig().sections.method, counts, accounts)
    assert config.delta == pytest.approx(delta, rel=1e-12)
    assert config.budgets == own
    assert with_delta(RunConfig(delta=1e-3).sections.method, counts, accounts).delta == 1e-3
    own = {"1": {"delta": 1e-7, "epsilon": 2.0}}  # the agent's own wins
    assert with_delta(RunConfig(budgets=own).sections.method, counts, accounts).budgets["1"] == own["1"]


def test_the_resolved_delta_is_kept_and_an_account_keeps_its_own(people: str, tmp_path: Path) -> None:
    account = str(tmp_path / "account")
    first = run(small(people, tmp_path / "first", simulate=True, account=account, delta=1e-6))
    assert (delta_of(tmp_path / "account", 0), delta_of(tmp_path / "account", 9)) == (1e-6, None)
    second = run(small(people, tmp_path / "second", simulate=True, account=account, epsilon=40.0))
    plain = run(small(people, tmp_path / "plain", seed=0))
    for result, delta in ((first, 1e-6), (second, 1e-6), (plain, 1e-5)):
        assert result.summary["privacy"]["delta"] == delta
        assert f"delta = {delta:g}\n" in (result.folder / "config.toml").read_text()
    assert not any("delta is above" in note for note in plain.summary["notes"])


# a person with several records


def test_the_group_figure(people: str, tmp_path: Path) -> None:
    """Also of a run that goes on: what it pays for again comes out of the same counts."""
    config = small(people, tmp_path / "run", group_size=3, budgets={"2": {"epsilon": 5.0}}, **PRIVATE)
    result = run(config)
    privacy = result.summary["privacy"]
    for name, how in (("one", PRIVATE), ("plain", {"algorithm": "admm", "seed": 0, "group_size": 3})):
        assert run(small(people, tmp_path / name, **how)).summary["privacy"]["epsilon_group"] is None
    most = max(entry["rho_proven"] for entry in result.summary["per_agent"])
    assert privacy["group_size"] == 3
    assert privacy["epsilon_group"] == group_epsilon(most, privacy["delta"], 3) > privacy["epsilon_proven"]
    for told in (str(result.summary()), make_report([result.folder]).html):
        assert "a person with 3 records, wherever they are held, is promised epsilon" in told
    with pytest.raises(Stop):
        run(config.changed(out=str(tmp_path / "cut")), on_round=stopping(0))
    resumed = run(RunConfig(resume=str(tmp_path / "cut"))).summary
    assert resumed["privacy"]["epsilon_group"] == privacy["epsilon_group"]
    spent = max(entry["rho"] for entry in resumed["per_agent"])
    assert group_epsilon(spent, privacy["delta"], 3) <= privacy["epsilon_group"]


# an account of other runs


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ({"test": "elsewhere.npz"}, None),  # whatever file the errors are measured on
        ({"test": None, "no_test": False}, "was opened with test = None"),  # a quarter was drawn then
        ({"mode": "simulation"}, "was opened with mode = 'simulation'"),
        ({"noise": "seeded"}, "was opened with noise = 'seeded'"),  # by an older version
        ({"data": "elsewhere.npz"}, "give them as they were"),
        ({"agents": 3}, "was opened with agents = 3"),
        ({"more": 1}, "is damaged"),
        ({"begun": [0.0]}, "is damaged"),
        ({"begun": [2]}, r"agent-002\.jsonl is missing, or empty, but by .* a run has used it"),
    ],
)
def test_an_account_is_of_one_dealing(before: dict[str, Any], words: str | None, people: str, tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    config = small(people, tmp_path / "run", no_test=True, account=str(account))
    (account / "records.json").write_text(json.dumps(records_of(config.request, 4, "private") | before))
    with nullcontext() if words is None else pytest.raises(RequestError, match=words):
        run(config)
    if words is None:
        assert json.loads((account / "records.json").read_text())["begun"] == [0, 1, 2, 3]


def test_an_account_file_knows_its_mode(people: str, tmp_path: Path) -> None:
    """Also where records.json, which says it for all agents, was removed."""
    account = tmp_path / "account"
    run(small(people, tmp_path / "first", no_test=True, account=str(account)))
    (account / "records.json").unlink()
    before = (account / "agent-000.jsonl").read_bytes()
    own: dict[str, Any] = {"simulate": True, "no_test": True, "account": str(account)}
    with pytest.raises(RequestError, match="is of private runs, this one is simulation"):
        run(small(people, tmp_path / "second", epsilon=40.0, **own))
    assert (account / "agent-000.jsonl").read_bytes() == before


def test_an_account_takes_no_other_promise(people: str, tmp_path: Path) -> None:
    """Of masked sums among more agents than those of its first run, whose noise is a smaller share of the whole."""
    how: dict[str, Any] = {"algorithm": "noisy-gd", "no_test": True, "account": str(tmp_path / "account")}
    run(small(people, tmp_path / "one", trust="masked", colluders=2, **how | {"epsilon": 4.0}))
    with pytest.raises(RequestError, match=r"opened for masked sums of at most 2 agents .* this run has 3"):
        run(small(people, tmp_path / "two", trust="masked", colluders=1, **how))
    run(small(people, tmp_path / "three", **how))
