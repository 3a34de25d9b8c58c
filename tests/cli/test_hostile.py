"""Requests that are wrong: one or two lines that name the cause, the exit code of docs/cli.md, no traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from admmnet.gone import GONE
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT

DATA = "good.csv"
PRIVATE = ("--no-test", "--no-account")
RUN = ("run", "--data", DATA, "--label", "y", "-o", "new")
PUBLISHED = ("--method", "published", "--algorithm", "pp-admm")
DECIDES_NOTHING = "--seed 3 goes with a random graph, not topology = 'ring:5': leave it out"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, _here: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the files that the cases name."""
    for name in ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    rows = [f"{a:.3f},{b:.3f},{int(a > b)}\n" for a, b in np.random.default_rng(3).standard_normal((60, 2))]
    Path(DATA).write_text("".join(["a,b,y\n", *rows]))
    Path("file").touch()
    return tmp_path


@pytest.mark.parametrize("word", GONE)
def test_a_word_that_is_gone_names_its_replacement(word: str, admmnet: Admmnet) -> None:
    told = admmnet.refused(*["run"] * word.startswith("--"), *word.split(), *["-o", "new"] * ("audit" in word))
    assert told.strip().endswith(f" is gone: {GONE[word]}")
    assert word.split()[-1] in told


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        *(
            (" ".join((*RUN, *PUBLISHED, "--simulate", words)), fragment)
            for words, fragment in (
                ("--regularisation 1e-9", "the least that the published method needs"),
                ("--max-releases 3", "--max-releases does not go with pp-admm, but with ipp-admm"),
                ("--algorithm r-admm --eta 1e-3 --regularisation 0", "r-admm as published needs lambda/N + 2 eta"),
                ("--no-such-flag 3", "--no-such-flag"),
                ("--epsilom 3", "Did you mean one of: '--epsilon', "),
                ("--epsilon", "--epsilon"),
                ("--config f.toml", "--config is no flag: give the file alone, admmnet run FILE.toml"),
                ("--topology graph.png", "graph.png"),
            )
        ),
        ("run a.toml b.toml", "b.toml"),
        ("frobnicate", "frobnicate"),
        ("ledger shw", "Did you mean 'show'?"),
        ("ledger", "Missing command; `admmnet ledger --help`"),
        ("ledger verify", "RUN"),
        ("ledger show file --delta 2", "--delta 2.0 is not allowed"),
        ("ledger export file --format xml", "xml"),
        ("topology make ring:5", "--out"),
        ("topology make ring:5 -o graph.doc", "graph.doc"),
        ("topology make ring:5 -o file/below.edges", "file/below.edges"),
        ("topology make erdos-renyi:5:0.5 --seed -1 -o a.edges", "--seed"),
        ("topology show ring:5 --plot picture.doc", "picture.doc"),
        ("topology make ring:5 -o graph.edges --seed 3", DECIDES_NOTHING),
        ("topology show ring:5 --seed 3", DECIDES_NOTHING),
        ("network init ring:5 --relay localhost:7000 -o net --seed 3", DECIDES_NOTHING),
    ],
)
def test_a_wrong_request(words: str, fragment: str, admmnet: Admmnet) -> None:
    """One line or two that name the cause, and nothing was begun."""
    before = sorted(Path().rglob("*"))
    code, out, told = admmnet(*words.split())
    assert (code, out) == (2, "")
    assert told.startswith("admmnet: ")
    assert fragment in told
    assert told.count("\n") <= 2
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("epsilon", ["1e-320", "1e-163", "1e-160", "1e-155", "1e-100", "1e-20"])
def test_a_budget_that_affords_nothing(epsilon: str, admmnet: Admmnet) -> None:
    """It is refused; what noise of such size overflows is a fault of the run, and no internal error."""
    code, _, told = admmnet(*RUN, *PUBLISHED, *PRIVATE, "--epsilon", epsilon, "--rounds", "2")
    assert code in (2, 3, 4)
    if float(epsilon) < 1e-162:
        assert (code, "raise --epsilon" in told) == (4, True)
    assert told.startswith("admmnet: ")
    assert told.count("\n") <= 2
    assert "internal error" not in told


def test_a_solve_that_misses_beta(admmnet: Admmnet) -> None:
    """Where records are protected, no solve may depend on them: it is refused before the first."""
    words = ("--method", "published", "--beta", "1e-17", "--rounds", "2", "--algorithm")
    for algorithm, mode in product(("pp-admm", "m-admm"), (PRIVATE, ("--seed", "0"))):
        told = admmnet.refused(*RUN, *mode, *words, algorithm)
        assert told.startswith("admmnet: beta = 1e-17 is below")
        assert "raise beta" in told
        assert not Path("new").exists()


@pytest.mark.parametrize("mode", [("--seed", "1"), PRIVATE], ids=["seeded", "private"])
def test_a_disk_that_fills_up_in_a_later_round(mode: tuple[str, ...]) -> None:
    words = [*RUN, *PUBLISHED, "--rounds", "40", *mode, "--quiet"]
    code = f"""
import resource, sys
sys.path.insert(0, {str(ROOT)!r})
from admmnet.cli import run_command_line
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # no file grows beyond
sys.exit(run_command_line({words!r}))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3, ended.stderr
    what = "the ledger new/ledger/agent-00" if mode[0] == "--seed" else "new/journal.bin: "
    assert ended.stderr.startswith(f"admmnet: cannot write {what}")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not Path("new/summary.json").exists()


def test_debug_shows_where(admmnet: Admmnet) -> None:
    for words in (("--epsilon", "0"), ("--data", "gone.csv")):
        code, _, told = admmnet("run", *words, "--debug", "-o", "new")
        assert code == 2
        assert "Traceback (most recent call last)" in told
        assert told.splitlines()[-1].startswith("admmnet: ")


def test_an_unexpected_error_says_so(monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(import_module("admmnet.cli.run"), "settings_of", fail)
    told = admmnet.refused("run", code=3)
    assert told.startswith("admmnet: internal error: ZeroDivisionError: by nothing; --debug shows where")
