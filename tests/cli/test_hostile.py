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
from admmnet.transport import World
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT

DATA = "good.csv"
PRIVATE = ("--no-test", "--no-account")
RUN = ("run", "--data", DATA, "--label", "y", "-o", "new")
PUBLISHED = ("--method", "published", "--algorithm", "pp-admm")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, _here: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the files that the cases name."""
    for name in ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    rows = [f"{a:.3f},{b:.3f},{int(a > b)}\n" for a, b in np.random.default_rng(3).standard_normal((60, 2))]
    texts = {
        DATA: "".join(["a,b,y\n", *rows]),
        "nan.csv": "a,b,y\n1,2,1\n3,nan,0\n4,5,1\n",
        "few.csv": "".join(["a,b,y\n", *rows[:5]]),
        "parts.edges": "0 1\n2 3\n",
        "stranger.toml": "[privacy.agents.9]\nepsilon = 1\n",
        "file": "",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("taken").mkdir()
    Path("taken/notes.txt").write_text("mine")
    return tmp_path


RUNS: list[tuple[str, str]] = [
    ("gone.toml", "cannot read the config file gone.toml"),
    ("--regularisation 1e-9", "the least that the published method needs"),
    ("--max-releases 3", "--max-releases does not go with pp-admm, but with ipp-admm"),
    ("--algorithm r-admm --eta 1e-3 --regularisation 0", "r-admm as published needs lambda/N + 2 eta |B_i|"),
    ("--algorithm m-admm --epsilon 0.01", "the loss's curvature alone uses it up at a penalty of"),
    ("--no-such-flag 3", "--no-such-flag"),
    ("--epsilom 3", "Did you mean one of: '--epsilon', "),
    ("--algorithm ADMM", "algorithm = 'ADMM' is not allowed: did you mean admm? it must be one of admm, "),
    ("--data Census", "did you mean census?"),
    ("--epsilon", "--epsilon"),
    ("a.toml b.toml", "b.toml"),
    ("stranger.toml", "[privacy.agents.9]: the agents are numbered 0 to 4"),
    ("--data nan.csv --label y --no-intercept --seed 0", "nan.csv, line 3, column 'b'"),
    ("--data few.csv --label y", "5 agents and 4 training records"),
    (f"--data {DATA} --label z", "'z'"),
    ("--topology parts.edges", "not connected"),
    ("--topology graph.png", "graph.png"),
    ("--config f.toml", "--config is no flag: give the file alone, admmnet run FILE.toml"),
    ("--topology ring:7 --agents 5", "the topology has 7 nodes but --agents says 5"),
    ("--out taken", "the run folder taken is not empty: name another one with --out"),
    ("--out file/below", "cannot make the run folder file/below"),
]


@pytest.mark.parametrize("word", GONE)
def test_a_word_that_is_gone_names_its_replacement(word: str, admmnet: Admmnet) -> None:
    told = admmnet.refused(*["run"] * word.startswith("--"), *word.split(), *["-o", "new"] * ("audit" in word))
    assert told.strip().endswith(f" is gone: {GONE[word]}")
    assert word.split()[-1] in told


def check_refused(admmnet: Admmnet, words: list[str], fragment: str) -> None:
    """One line or two that name the cause, and nothing was begun."""
    before = sorted(Path().rglob("*"))
    code, out, told = admmnet(*words)
    assert (code, out) == (2, "")
    assert told.startswith("admmnet: ")
    assert fragment in told
    assert told.count("\n") <= 2
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(("words", "fragment"), RUNS, ids=[words for words, _ in RUNS])
def test_a_wrong_run(words: str, fragment: str, admmnet: Admmnet) -> None:
    given = words.split()
    usual = {
        "--data": (DATA, "--label", "y"),
        "--method": ("published",),
        "--algorithm": ("pp-admm",),
        "--out": ("new",),
    }
    defaults = [word for flag, values in usual.items() if flag not in given for word in (flag, *values)]
    defaults = [] if words == "a.toml b.toml" else [*defaults, "--simulate"]
    check_refused(admmnet, ["run", *defaults, *given], fragment)


DECIDES_NOTHING = "--seed 3 goes with a random graph, not topology = 'ring:5': leave it out"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ("frobnicate", "frobnicate"),
        ("ledger", "Missing command; `admmnet ledger --help`"),
        ("ledger verify", "RUN"),
        ("ledger verify taken", "taken is no run folder"),
        ("ledger show taken --delta 2", "--delta 2.0 is not allowed"),
        ("ledger export taken --format xml", "xml"),
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
def test_a_wrong_command(words: str, fragment: str, admmnet: Admmnet) -> None:
    check_refused(admmnet, words.split(), fragment)


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
    told = admmnet.refused(*RUN, "--seed", "0", *words, "admm", code=3)
    assert "agent 0, round 0: the local solve stopped at gradient norm" in told
    assert "raise beta" in told
    admmnet.ok("ledger", "verify", "new")


def test_local_under_a_launcher(monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    # as on rank 0 of mpirun, before the command line has looked at --transport
    monkeypatch.setattr("admmnet.cli.open_world", lambda transport: World())
    monkeypatch.setenv("PMI_SIZE", "5")
    told = admmnet.refused(*RUN, "--transport", "local")
    assert "--transport local runs in one process, but the launcher started 5" in told


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
