"""Requests that are wrong: one or two lines that name the cause, the exit code of docs/cli.md, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from admmnet.gone import GONE
from tests.command_runs import Admmnet

ROOT = Path(__file__).resolve().parents[2]
DATA = "good.csv"
PRIVATE = ("--no-test", "--no-account")
PUBLISHED = ("--method", "published", "--algorithm", "pp-admm")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the files that the cases name."""
    monkeypatch.chdir(tmp_path)
    for name in ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "ADMMNET_DATA"):
        monkeypatch.delenv(name, raising=False)
    rows = [f"{a:.3f},{b:.3f},{int(a > b)}" for a, b in np.random.default_rng(3).standard_normal((60, 2))]
    texts = {
        DATA: "a,b,y\n" + "\n".join(rows) + "\n",
        "nan.csv": "a,b,y\n1,2,1\n3,nan,0\n4,5,1\n",
        "labels.csv": "a,b,y\n1,2,1\n3,4,7\n5,6,0\n",
        "few.csv": "a,b,y\n" + "\n".join(rows[:5]) + "\n",
        "words.csv": "a,b,y\n1,two,1\n3,4,0\n",
        "binary.csv": "a,b\x00,y\n",
        "not.npz": "no archive",
        "parts.edges": "0 1\n2 3\n",
        "names.edges": "ann bob\n",
        "graph.png": "",
        "not.toml": "[algorithm\nrounds = 3\n",
        "stranger.toml": "[privacy.agents.9]\nepsilon = 1\n",
        "file": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    return tmp_path


RUNS: list[tuple[str, str]] = [
    ("gone.toml", "cannot read the config file gone.toml"),
    ("--epsilon 0", "epsilon = 0.0 is not allowed: it must be a number, above 0"),
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
    ("--data gone.csv --label y", "gone.csv does not exist"),
    ("--data gone", "unknown data 'gone'"),
    ("--data sheet.xlsx", "sheet.xlsx is a spreadsheet: export the sheet as CSV"),
    ("--data nan.csv --label y --no-intercept --seed 0", "nan.csv, line 3, column 'b'"),
    ("--data labels.csv --label y --seed 0", "labels.csv, line 3, column 'y'"),
    ("--data few.csv --label y", "5 agents and 4 training records"),
    ("--data binary.csv --label y --seed 0", "binary.csv"),
    (f"--data {DATA}", "--label"),
    (f"--data {DATA} --label z", "'z'"),
    ("--data not.npz --seed 0", "not.npz is not a sound npz file"),
    ("--topology parts.edges", "not connected"),
    ("--topology names.edges", "agents are numbered 0..N-1, got 'ann'"),
    ("--topology gone.edges", "gone.edges: no such file: correct the path"),
    ("--topology graph.png", "graph.png"),
    ("--topology rings", "did you mean ring:5?"),
    ("--config f.toml", "--config is no flag: give the file alone, admmnet run FILE.toml"),
    ("--topology ring:7 --agents 5", "the topology has 7 nodes but --agents says 5"),
    ("--out taken", "the run folder taken is not empty: name another one with --out"),
    ("--out file/below", "cannot make the run folder file/below"),
]


@pytest.mark.parametrize("word", GONE)
def test_a_word_that_is_gone_names_its_replacement(word: str, admmnet: Admmnet) -> None:
    told = admmnet.refused(
        *(["run"] if word.startswith("--") else []), *word.split(), *(["-o", "new"] if "audit" in word else [])
    )
    assert told.strip().endswith(f" is gone: {GONE[word]}")
    assert word.split()[-1] in told


@pytest.mark.parametrize(("words", "fragment"), RUNS, ids=[words for words, _ in RUNS])
def test_a_wrong_run(words: str, fragment: str, folder: Path, admmnet: Admmnet) -> None:
    given = words.split()
    usual = {
        "--data": (DATA, "--label", "y"),
        "--method": ("published",),
        "--algorithm": ("pp-admm",),
        "--out": ("new",),
    }
    defaults = [word for flag, values in usual.items() if flag not in given for word in (flag, *values)]
    defaults = [] if words == "a.toml b.toml" else [*defaults, "--simulate"]
    before = sorted(folder.rglob("*"))
    code, out, told = admmnet("run", *defaults, *given)
    assert (code, out) == (2, "")
    assert told.startswith("admmnet: ")
    assert fragment in told
    assert told.count("\n") <= 2
    assert sorted(folder.rglob("*")) == before  # nothing was begun


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ("frobnicate", "frobnicate"),
        ("ledger", "Missing command; `admmnet ledger --help`"),
        ("ledger verify", "RUN"),
        ("ledger verify taken", "taken is no run folder"),
        ("ledger show gone", "gone is no run folder"),
        ("ledger show taken --delta 2", "--delta 2.0 is not allowed"),
        ("ledger export taken --format xml", "xml"),
        ("topology make ring:5", "--out"),
        ("topology make ring:5 -o graph.doc", "graph.doc"),
        ("topology make ring:5 -o file/below.edges", "file/below.edges"),
        ("topology make erdos-renyi:5:0.5 --seed -1 -o a.edges", "--seed"),
        ("topology show ring:5 --plot picture.doc", "picture.doc"),
    ],
)
def test_a_wrong_command(words: str, fragment: str, admmnet: Admmnet) -> None:
    assert fragment in admmnet.refused(*words.split())


