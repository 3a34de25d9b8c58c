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
from tests.people_runs import PRIVATE, small

# which runs are which


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        *(({"data": name}, "simulation") for name in (
            "census", "adult", "phishing", "kddcup99", "mnist:3", "year-prediction-msd")),
        *(({"data": name}, "private") for name in ("mine.csv", "mine-{agent}.npz", "ipums:usa.csv", "mnist:11")),
        ({"data": "mine.csv", "seed": 0}, "simulation"),
        ({"data": "mine.csv", "simulate": True}, "simulation"),
        ({"data": "ipums:usa.csv", "simulate": True, "seed": 3}, "simulation"),
        ({"data": "census", "private": True}, "private"),
        ({"data": "mine.csv", "private": True}, "private"),
    ],
)  # fmt: skip
def test_the_mode_follows_from_the_settings(settings: dict[str, Any], mode: str) -> None:
    config = Config(**settings)
    assert config.mode == mode
    assert config.simulation is (mode == "simulation")
    assert config.seeded is ("seed" in settings)


@pytest.mark.parametrize("other", [{"seed": 0}, {"seed": 5}, {"simulate": True}])
def test_private_excludes_what_makes_a_simulation(other: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"^private and (seed|simulate) exclude each other"):
        Config(private=True, **other)


@pytest.mark.parametrize("pair", [("no_test", "test"), ("no_test", "test_fraction"), ("no_account", "account")])
def test_words_that_exclude_each_other(pair: tuple[str, str]) -> None:
    values: dict[str, Any] = {"test": "test.csv", "test_fraction": 0.5, "account": "here"}
    with pytest.raises(RequestError, match=f"{pair[0]} and {pair[1]} exclude each other"):
        Config(**{pair[0]: True, pair[1]: values[pair[1]]})


# what a private run must say


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.csv", "test.csv", "own-3.csv"):
        Path(name).touch()


FILE = "--test FILE (records on which errors may be published) or --no-test"
ACCOUNT = "--account DIR (which adds up the cost of all runs on these records) or --no-account"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, [f"it needs {FILE} and {ACCOUNT}"]),
        ({"no_test": True}, [f"it needs {ACCOUNT}"]),
        ({"test": "test.csv"}, [f"it needs {ACCOUNT}"]),
        ({"account": "here"}, [f"it needs {FILE}"]),
        ({"no_account": True, "test_fraction": 0.2}, ["it cannot have --test-fraction", f"it needs {FILE}"]),
        (PRIVATE | {"split": "dirichlet:1"}, ["it cannot have --split dirichlet:1"]),
        (PRIVATE | {"split": "by-column:a", "data_dependent": True}, ["it cannot have --split by-column:a"]),
        (PRIVATE | {"algorithm": "song-sgd", "record_epsilon": "a"}, ["it cannot have --record-epsilon a"]),
        ({"algorithm": "admm"}, ["admm has no privacy", FILE, "--no-account"]),
        (PRIVATE | {"algorithm": "sgd"}, ["sgd has no privacy"]),
        ({"no_test": True, "algorithm": "dp-sgd"}, [f"it needs {ACCOUNT}"]),
        ({"no_test": True, "method": "published"}, ["it needs --no-account (an account adds up proven costs alone)"]),
    ],
)
@pytest.mark.usefixtures("_files")
def test_what_is_missing_is_named_at_once(settings: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        check_mode(Config(data="mine.csv", **settings))
    message = str(caught.value)
    assert message.startswith("data = 'mine.csv' is not declared public, so this run is private: ")
    assert "--simulate makes this a simulation, which protects nothing" in message
    for part in parts:
        assert part in message
    check_mode(Config(data="mine.csv", simulate=True, **settings))
    if not {"algorithm", "account"} & settings.keys():
        check_mode(Config(data="mine.csv", seed=0, **settings))


@pytest.mark.parametrize("given", [{"data": "gone.csv"}, {"data": "mine.csv", "test": "gone.csv"}])
@pytest.mark.usefixtures("_files")
def test_a_missing_file_is_named_before_what_a_private_run_must_say(given: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"^gone\.csv does not exist"):
        check_mode(Config(**given))
    with pytest.raises(RequestError, match=r"^gone\.csv does not exist"):
        check_comparable(DataSettings(encode="declared", **given), RunSettings())


@pytest.mark.parametrize(
    ("data", "words"), [("ipums:usa.csv", "--no-test"), ("census", "--no-test"), ("adult", "--test official")]
)
def test_sets_name_the_test_records_that_they_have(data: str, words: str) -> None:
    with pytest.raises(RequestError, match=f"it needs {words}"):
        check_mode(Config(data=data, private=not data.startswith("ipums")))


@pytest.mark.parametrize(
    "settings", [PRIVATE, {"test": "t.csv", "account": "here"}, {"test": "t.csv", "no_account": True}]
)
def test_what_is_said_suffices(settings: dict[str, Any]) -> None:
    check_mode(Config(data="mine.csv", **settings))
    check_mode(Config(data="mine-{agent}.csv", **settings))


def test_the_library_refuses_as_the_command_does(people: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="so this run is private"):
        run(small(people, tmp_path / "run"))
    with pytest.raises(RequestError, match="so this run is private"):  # also where a loader brings the records
        run(small(people, tmp_path / "run"), loader=lambda settings, agents, mine: load(settings, agents, mine))
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_files")
def test_training_records_are_no_test_records(people: str, tmp_path: Path) -> None:
    words: dict[str, Any] = {"no_account": True}
    for test, data in ((people, people), ("./own-3.csv", "own-{agent}.csv")):
        with pytest.raises(RequestError, match="which is a file of its own records"):
            check_mode(Config(data=data, test=test, **words))
    check_mode(Config(data="own-{agent}.csv", test="own-test.csv", **words))


def test_a_loaders_own_records_are_no_public_set(tmp_path: Path) -> None:
    """The name of a public set makes a simulation; records of another name are not that set."""
    census = load(DataSettings(), 5, range(5))
    clinic = replace(census, name="clinic")
    plain = Config(algorithm="pp-admm", rounds=1, out=str(tmp_path / "run"))
    with pytest.raises(RequestError, match="called 'clinic', and data = 'census' is declared public"):
        run(plain, loader=lambda *_: clinic)
    assert run(plain, loader=lambda *_: census).summary["mode"] == "simulation"


def test_compare_takes_no_rows_that_are_measured() -> None:
    with pytest.raises(RequestError, match="does not go with compare, whose methods see the same rows"):
        check_comparable(DataSettings(encode="private"), RunSettings(simulate=True))
