"""--explain: what the columns of a run's and a ledger's table mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from admmnet.report.columns import COLUMNS
from admmnet.report.columns import ROWS as BELOW
from tests.command_runs import Admmnet
from tests.people_runs import write_people

RUNS = {
    "network": ("run", "--algorithm", "pp-admm", "--rounds", "2", "--agents", "3", "--epsilon", "20"),
    "masked": ("run", "--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--rounds", "2"),
    "baseline": ("baseline", "sgd", "--epochs", "1"),
}


def told(text: str) -> dict[str, str]:
    """Names that a text explains, with the first line of their words."""
    _, _, below = text.partition("what it means:\n")
    return dict(re.findall(r"^ {2,}(\S[\w., ]*?)  (\S.*)$", below, re.MULTILINE))


def heading(text: str) -> list[str]:
    """Names in the heading of the first table."""
    before, _, _ = text.partition("───")
    return re.split(r"\s{2,}", before.rstrip().splitlines()[-1].strip())


GUESSES = ["always the larger class", "no privacy, pooled"]
"""Below the agents; a baseline has them in a line of words."""


@pytest.mark.parametrize("name", RUNS)
def test_every_column_has_words(name: str, tmp_path: Path, admmnet: Admmnet) -> None:
    people, folder, account = write_people(tmp_path / "people.npz"), tmp_path / "run", tmp_path / "account"
    words = [*RUNS[name], "--data", people, "--simulate", "-o", str(folder)]
    words += [] if name == "baseline" else ["--account", str(account)]
    out = admmnet.ok(*words, "--explain").out
    means = {name: column.means for name, column in COLUMNS.items()} | BELOW
    assert list(told(out)) == [*heading(out), *(["network"] if name != "baseline" else []), *GUESSES]
    assert all(means[each].startswith(words) for each, words in told(out).items())
    assert "--explain explains the columns" in out
    for command in (["ledger", "show", str(folder)], ["account", "show", str(account)]):
        if account.exists():
            out = admmnet.ok(*command, "--explain").out
            assert list(told(out)) == heading(out)
            assert ("eps B" in told(out)) is (name == "masked")


def test_nothing_is_explained_unasked(tmp_path: Path, admmnet: Admmnet) -> None:
    people, folder = write_people(tmp_path / "people.npz"), str(tmp_path / "run")
    out = admmnet.ok(*RUNS["baseline"], "--data", people, "--simulate", "-o", folder).out
    assert "eps proven" in out
    assert told(out) == {}
