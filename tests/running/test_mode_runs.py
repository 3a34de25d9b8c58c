"""What follows from the mode: test records, what is shown, delta, groups, accounts of other runs; and notes."""

from __future__ import annotations

import json
import re
import time
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.privacy.conversion import group_epsilon
from admmnet.report.page import make_report
from admmnet.report.run_plot import plot_run
from admmnet.report.series import read_series
from admmnet.running import summary
from admmnet.running.accounts import delta_of, records_of
from admmnet.running.summary import TEST_RECORDS
from admmnet.running.topics import Figures
from tests.command_runs import Admmnet
from tests.people_runs import PRIVATE, Stop, small, stopping, summary_of
from tests.report_pages import words_in, words_of
from tests.run_folders import made, part_of


@pytest.mark.parametrize("baseline", [False, True])
def test_without_test_records_errors_are_null_everywhere(baseline: bool, people: str, tmp_path: Path) -> None:
    how = {"algorithm": "dp-sgd", "topology": None, "rounds": None, "epochs": 2} if baseline else {}
    told = summary_of(run(small(people, tmp_path / "run", **PRIVATE, **how)).folder)
    assert (told["mode"], "train_loss" in told) == ("private", False)
    assert told["test_error"] == dict.fromkeys(("mean", "std", "consensus", "records"))
    assert {entry["test_error"] for entry in told["per_agent"]} == {None}
    series = read_series(tmp_path / "run")
    for figures in (series.network, series.agents):
        assert np.isnan(figures["test_error"]).all()
    html = make_report([tmp_path / "run"]).html
    assert ("0 for testing" in html, "NaN" in html) == (True, False)


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
    told: list[Figures] = []

    def watching(*args: Any, **values: Any) -> Figures:
        told.append(Figures(*args, **values))
        return told[-1]

    monkeypatch.setattr(summary, "Figures", watching)
    ticks = count(0.0, 1.23456)  # so that solves take whole seconds, too
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    for name, settings, digits in (("private", PRIVATE, 0), ("simulated", {"simulate": True}, 3)):
        told.clear()
        run(small(people, tmp_path / name, **settings))
        (seconds,) = (word.seconds for word in told)
        assert seconds == tuple(round(value, digits) for value in seconds)
        assert (seconds[1] == 0.0) is (name == "private")
        assert seconds[1] + seconds[2] <= seconds[0]


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


