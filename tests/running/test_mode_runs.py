"""What follows from the mode: test records, what is shown, delta, groups, and folders of before there were modes."""

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
from admmnet.cli import run_command_line
from admmnet.config.defaults import with_delta
from admmnet.config.run_config import RunConfig as Config
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.privacy.conversion import group_epsilon
from admmnet.report.page import make_report
from admmnet.report.run_plot import plot_run
from admmnet.report.series import read_series
from admmnet.running import summary
from admmnet.running.accounts import delta_of, records_of
from admmnet.running.summary import TEST_RECORDS, Word
from tests.people_runs import PRIVATE, Stop, small, stopping, write_people


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz")


# without test records


def test_all_records_train(people: str) -> None:
    drawn, whole = (load(DataSettings(data=people, no_test=no), 3, range(3)) for no in (False, True))
    assert (sum(drawn.counts.values()), len(drawn.y_test)) == (90, 30)
    assert (sum(whole.counts.values()), whole.X_test.shape) == (120, (0, 5))
    assert any("test records" in note for note in drawn.notes)
    assert not any("test records" in note for note in whole.notes)


@pytest.mark.parametrize("form", ["csv", "npz", "libsvm"])
def test_the_schema_alone_encodes_files_of_agents(form: str, tmp_path: Path) -> None:
    """Rows and features are those that a public test file gives."""
    stream = np.random.default_rng(3)
    schema: dict[str, Any] = {"labels": ["0", "1"], "features": 3}
    if form == "csv":
        schema = {"labels": ["no", "yes"], "label": "y", "drop": ["id"], "columns": {
            "size": {"kind": "numeric", "low": 0, "high": 2}, "ward": {"kind": "categorical", "categories": ["a", "b"]},
        }}  # fmt: skip
    for name in ("0", "1", "test"):
        X = np.round(stream.uniform(0.1, 2.0, (20, 3)), 3)
        y = (X[:, 0] > 1.0).astype(int)
        path = tmp_path / f"{name}.{form}"
        if form == "npz":
            np.savez(path, X=X, y=y)
        elif form == "libsvm":
            path.write_text("".join(f"{k} 1:{a} 2:{b} 3:{c}\n" for k, (a, b, c) in zip(y, X, strict=True)))
        else:
            rows = [
                f"{n},{'ab'[n % 2]},{a},{['no', 'yes'][k]}" for n, (k, (a, _, _)) in enumerate(zip(y, X, strict=True))
            ]
            path.write_text("\n".join(["id,ward,size,y", *rows]) + "\n")
    given = DataSettings(data=str(tmp_path / f"{{agent}}.{form}"), schema=schema)
    tested = load(given.changed(test=str(tmp_path / f"test.{form}")), 2, range(2))
    alone = load(given.changed(no_test=True), 2, range(2))
    assert alone.feature_names == tested.feature_names
    for agent in range(2):
        for mine, theirs in zip(alone.shards[agent], tested.shards[agent], strict=True):
            assert mine.tobytes() == theirs.tobytes()
    assert (alone.X_test.shape, alone.preprocessing) == ((0, len(tested.feature_names)), "public-bounds")
    undeclared = {"csv": "declare every column", "npz": "--features D", "libsvm": "--features D"}[form]
    bare = {key: value for key, value in schema.items() if key not in ("columns", "features")}
    with pytest.raises(RequestError, match=undeclared):
        load(given.changed(no_test=True, schema=bare), 2, range(2))


@pytest.fixture(scope="module")
def untested(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("untested") / "run", **PRIVATE)).folder


def test_errors_are_null_everywhere(untested: Path) -> None:
    summary = json.loads((untested / "summary.json").read_text())
    assert summary["test_error"] == dict.fromkeys(("mean", "std", "consensus", "records"))
    assert {entry["test_error"] for entry in summary["per_agent"]} == {None}
    for line in (untested / "metrics.csv").read_text().splitlines()[1:]:
        assert line.split(",")[2] == ""
    series = read_series(untested)
    assert np.isnan(series.network["test_error"]).all()
    assert np.isnan(series.agents["test_error"]).all()