@pytest.mark.parametrize("epsilon", ["1e-320", "1e-163", "1e-160", "1e-155", "1e-100", "1e-20"])
def test_a_budget_that_affords_nothing(epsilon: str, admmnet: Admmnet) -> None:
    """It is refused; what noise of such size overflows is a fault of the run, and no internal error."""
    words = ("--data", DATA, "--label", "y", *PUBLISHED, *PRIVATE, "--epsilon", epsilon, "--rounds", "2", "-o", "new")
    code, _, told = admmnet("run", *words)
    assert code in (2, 3, 4)
    if float(epsilon) < 1e-162:
        assert (code, "raise --epsilon" in told) == (4, True)
    assert told.startswith("admmnet: ")
    assert told.count("\n") <= 2
    assert "internal error" not in told


@pytest.mark.parametrize("algorithm", ["admm", "pp-admm", "m-admm"])
def test_a_solve_that_misses_beta(algorithm: str, admmnet: Admmnet) -> None:
    words = ("--algorithm", algorithm, "--method", "published", "--beta", "1e-17", "--rounds", "2", "-o", "new")
    if algorithm != "admm":  # where records are protected, no solve may depend on them: refused before the first
        for mode in (PRIVATE, ("--seed", "0")):
            told = admmnet.refused("run", "--data", DATA, "--label", "y", *mode, *words, code=2)
            assert told.startswith("admmnet: beta = 1e-17 is below")
            assert "raise beta" in told
            assert not Path("new").exists()
        return
    told = admmnet.refused("run", "--data", DATA, "--label", "y", "--seed", "0", *words, code=3)
    assert "agent 0, round 0: the local solve stopped at gradient norm" in told
    assert "raise beta" in told
    admmnet.ok("ledger", "verify", "new")


def test_local_under_a_launcher(monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    from admmnet.transport.local import LocalWorld

    # as on rank 0 of mpirun, before the command line has looked at --transport
    monkeypatch.setattr("admmnet.cli.open_world", lambda transport: LocalWorld())
    monkeypatch.setenv("PMI_SIZE", "5")
    told = admmnet.refused("run", "--data", DATA, "--label", "y", "--transport", "local", "-o", "new")
    assert "--transport local runs in one process, but the launcher started 5" in told


@pytest.mark.parametrize("mode", [("--seed", "1"), PRIVATE], ids=["seeded", "private"])
def test_a_disk_that_fills_up_in_a_later_round(mode: tuple[str, ...], folder: Path) -> None:
    words = ["run", "--data", DATA, "--label", "y", *PUBLISHED, "--rounds", "40", *mode, "--quiet", "-o", "new"]
    code = f"""
import resource, sys
sys.path.insert(0, {str(ROOT)!r})
from admmnet.cli import run_command_line
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # no file grows beyond
sys.exit(run_command_line({words!r}))
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 3, ended.stderr
    what = "the ledger new/ledger/agent-00" if mode[0] == "--seed" else "new/journal.bin: "
    assert ended.stderr.startswith(f"admmnet: cannot write {what}")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not (folder / "new" / "summary.json").exists()


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
