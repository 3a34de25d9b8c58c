"""admmnet baseline: tables, JSON, refusals, dry runs, mpirun and what is imported."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from admmnet.methods import single_sites
from tests.command_runs import Admmnet
from tests.processes.launch import mpirun

from .conftest import COMMON


@pytest.mark.parametrize("name", ["sdca", "dp-scd", "primal-dp-scd"])
def test_table_and_json(name: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    own = ("--method", "published") if name == "primal-dp-scd" else ()
    printed = admmnet.ok("baseline", name, "--data", people, *COMMON, *own, "-o", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    rows = [line.split() for line in printed.out.splitlines()]
    (cells,) = (row for row in rows if row and row[0] == "225")
    assert len(cells) == 9
    assert cells[1] == "5"
    assert cells[3] == f"{summary['steps']:,}"
    assert cells[-1] == f"{100 * summary['test_error']['consensus']:.2f}%"
    private = name not in ("sdca", "sgd")
    assert (cells[6] == "-") == (not private or name == "primal-dp-scd")  # no figure covers scaled columns
    relation = summary["privacy"]["adjacency"]
    assert (f", {relation}" if private else "privacy:    none") in printed.out
    assert printed.err.count("note: ") == len(summary["notes"]) > 0
    assert ("a seeded run is a simulation" in printed.err) == private
    again = admmnet.ok("baseline", name, tmp_path / "run" / "config.toml", "--json", "-o", tmp_path / "two").out
    figures = json.loads(again)
    assert figures == json.loads((tmp_path / "two" / "summary.json").read_text())
    for key in ("test_error", "privacy", "ledgers", "steps", "baseline"):
        assert figures[key] == summary[key], key


def test_records_have_pure_epsilons_of_their_own(tmp_path: Path, admmnet: Admmnet) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200, 2))
    alphas = rng.choice([0.25, 1.0], 200)
    lines = [f"{a:.6f},{b:.6f},{alpha:g},{'yes' if a > 0 else 'no'}" for (a, b), alpha in zip(x, alphas, strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,alpha,y", *lines, ""]))
    words = ("--data", tmp_path / "own.csv", "--label", "y", "--positive", "yes", "--seed", "3", "--batch", "7")
    own = ("--no-test", "--record-epsilon", "alpha", "--delta", "1e-3")
    admmnet.ok("baseline", "song-sgd", *words, *own, "--epsilon", "1", "-o", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    few = int((alphas == 0.25).sum())
    assert summary["steps"] == math.ceil(few / 7) + math.ceil((200 - few) / 7)
    assert summary["data"]["features"] == 3  # a, b, intercept
    assert summary["baseline"]["pure_epsilon"] == 1.0
    assert any("'alpha' is taken to be public" in note for note in summary["notes"])
    admmnet.ok("ledger", "verify", tmp_path / "run")
    refused = {
        ("song-sgd", *words, *own, "--epsilon", "0.5"): "record_epsilon goes up to 1, and epsilon = 0.5 affords",
        ("dp-sgd", *words, *own, "--epsilon", "1"): "record_epsilon = 'alpha' goes with song-sgd, not dp-sgd",
        ("song-sgd", *words, *own[:-3], "b", "--epsilon", "1"): "it must be positive in every record",
    }
    for asked, reason in refused.items():
        assert reason in admmnet.refused("baseline", *asked, "-o", tmp_path / "no")


def test_help_shows_its_own_flags_alone(admmnet: Admmnet) -> None:
    shown = admmnet.ok("baseline", "--help").out
    for name in single_sites():
        assert name in shown
    assert "--batch" not in shown
    shown = admmnet.ok("baseline", "dp-scd", "--help").out
    assert "--learning-rate" not in shown
    for flag in ("--batch", "--epochs", "--clip", "--no-dual-noise", "--dry-run", "--epsilon", "--data", "-o"):
        assert flag in shown, flag
    for flag in ("--topology", "--agents", "--rounds", "--gate", "--answer", "--transport", "--algorithm"):
        assert f"  {flag}" not in shown, flag
    assert "logistic|hinge|squared" in shown
    assert "agent" not in shown


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("dp-sdc",), "no baseline is called 'dp-sdc'"),
        (("dp-scd", "--algorithm", "dp-sgd"), "--algorithm does not go with baseline"),
        (("dp-scd", "--topology", "ring:5"), "topology = 'ring:5' does not go with algorithm = 'dp-scd'"),
        (("dp-scd", "--max-releases", "3"), "--max-releases"),
        (("dp-scd", "--split", "dirichlet:1"), "split"),
        (("sdca", "--clip", "1"), "clip"),
        (("sdca", "--method", "proven"), "no privacy"),
        (("banco", "--noise", "gaussian", "--method", "published"), "noise"),
        (("dp-scd", "--regularisation", "0"), "regularisation"),
        (("dp-scd", "--loss", "huber"), "hinge"),
        (("primal-dp-scd", "--loss", "hinge", "--method", "published"), "squared"),
        (("primal-dp-scd",), "--accountant proven"),
        (("seq-dp-scd", "--sampling", "poisson"), "poisson"),
        (("dp-scd", "--batch", "1000"), "1 to 225"),
        (("dp-scd", "--method", "proven", "--accountant", "published"), "accountant"),
        (("dp-scd", "--method", "published", "--account", "there"), "account"),
        (("dp-sgd", "--epsilon", "1e-9", "--delta", "1e-12", "--simulate"), "epsilon = 1e-09"),
    ],
)
def test_refusals(words: tuple[str, ...], what: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    given = words if "--epsilon" in words else (*words, *COMMON)
    code = 4 if "1e-9" in words else 2
    assert what in admmnet.refused("baseline", *given, "--data", people, "-o", tmp_path / "run", code=code)
    assert not (tmp_path / "run").exists()


def test_settings_of_baselines_on_the_network(admmnet: Admmnet) -> None:
    for words, owner in (
        (("run", "--batch", "5"), "dp-scd"),
        (("calibrate", "--dual-noise"), "dp-scd"),
        (("run", "--schedule", "sqrt"), "song-sgd"),
    ):
        assert re.search(f"does not go with .*{owner}", admmnet.refused(*words))


def test_a_dry_run_writes_nothing(
    people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("baseline", "dp-scd", "--data", people, *COMMON, "--dry-run")
    told = admmnet.ok(*words).out
    assert "subsampled-gaussian" in told
    for name, value in (("accountant", "proven"), ("epsilon target", "8"), ("epsilon proven", "8"), ("delta", "0.001")):
        assert re.search(rf"^{name}: +{value}$", told, re.MULTILINE)
    facts = json.loads(admmnet.ok(*words, "--json").out)
    summary = json.loads((baseline / "summary.json").read_text())
    assert facts["noise_multiplier"] == summary["baseline"]["noise_multiplier"]
    assert facts["epsilon_proven"] == summary["privacy"]["epsilon_proven"]
    assert facts["charges"][0]["parameters"]["steps"] == summary["steps"]
    assert "no privacy" in admmnet.ok("baseline", "sgd", "--data", people, "--simulate", "--dry-run").out
    assert "so this run is private" in admmnet.refused("baseline", "dp-sgd", "--data", people, "--dry-run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_under_mpirun_one_rank_works(people: str, tmp_path: Path) -> None:
    words = ("--data", people, "--seed", "0", "-o", str(tmp_path / "run"))
    ended = mpirun(2, "-m", "admmnet", "baseline", "sgd", *words)
    assert ended.code == 0, ended.err
    assert ended.out.count("run folder:") == 1
    assert json.loads((tmp_path / "run/summary.json").read_text())["transport"] == "local"
    refused = mpirun(2, "-m", "admmnet", "run", "--algorithm", "sgd", *words[:-1], str(tmp_path / "other"))
    assert refused.code == 2
    assert len(refused.messages) == 1
    assert "runs in one process, and the launcher started 2" in refused.messages[0]
    assert not (tmp_path / "other").exists()


LIBRARIES = {"numba", "dp_accounting", "sklearn", "matplotlib", "mpi4py"}


def test_only_what_is_used_is_imported(people: str, tmp_path: Path) -> None:
    """In one process, one after the other: each adds what it uses itself."""
    runs = {"sgd": ("--batch", "20"), "banco": ("--epsilon", "4"), "dp-sgd": ("--epochs", "1"), "sdca": ()}
    steps = ["import sys\nfrom admmnet.cli import run_command_line"]
    for name, words in runs.items():
        given = ["baseline", name, *words, "--data", people, "--seed", "0", "--quiet", "-o", str(tmp_path / name)]
        steps.append(f"assert run_command_line({given!r}) == 0\nprint(*({LIBRARIES} & set(sys.modules)), sep=',')")
    process = subprocess.run([sys.executable, "-c", "\n".join(steps)], capture_output=True, check=True, text=True)
    used: list[set[str]] = [set(line.split(",")) - {""} for line in process.stdout.splitlines()]
    assert used == [set(), set(), {"dp_accounting"}, {"dp_accounting", "numba"}]


def test_a_missing_library_is_named(
    people: str, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "admmnet.holder.series.kernels", raising=False)
    monkeypatch.delattr("admmnet.holder.series.kernels", raising=False)
    said = admmnet.refused("baseline", "sdca", "--data", people, "--seed", "0", "-o", tmp_path / "run")
    assert "pip install 'admmnet[baselines]'" in said
    assert not (tmp_path / "run").exists()


def test_an_account_spans_runs_until_nothing_is_left(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ("dp-sgd", "--data", people, "--no-test", "--epochs", "1", "--account", tmp_path / "account")
    admmnet.ok("baseline", *words, "-o", tmp_path / "one")
    assert "--epsilon" in admmnet.refused("baseline", *words, "-o", tmp_path / "two", code=4)
    assert not (tmp_path / "two").exists()
    admmnet.ok("baseline", *words, "--epsilon", "2", "-o", tmp_path / "three")
    assert "zero-out" in (tmp_path / "account/agent-000.jsonl").read_text()
    assert "agent" in admmnet.ok("account", "show", tmp_path / "account").out