def test_report_and_picture_cope(untested: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    html = make_report([untested]).html
    assert "private, secret noise: only noisy results left each agent" in html
    assert "0 for testing" in html
    assert "NaN" not in html
    plot_run(untested, file=tmp_path / "run.png")
    assert (tmp_path / "run.png").is_file()


def test_a_baseline_without_test_records(people: str, tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    config = RunConfig(algorithm="dp-sgd", data=people, epochs=2, out=str(tmp_path / "run"), **PRIVATE)
    summary = run(config).summary
    assert summary["test_error"] == dict.fromkeys(("mean", "std", "consensus", "records"))
    assert (summary["mode"], summary["per_agent"][0]["test_error"]) == ("private", None)
    assert "train_loss" not in summary


# what is shown follows the mode, the noise follows the seed


def test_an_unseeded_simulation(people: str, tmp_path: Path) -> None:
    """Shows what a seeded one shows; its noise is secret."""
    folder = run(small(people, tmp_path / "run", simulate=True)).folder
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["mode"], summary["seeded"]) == ("simulation", False)
    assert summary["train_loss"] > 0.0
    assert "solve" in summary["seconds"]
    assert summary["test_error"]["records"] == TEST_RECORDS
    for account in read_run(folder).ledgers.values():
        assert (account.header["mode"], account.header["noise"]) == ("simulation", "private")
    again = run(small(people, tmp_path / "again", simulate=True)).theta
    with np.load(folder / "model.npz") as model:
        assert (model["theta"] != again).any()


@pytest.mark.parametrize(
    ("words", "first", "privacy"),
    [
        (("--seed", "1"), "simulation, seed 1: the noise can be made again", "with secret noise it would be"),
        (("--simulate",), "simulation, secret noise: the records count as public", "proven for the worst case"),
        (
            ("--no-test", "--no-account"),
            "private, secret noise: only noisy results left each agent",
            "proven for the worst case",
        ),
    ],
)
def test_the_first_line_says_the_mode(
    words: tuple[str, ...], first: str, privacy: str, people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("run", "--data", people, "--algorithm", "pp-admm", "--topology", "ring:4", "--rounds", "2")
    assert run_command_line([*common, "--epsilon", "20", *words, "-o", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"mode:       {first}")
    (told,) = (line for line in lines if line.startswith("privacy:"))
    assert privacy in told
    html = make_report([tmp_path / "run"]).html
    assert first in html
    assert ("would be (epsilon, delta)" in html) is ("--seed" in words)


def test_a_private_run_that_read_its_encoding_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "read.csv"
    data.write_text("x,y\n" + "".join(f"{k / 7:.3f},{'no' if k % 3 else 'yes'}\n" for k in range(60)))
    words = ("--label", "y", "--algorithm", "pp-admm", "--topology", "ring:3", "--rounds", "2", "--epsilon", "20")
    common = ("run", "--data", str(data), *words, "--no-test", "--no-account", "--data-dependent")
    assert run_command_line([*common, "-o", str(tmp_path / "run")]) == 0
    first = "private, but for values read from the records (see its notes), which no epsilon covers"
    assert capsys.readouterr().out.splitlines()[0] == f"mode:       {first}"
    assert first in make_report([tmp_path / "run"]).html


def test_times_are_rounded_before_they_are_gathered(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Word] = []

    def watching(*args: Any, **values: Any) -> Word:
        told.append(Word(*args, **values))
        return told[-1]

    monkeypatch.setattr(summary, "Word", watching)
    ticks = count(0.0, 1.3)  # so that solves take whole seconds, too
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    for name, settings, digits in (("private", PRIVATE, 0), ("simulated", {"simulate": True}, 3)):
        told.clear()
        run(small(people, tmp_path / name, **settings))
        (seconds,) = (word.seconds for word in told)
        assert seconds == tuple(round(value, digits) for value in seconds)
        assert (seconds[1] == 0.0) is (name == "private")


# delta


@pytest.mark.parametrize(
    ("counts", "accounts", "delta", "own"),
    [
        ([7000] * 5, {}, 1e-5, {}),
        ([10**6, 50_000], {}, 2e-6, {}),
        ([100, 7000], {0: 1e-6, 1: 1e-6}, 1e-6, {}),
        # one agent's account is its own affair
        ([100, 7000], {1: 0.5}, 1e-5, {"1": {"delta": 0.5}}),
        ([100, 7000], {0: 1e-4, 1: 1e-6}, 1e-5, {"0": {"delta": 1e-4}, "1": {"delta": 1e-6}}),
    ],
)
def test_delta_auto(
    counts: list[int], accounts: dict[int, float], delta: float, own: dict[str, dict[str, float]]
) -> None:
    config = with_delta(Config().sections.method, counts, accounts)
    assert config.delta == pytest.approx(delta, rel=1e-12)
    assert config.budgets == own
    assert with_delta(Config(delta=1e-3).sections.method, counts, accounts).delta == 1e-3
    own = {"1": {"delta": 1e-7, "epsilon": 2.0}}
    # the agent's own wins
    assert with_delta(Config(budgets=own).sections.method, counts, accounts).budgets["1"] == own["1"]


def test_the_resolved_delta_is_kept_and_an_account_keeps_its_own(people: str, tmp_path: Path) -> None:
    account = str(tmp_path / "account")
    first = run(small(people, tmp_path / "first", simulate=True, account=account, delta=1e-6))
    assert delta_of(tmp_path / "account", 0) == 1e-6
    assert delta_of(tmp_path / "account", 9) is None
    second = run(small(people, tmp_path / "second", simulate=True, account=account, epsilon=40.0))
    assert first.summary["privacy"]["delta"] == second.summary["privacy"]["delta"] == 1e-6
    assert "delta = 1e-06\n" in (second.folder / "config.toml").read_text()
    plain = run(small(people, tmp_path / "plain", seed=0))
    assert plain.summary["privacy"]["delta"] == 1e-5
    assert "delta = 1e-05\n" in (plain.folder / "config.toml").read_text()
    assert not any("delta is above" in note for note in plain.summary["notes"])


# a person with several records


@pytest.mark.parametrize("size", [2, 7])
def test_the_group_figure(size: int, people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(small(people, tmp_path / "run", group_size=size, budgets={"2": {"epsilon": 5.0}}, **PRIVATE))
    privacy = result.summary["privacy"]
    most = max(entry["rho_proven"] for entry in result.summary["per_agent"])
    assert privacy["group_size"] == size
    assert privacy["epsilon_group"] == group_epsilon(most, privacy["delta"], size) > privacy["epsilon_proven"]
    told = str(result.summary())
    assert f"a person with {size} records, wherever they are held, is promised epsilon" in told
    assert (
        f"a person with {size} records, wherever they are held, is promised epsilon"
        in make_report([result.folder]).html
    )


def test_where_there_is_no_group_figure(people: str, tmp_path: Path) -> None:
    assert run(small(people, tmp_path / "one", **PRIVATE)).summary["privacy"]["epsilon_group"] is None
    plain = run(small(people, tmp_path / "plain", algorithm="admm", seed=0, group_size=3)).summary
    assert plain["privacy"]["epsilon_group"] is None


def test_the_group_figure_of_a_resumed_run_is_that_of_its_plan(people: str, tmp_path: Path) -> None:
    """What it pays for again comes out of the same counts."""
    config = small(people, tmp_path / "cut", group_size=3, **PRIVATE)
    with pytest.raises(Stop):
        run(config, on_round=stopping(0))
    resumed, whole = run(RunConfig(resume=str(tmp_path / "cut"))).summary, tmp_path / "whole"
    promised = run(small(people, whole, group_size=3, **PRIVATE)).summary["privacy"]["epsilon_group"]
    assert resumed["privacy"]["epsilon_group"] == promised
    most = max(entry["rho"] for entry in resumed["per_agent"])
    assert group_epsilon(most, resumed["privacy"]["delta"], 3) <= promised


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
    ],
)
def test_an_account_is_of_one_dealing(before: dict[str, Any], words: str | None, people: str, tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    config = small(people, tmp_path / "run", no_test=True, account=str(account))
    (account / "records.json").write_text(json.dumps(records_of(config.request, 4, "private") | before))
    with nullcontext() if words is None else pytest.raises(RequestError, match=words):
        run(config)


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
