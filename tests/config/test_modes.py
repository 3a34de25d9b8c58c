"""Simulation or private: which runs are which, and what a private run must say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet import run
from admmnet.config.modes import check_comparable, check_mode
from admmnet.config.run_config import RunConfig as Config
from admmnet.config.run_config import RunSettings
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.solvers.losses import LOSSES, Logistic
from tests.people_runs import PRIVATE, small


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.csv", "test.csv", "own-3.csv", "own-test.csv"):
        Path(name).touch()
    Path("link.csv").symlink_to("mine.csv")


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        *(({"data": name}, "simulation") for name in ("census", "adult", "phishing", "kddcup99", "mnist:3")),
        *(({"data": name}, "private") for name in ("mine.csv", "mine-{agent}.npz", "ipums:usa.csv", "mnist:11")),
        ({"data": "mine.csv", "seed": 0}, "simulation"),
        ({"data": "mine.csv", "simulate": True}, "simulation"),
        ({"data": "census", "private": True}, "private"),
        ({"data": "mine.csv", "private": True}, "private"),
    ],
)
def test_the_mode_follows_from_the_settings(settings: dict[str, Any], mode: str) -> None:
    config = Config(**settings)
    assert (config.mode, config.simulation, config.seeded) == (mode, mode == "simulation", "seed" in settings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(({"private": True}, other) for other in ({"seed": 0}, {"seed": 5}, {"simulate": True})),
        *(({"no_test": True}, other) for other in ({"test": "test.csv"}, {"test_fraction": 0.5})),
        ({"no_account": True}, {"account": "here"}),
    ],
)
def test_words_that_exclude_each_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=f"{next(iter(one))} and {next(iter(other))} exclude each other"):
        Config(**one, **other)


FILE, ACCOUNT = "--test FILE (records on which errors may be published) or --no-test", "--account DIR"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, [f"it needs {FILE} and {ACCOUNT}"]),
        ({"no_test": True}, [f"it needs {ACCOUNT}"]),
        ({"account": "here"}, [f"it needs {FILE}"]),
        ({"no_account": True, "test_fraction": 0.2}, ["it cannot have --test-fraction", f"it needs {FILE}"]),
        (PRIVATE | {"split": "dirichlet:1"}, ["it cannot have --split dirichlet:1"]),
        (PRIVATE | {"split": "by-column:a", "data_dependent": True}, ["it cannot have --split by-column:a"]),
        (PRIVATE | {"algorithm": "song-sgd", "record_epsilon": "a"}, ["it cannot have --record-epsilon a"]),
        (PRIVATE | {"loss": f"{__name__}:Own"}, ["it cannot have --loss", "whose code would see the records"]),
        ({"algorithm": "admm"}, ["admm has no privacy", FILE, "--no-account"]),
        ({"no_test": True, "method": "published"}, ["it needs --no-account (an account adds up proven costs alone)"]),
    ],
)
def test_what_is_missing_is_named_at_once(settings: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        check_mode(Config(data="mine.csv", **settings))
    message = str(caught.value)
    assert message.startswith("data = 'mine.csv' is not declared public, so this run is private: ")
    assert "--simulate makes this a simulation, which protects nothing" in message
    assert [part for part in parts if part not in message] == []
    check_mode(Config(data="mine.csv", simulate=True, **settings))
    if "account" not in settings:
        check_mode(Config(data="mine.csv", seed=0, **settings))
    LOSSES._loaded.pop(f"{__name__}:Own", None)


class Own(Logistic):
    """A loss from outside."""


def test_what_is_said_suffices_and_a_missing_file_is_named_first() -> None:
    enough: list[dict[str, Any]] = [PRIVATE | {"loss": "huber"}, {"test": "t.csv", "account": "here"}]
    for settings in enough:
        for data in ("mine.csv", "mine-{agent}.csv"):
            check_mode(Config(data=data, **settings))
    missing: list[dict[str, Any]] = [{"data": "gone.csv"}, {"data": "mine.csv", "test": "gone.csv"}]
    for given in missing:
        with pytest.raises(RequestError, match=r"^gone\.csv does not exist"):
            check_mode(Config(**given))
        with pytest.raises(RequestError, match=r"^gone\.csv does not exist"):
            check_comparable(DataSettings(encode="declared", **given), RunSettings())


def test_compare_takes_public_records_that_are_not_measured() -> None:
    for data, settings, words in (
        (DataSettings(encode="private"), RunSettings(simulate=True), "methods see the same rows"),
        (DataSettings(encode="declared"), RunSettings(private=True), "private does not go with compare"),
        (DataSettings(data="mine.csv", encode="declared"), RunSettings(), "is not declared public"),
    ):
        with pytest.raises(RequestError, match=words):
            check_comparable(data, settings)
    check_comparable(DataSettings(data="mine.csv", encode="declared"), RunSettings(simulate=True))


def test_sets_name_the_test_records_that_they_have() -> None:
    sets = (("ipums:usa.csv", "--no-test", False), ("census", "--no-test", True), ("adult", "--test official", True))
    for data, words, private in sets:
        with pytest.raises(RequestError, match=f"it needs {words}"):
            check_mode(Config(data=data, private=private))


def test_training_records_are_no_test_records() -> None:
    """By whatever name; with {agent} those of any agent."""
    for test, data in (("mine.csv", "mine.csv"), ("link.csv", "./mine.csv"), ("./own-3.csv", "own-{agent}.csv")):
        with pytest.raises(RequestError, match="which is a file of its own records"):
            check_mode(Config(data=data, test=test, no_account=True))
    check_mode(Config(data="own-{agent}.csv", test="own-test.csv", no_account=True))


def test_a_loaders_own_records_are_no_public_set(people: str, tmp_path: Path) -> None:
    """The name of a public set makes a simulation; records of another name are not that set."""
    census = load(DataSettings(), 5, range(5))
    plain = Config(algorithm="pp-admm", rounds=1, out=str(tmp_path / "run"))
    with pytest.raises(RequestError, match="called 'clinic', and data = 'census' is declared public"):
        run(plain, loader=lambda *_: replace(census, name="clinic"))
    assert run(plain, loader=lambda *_: census).summary["mode"] == "simulation"
    for loader in (None, load):  # the library refuses as the command does
        with pytest.raises(RequestError, match="so this run is private"):
            run(small(people, tmp_path / "other"), loader=loader)
    assert not (tmp_path / "other").exists()
