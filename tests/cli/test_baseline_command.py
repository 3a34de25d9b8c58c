"""admmnet baseline: tables, refusals, dry runs, mpirun, imports; and other commands on what it leaves."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from admmnet.methods import single_sites
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.processes.launch import mpirun
from tests.test_imports import COMMAND, loaded_by
from tests.trained_models import table_of

from .conftest import COMMON


@pytest.mark.parametrize("name", ["sdca", "dp-scd", "primal-dp-scd"])
def test_table_and_json(name: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    own = ("--method", "published") if name == "primal-dp-scd" else ()
    printed = admmnet.ok("baseline", name, "--data", people, *COMMON, *own, "-o", tmp_path / "run")
    summary = summary_of(tmp_path / "run")
    (cells,) = (row for line in printed.out.splitlines() if (row := line.split())[:1] == ["150"])
    assert len(cells) == 9
    error = f"{100 * summary['test_error']['consensus']:.2f}%"
    assert (cells[1], cells[3], cells[-1]) == ("5", f"{summary['steps']:,}", error)
    private = name != "sdca"
    assert (cells[6] == "-") == (not private or name == "primal-dp-scd")  # no figure covers scaled columns
    assert (f", {summary['privacy']['adjacency']}" if private else "privacy:    none") in printed.out
    assert printed.err.count("note: ") == len(summary["notes"]) > 0
    assert ("a seeded run is a simulation" in printed.err) == private


def test_records_have_pure_epsilons_of_their_own(tmp_path: Path, admmnet: Admmnet) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200, 2))
    alphas = rng.choice([0.25, 1.0], 200)
    lines = [f"{a:.6f},{b:.6f},{alpha:g},{'yes' if a > 0 else 'no'}" for (a, b), alpha in zip(x, alphas, strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,alpha,y", *lines, ""]))
    words = ("--data", tmp_path / "own.csv", "--label", "y", "--positive", "yes", "--seed", "3", "--batch", "7")
    own = ("--no-test", "--record-epsilon", "alpha", "--delta", "1e-3")
    admmnet.ok("baseline", "song-sgd", *words, *own, "--epsilon", "1", "-o", tmp_path / "run")
    summary = summary_of(tmp_path / "run")
    few = int((alphas == 0.25).sum())
    assert summary["steps"] == math.ceil(few / 7) + math.ceil((200 - few) / 7)
    assert summary["data"]["features"] == 3  # a, b, intercept
    assert summary["baseline"]["pure_epsilon"] == 1.0
    assert any("'alpha' is taken to be public" in note for note in summary["notes"])
    admmnet.ok("ledger", "verify", tmp_path / "run")
    refused = {
        ("song-sgd", *words, *own, "--epsilon", "0.5"): "record_epsilon goes up to 1, and epsilon = 0.5 affords",
        ("dp-sgd", *words, *own, "--epsilon", "1"): "record_epsilon = 'alpha' goes with song-sgd, not dp-sgd",
        ("song-sgd", *words, *own[:-3], "b", "--epsilon", "1"): "it must be a number above 0 in every record",
    }
    for asked, reason in refused.items():
        assert reason in admmnet.refused("baseline", *asked, "-o", tmp_path / "no")


def test_help_shows_its_own_flags_alone(admmnet: Admmnet) -> None:
    general, own = (admmnet.ok("baseline", *words, "--help").out for words in ((), ("dp-scd",)))
    assert [name for name in single_sites() if name not in general] == []
    assert "--batch" not in general
    there = ("--batch", "--epochs", "--clip", "--no-dual-noise", "--dry-run", "--epsilon", "--data", "-o")
    assert [flag for flag in (*there, "logistic|hinge|squared") if flag not in own] == []
    others = ("topology", "agents", "rounds", "gate", "answer", "transport", "algorithm", "learning-rate")
    assert [flag for flag in others if f"  --{flag}" in own] == []
    assert "agent" not in own


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("dp-sdc",), "no baseline is called 'dp-sdc'"),
        (("dp-scd", "--algorithm", "dp-sgd"), "--algorithm does not go with baseline"),
        (("dp-scd", "--max-releases", "3"), "--max-releases"),
        (("dp-scd", "--split", "dirichlet:1"), "split"),
        (("banco", "--noise", "gaussian", "--method", "published"), "noise"),
        (("primal-dp-scd",), "--accountant proven"),
        (("seq-dp-scd", "--sampling", "poisson"), "poisson"),
        (("dp-scd", "--batch", "1000"), "1 to 150"),
        (("dp-sgd", "--epsilon", "1e-9", "--delta", "1e-12", "--simulate"), "epsilon = 1e-09"),
    ],
)
def test_refusals(words: tuple[str, ...], what: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    given = words if "--epsilon" in words else (*words, *COMMON)
    code = 4 if "1e-9" in words else 2
    assert what in admmnet.refused("baseline", *given, "--data", people, "-o", tmp_path / "run", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_here")
def test_a_dry_run_writes_nothing(people: str, baseline: Path, admmnet: Admmnet) -> None:
    words = ("baseline", "dp-scd", "--data", people, *COMMON, "--dry-run")
    told = admmnet.ok(*words).out
    assert "subsampled-gaussian" in told
    for name, value in (("accountant", "proven"), ("epsilon target", "8"), ("epsilon proven", "8"), ("delta", "0.001")):
        assert re.search(rf"^{name}: +{value}$", told, re.MULTILINE)
    facts, summary = admmnet.json(*words), summary_of(baseline)
    assert facts["noise_multiplier"] == summary["baseline"]["noise_multiplier"]
    assert facts["epsilon_proven"] == summary["privacy"]["epsilon_proven"]
    assert facts["charges"][0]["parameters"]["steps"] == summary["steps"]
    assert "no privacy" in admmnet.ok("baseline", "sgd", "--data", people, "--simulate", "--dry-run").out
    assert "so this run is private" in admmnet.refused("baseline", "dp-sgd", "--data", people, "--dry-run")
    assert list(Path().iterdir()) == []


@pytest.mark.processes
def test_under_mpirun_one_rank_works(people: str, tmp_path: Path) -> None:
    words = ("--data", people, "--seed", "0", "-o", str(tmp_path / "run"))
    ended = mpirun(2, "-m", "admmnet", "baseline", "sgd", *words)
    assert ended.code == 0, ended.err
    assert ended.out.count("run folder:") == 1
    assert summary_of(tmp_path / "run")["transport"] == "local"
    refused = mpirun(2, "-m", "admmnet", "run", "--algorithm", "sgd", *words[:-1], str(tmp_path / "other"))
    assert refused.code == 2
    assert len(refused.messages) == 1
    assert "runs in one process, and the launcher started 2" in refused.messages[0]
    assert not (tmp_path / "other").exists()


def test_only_what_is_used_is_imported(people: str, tmp_path: Path) -> None:
    libraries = {"numba", "dp_accounting", "sklearn", "matplotlib", "mpi4py"}
    used = {"sgd --batch 20": set[str](), "banco": set[str](), "dp-sgd": {"dp_accounting"}, "sdca": {"numba"}}
    for words, found in used.items():
        code = COMMAND.format(["baseline", *words.split(), "--data", people, "--simulate", "-o", f"{tmp_path}/{words}"])
        assert loaded_by(code) & libraries == found, words


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


def test_run_does_the_same(people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("run", "--algorithm", "dp-scd", "--data", people, *COMMON, "-o", tmp_path / "one")
    admmnet.ok("run", baseline / "config.toml", "--quiet", "-o", tmp_path / "two")
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        for name in ("one", "two"):
            assert (tmp_path / name / file).read_bytes() == (baseline / file).read_bytes(), file


def test_compare_takes_baselines(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    out = tmp_path / "grid"
    words = [*("compare", "--jobs", "1", "--algorithms", "dp-scd,dp-scd:published,dp-sgd,sgd,pp-admm"), "-o", str(out)]
    words += ["--epsilons", "8", "--seeds", "0:2", "--data", people, "--simulate", "--delta", "1e-3"]
    words += ["--topology", "ring:4", "--rounds", "3", "--epochs", "2", "--tune-seeds", "1", "--tune"]
    words += ["learning_rate=1:4,pp-admm.eta=0.1,sgd.learning_rate=0.2"]
    printed = admmnet.ok(*words)
    rows = table_of((out / "compare.csv").read_text())
    assert Counter((row["algorithm"], row["method"], row["adjacency"]) for row in rows) == {
        ("dp-scd", "proven", "zero-out"): 2,
        ("dp-scd", "published", "zero-out"): 2,
        ("dp-sgd", "proven", "zero-out"): 2,
        ("sgd", "published", "replace-one"): 2,
        ("pp-admm", "proven", "replace-one"): 2,
    }
    assert "the epsilons of dp-scd, dp-scd:published, dp-sgd are for zero-out" in printed.err
    (tuning,) = json.loads((out / "compare.json").read_text())["tuning"]
    assert tuning["epsilon_proven_with_trials"] > 8.0  # two trials and a run cost more than a run
    assert "\nlearning_rate = 0.2\n" in (out / "runs/sgd-0/config.toml").read_text()
    assert admmnet(*words, "--quiet") == (0, "", "")  # it goes on: all is there
