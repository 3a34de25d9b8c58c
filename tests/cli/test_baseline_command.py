"""admmnet baseline: tables, refusals, dry runs, mpirun, imports; and other commands on what it leaves."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from admmnet.data import DataSettings, load
from admmnet.methods import single_sites
from tests.command_runs import Admmnet
from tests.people_runs import summary_of, write_people
from tests.processes.launch import mpirun
from tests.trained_models import table_of

from .conftest import COMMON


@pytest.mark.parametrize("name", ["sdca", "dp-scd", "primal-dp-scd"])
def test_table_and_json(name: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    own = ("--method", "published") if name == "primal-dp-scd" else ()
    printed = admmnet.ok("baseline", name, "--data", people, *COMMON, *own, "-o", tmp_path / "run")
    summary = summary_of(tmp_path / "run")
    (cells,) = (row for line in printed.out.splitlines() if (row := line.split())[:1] == ["225"])
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
        ("song-sgd", *words, *own[:-3], "b", "--epsilon", "1"): "it must be positive in every record",
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


def test_run_does_the_same(people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("run", "--algorithm", "dp-scd", "--data", people, *COMMON, "-o", tmp_path / "one")
    admmnet.ok("run", baseline / "config.toml", "--quiet", "-o", tmp_path / "two")
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        for name in ("one", "two"):
            assert (tmp_path / name / file).read_bytes() == (baseline / file).read_bytes(), file


def test_evaluate_and_predict(people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    new = write_people(tmp_path / "new.npz", 80, 80)
    facts = admmnet.json("evaluate", baseline, "--data", new)
    data = load(DataSettings(data=people, test=new), 1, [0])
    with np.load(baseline / "model.npz") as archive:
        score = data.X_test @ archive["consensus"]
    assert facts["error"]["consensus"] == float(np.mean((score > 0) != (data.y_test > 0)))
    assert f"consensus {facts['error']['consensus']:.2%}" in admmnet.ok("evaluate", baseline, "--data", new).out
    rows = table_of(admmnet.ok("predict", baseline, "--data", new).out)
    np.testing.assert_allclose([float(row["score"]) for row in rows], score, rtol=1e-12)
    assert [row["prediction"] for row in rows] == np.where(score > 0, "+1", "-1").tolist()
    (tmp_path / "link.npz").symlink_to(new)
    assert "is the file of --data" in admmnet.refused("predict", baseline, "--data", new, "-o", tmp_path / "link.npz")


def test_evaluate_and_predict_real_targets(tmp_path: Path, admmnet: Admmnet) -> None:
    stream, data = np.random.default_rng(5), str(tmp_path / "ages.npz")
    X = stream.standard_normal((200, 3))
    y = 40.0 + 6.0 * X[:, 0] + stream.standard_normal(200)
    np.savez(data, X=X, y=y)
    (tmp_path / "run.toml").write_text(
        f"[data]\ndata = '{data}'\n[data.schema]\ntargets = [0, 100]\n[problem]\nloss = 'squared'\n"
    )
    printed = admmnet.ok("baseline", "sdca", tmp_path / "run.toml", "--seed", "0", "-o", tmp_path / "run")
    assert "in the target's own unit" in printed.out
    rows = table_of(admmnet.ok("predict", tmp_path / "run", "--data", data).out)
    values = np.array([float(row["prediction"]) for row in rows])
    assert {row["probability"] for row in rows} == {""}
    facts = admmnet.json("evaluate", tmp_path / "run", "--data", data)
    assert facts["metric"] == "mean-squared-error"
    assert facts["error"]["root_in_units"] == pytest.approx(np.sqrt(np.mean((values - y) ** 2)), rel=1e-9)
    assert facts["error"]["consensus"] < 0.6 * facts["variance"]


def test_compare_takes_baselines(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    out = tmp_path / "grid"
    words = [*("compare", "--jobs", "1", "--algorithms", "dp-scd,dp-scd:published,dp-sgd,sgd,pp-admm"), "-o", str(out)]
    words += ["--epsilons", "8", "--seeds", "0:2", "--data", people, "--simulate", "--delta", "1e-3"]
    words += ["--topology", "ring:4", "--rounds", "3", "--epochs", "2", "--tune-seeds", "1", "--tune"]
    words += ["learning_rate=1:4,pp-admm.eta=0.1,sgd.learning_rate=0.2,clip=0.01"]
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
    assert (tuning["algorithm"], set(tuning["chosen"])) == ("dp-sgd", {"learning_rate", "clip"})
    assert tuning["epsilon_proven_with_trials"] > 8.0  # two trials and a run cost more than a run
    # each setting went to those that have it, and a run is the one that the command makes
    assert "\nlearning_rate = 0.2\n" in (out / "runs/sgd-0/config.toml").read_text()
    assert "\neta = 0.1\n" in (out / "runs/pp-admm-proven-proven-8-0/config.toml").read_text()
    single = ("baseline", "dp-scd", "--data", people, "--epsilon", "8", "--delta", "1e-3", "--seed", "1")
    admmnet.ok(*single, "--epochs", "2", "--clip", "0.01", "-o", tmp_path / "run")
    same = (out / "runs/dp-scd-proven-proven-8-1/model.npz").read_bytes()
    assert (tmp_path / "run/model.npz").read_bytes() == same
    assert admmnet(*words, "--quiet") == (0, "", "")  # it goes on: all is there


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("dp-scd,dp-sgd --topology ring:5", "there is no network"),
        ("pp-admm --batch 5", "but with dp-scd"),
        ("pp-admm --loss hinge", "pp-admm at epsilon 8: loss = 'hinge'"),
        ("pp-admm --tune pp-admm.batch=5", "batch = 5 does not go with"),
        ("sgd:proven", "sgd has no privacy"),
        ("dp-scd --tune batch=1000:2000", "batch = 1000 is not allowed"),
    ],
)
def test_compare_refuses_what_no_method_has(
    words: str, what: str, people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    common = ("--epsilons", "8", "--seeds", "0", "--data", people, "--simulate", "--jobs", "1", "--quiet")
    assert what in admmnet.refused("compare", *common, "-o", tmp_path / "grid", "--algorithms", *words.split())
    assert not (tmp_path / "grid/runs").exists()