def test_an_account_is_of_one_dealing(people: str, tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    config = small(people, tmp_path / "run", no_test=True, account=str(account))
    for before, words in (
        ({"test": None, "no_test": False}, "was opened with test = None"),  # a quarter was drawn then
        ({"mode": "simulation"}, "was opened with mode = 'simulation'"),
        ({"noise": "seeded"}, "was opened with noise = 'seeded'"),  # by an older version
        ({"data": "elsewhere.npz"}, "give them as they were"),
        ({"agents": 3}, "was opened with agents = 3"),
        ({"more": 1}, "is damaged"),
        ({"begun": [0.0]}, "is damaged"),
        ({"begun": [2]}, r"agent-002\.jsonl is missing, or empty, but by .* a run has used it"),
        ({"test": "elsewhere.npz"}, None),  # whatever file the errors are measured on
    ):
        (account / "records.json").write_text(json.dumps(records_of(config.request, 4, "private") | before))
        with nullcontext() if words is None else pytest.raises(RequestError, match=words):
            run(config)
    assert json.loads((account / "records.json").read_text())["begun"] == [0, 1, 2, 3]


def test_an_account_takes_no_other_mode_and_no_other_promise(people: str, tmp_path: Path) -> None:
    """Of masked sums among more agents than those of its first run, whose noise is a smaller share of the whole."""

    def go(name: str, **others: Any) -> None:
        how = {"algorithm": "noisy-gd", "no_test": True, "account": str(tmp_path / "account"), **others}
        run(small(people, tmp_path / name, **how))

    go("one", trust="masked", colluders=2, epsilon=4.0)
    with pytest.raises(RequestError, match=r"opened for masked sums of at most 2 agents .* this run has 3"):
        go("two", trust="masked", colluders=1)
    go("four")
    before = {path: path.read_bytes() for path in (tmp_path / "account").glob("*.jsonl")}
    (tmp_path / "account/records.json").unlink()  # which says the mode for all agents: their files know it
    with pytest.raises(RequestError, match="is of private runs, this one is simulation"):
        go("three", simulate=True, epsilon=40.0)
    assert {path: path.read_bytes() for path in (tmp_path / "account").glob("*.jsonl")} == before


# notes are said where they hold, and nowhere else: a loose delta, what noise costs, models that say one class

LOOSE, COSTLY = "above 0.1 / records", "a quarter more"


def test_a_delta_that_was_chosen_by_itself_is_not_warned_of(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 1, "split": "sizes:3:4:5", "test_fraction": 0.95}
    for name, delta, notes in (("auto", None, 0), ("loose", 1e-3, 1)):
        folder = made(tmp_path / name, topology="ring:3", delta=delta, **quick)
        assert sum(LOOSE in note for note in summary_of(folder)["notes"]) == notes
        assert words_of(folder).count("Delta is above") == notes
        assert words_of(part_of(folder, tmp_path / f"{name}-2", agent=2, agents=3)).count("Delta is above") == notes


@pytest.mark.parametrize(("agents", "epsilon", "said"), [(5, 0.5, True), (20, 0.5, True), (5, 2.0, False)])
def test_what_noise_is_said_to_cost_it_costs(agents: int, epsilon: float, said: bool, tmp_path: Path) -> None:
    records = load(DataSettings(test_fraction=0.97), agents, range(agents))  # few, read once for all seeds
    given: Any = {"loader": lambda *asked: records, "agents": agents, "epsilon": epsilon}
    errors, pooled = [], []
    for seed in range(300, 303 if said else 301):
        summary = run(algorithm="noisy-gd", seed=seed, out=tmp_path / str(seed), **given).summary
        assert any(COSTLY in note for note in summary["notes"]) is said
        errors.append(summary["test_error"]["consensus"])
        pooled.append(summary["references"]["pooled"])
    if said:
        assert np.mean(errors) > 1.25 * np.mean(pooled)


def rows(path: Path, words: list[str], shares: list[float], signal: float) -> str:
    stream = np.random.default_rng(3)
    y = stream.choice(len(words), size=300, p=shares)
    np.savez(path, X=stream.standard_normal((300, 2)) + signal * np.eye(len(words), 2)[y], y=np.array(words)[y])
    return str(path)


@pytest.mark.parametrize(
    ("words", "shares", "said", "private"),
    [
        (["no", "yes"], [0.05, 0.95], "yes", False),
        (["no", "yes"], [0.95, 0.05], "no", True),
        (["a", "b", "c"], [0.05, 0.9, 0.05], "b", False),
        (["no", "yes"], [0.5, 0.5], None, False),
    ],
)
def test_a_model_that_gives_every_record_one_class_is_said_to_on_every_screen(
    words: list[str], shares: list[float], said: str | None, private: bool, tmp_path: Path, admmnet: Admmnet
) -> None:
    file, test = (rows(tmp_path / f"{name}.npz", words, shares, 3.0 * (said is None)) for name in ("train", "test"))
    given: dict[str, Any] = {"algorithm": "ssp", "topology": "path:2", "epsilon": 50.0, "delta": 1e-3, "data": file}
    given |= {"schema": {"labels": words, "features": 2}}
    given |= {"private": True, "no_account": True, "test": test} if private else {"seed": 0}
    result = run(RunConfig(**given, out=str(tmp_path / "run")))
    found = result.summary["test_error"]
    assert found.get("one_class") == said
    assert (found["consensus"] == result.summary["references"]["larger_class"]) is (said is not None)
    sentence = f"one class only: this model says {said!r} for every "
    screens = [
        result.summary(),
        words_in(plot_run(result.folder)),
        admmnet.ok("evaluate", result.folder, "--data", test, "--public").out,
        admmnet.ok("predict", result.folder, "--data", test).err,
    ]
    assert {sentence in screen for screen in screens} == {"one class only" in screen for screen in screens}
    assert {sentence in screen for screen in screens} == {said is not None}
    assert ("no better than always the larger class" in result.summary()) is (said is not None)
    assert admmnet.json("evaluate", result.folder, "--data", test, "--public").get("one_class") == said
    alarm = r'class="card alarm"(?:(?!class="card).)*one class only'
    assert bool(re.search(alarm, make_report([result.folder]).html, re.DOTALL)) is (said is not None)
