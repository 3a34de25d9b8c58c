"""admmnet baseline: tables, JSON, refusals; ledgers, evaluate, predict, compare and mpirun on what it leaves."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.config import BASELINES, RunConfig
from admmnet.contradictions import kind_of
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.predict import NewData, evaluate, read_model
from tests.processes.launch import mpirun
from tests.test_imports import HEAVY, HELP, loaded_by

COMMON = ("--epsilon", "8", "--delta", "1e-3", "--seed", "3")


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Admmnet:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Printed:
        self._capsys.readouterr()
        code = run_command_line([str(word) for word in words])
        return Printed(code, *self._capsys.readouterr())

    def ok(self, *words: object) -> str:
        printed = self(*words)
        assert printed.code == 0, printed.err
        return printed.out


@pytest.fixture
def admmnet(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz", 300)


def write_people(path: Path, count: int) -> str:
    stream = np.random.default_rng(count)
    X = stream.standard_normal((count, 4))
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(count) > 0, 1, -1))
    return str(path)


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    words = ("baseline", "dp-scd", "--data", people, *COMMON, "--quiet", "-o", str(folder))
    assert run_command_line(words) == 0
    return folder


@pytest.mark.parametrize("name", BASELINES)
def test_table_and_json(name: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    own = ("--method", "published") if name == "primal-dp-scd" else ()
    printed = admmnet("baseline", name, "--data", people, *COMMON, *own, "-o", tmp_path / "run")
    assert printed.code == 0, printed.err
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
    again = admmnet.ok("baseline", name, tmp_path / "run" / "config.toml", "--json", "-o", tmp_path / "two")
    figures = json.loads(again)
    assert figures == json.loads((tmp_path / "two" / "summary.json").read_text())
    for key in ("test_error", "privacy", "ledgers", "steps", "baseline"):
        assert figures[key] == summary[key], key


def test_quiet_and_the_default_folder(
    people: str, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert admmnet("baseline", "sgd", "--data", people, "--seed", "0", "--quiet", "--json") == (0, "", "")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-sgd")


def test_help_shows_its_own_flags_alone(admmnet: Admmnet) -> None:
    shown = admmnet.ok("baseline", "--help")
    for name in BASELINES:
        assert name in shown
    for flag in (
        "--batch",
        "--epochs",
        "--clip",
        "--no-dual-noise",
        "--dry-run",
        "--epsilon",
        "--data",
        "-o",
    ):
        assert flag in shown, flag
    for flag in ("--topology", "--agents", "--rounds", "--gate", "--answer", "--transport", "--algorithm"):
        assert f"  {flag}" not in shown, flag
    assert "logistic|hinge|squared" in shown
    assert "agent" not in shown


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("dp-sdc",), 2, "no baseline is called 'dp-sdc'; there are sdca, dp-scd"),
        (("dp-scd", "--topology", "ring:5"), 2, "--topology does not go with baseline: there is no network"),
        (("dp-scd", "--max-releases", "3"), 2, "--max-releases does not go with baseline"),
        (("dp-scd", "--split", "dirichlet:1"), 2, "--split does not go with baseline"),
        (
            ("dp-scd", "--algorithm", "dp-sgd"),
            2,
            "--algorithm does not go with baseline: the method is named once",
        ),
        (
            ("dp-scd", "--learning-rate", "1"),
            2,
            "learning_rate = 1.0 does not go with algorithm = 'dp-scd', but with",
        ),
        (("sdca", "--clip", "1"), 2, "clip = 1.0 does not go with algorithm = 'sdca'"),
        (("sdca", "--method", "proven"), 2, "algorithm sdca has no privacy"),
        (("banco", "--regularisation", "1"), 2, "regularisation does not go with algorithm = 'banco'"),
        (("banco", "--noise", "gaussian", "--method", "published"), 2, "its source gives no accounting"),
        (("dp-scd", "--regularisation", "0"), 2, "it must be above 0"),
        (("dp-scd", "--loss", "huber"), 2, "one of logistic, hinge, squared"),
        (("song-sgd", "--loss", "squared"), 2, "bounds a record's gradient"),
        (("primal-dp-scd", "--loss", "hinge", "--method", "published"), 2, "take logistic or squared"),
        (("primal-dp-scd",), 2, "refused under --accountant proven"),
        (("seq-dp-scd", "--sampling", "poisson"), 2, "seq-dp-scd with sampling = 'poisson' is refused"),
        (
            ("dp-scd", "--batch", "1000"),
            2,
            "batch = 1000 is not allowed: it must be a whole number from 1 to 225",
        ),
        (("dp-scd", "--sampling", "every"), 2, "one of auto, poisson, fixed, shuffled"),
        (
            ("dp-scd", "--method", "proven", "--accountant", "published"),
            2,
            "accountant = 'published' goes with",
        ),
        (("dp-scd", "--data", "people-{agent}.npz"), 2, "name one file"),
        (("dp-sgd", "--epsilon", "1e-9", "--delta", "1e-12"), 4, "epsilon = 1e-09 affords no step at all"),
    ],
)
def test_refusals(
    words: tuple[str, ...], code: int, what: str, people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    given = words if "--data" in words else (*words, "--data", people)
    given = given if "--epsilon" in words else (*given, *COMMON)
    printed = admmnet("baseline", *given, "-o", tmp_path / "run")
    assert (printed.code, printed.out) == (code, "")
    assert what in printed.err
    assert printed.err.startswith("admmnet: ")
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty_is_refused(people: str, finished: Path, admmnet: Admmnet) -> None:
    before = (finished / "summary.json").read_bytes()
    printed = admmnet("baseline", "dp-scd", "--data", people, *COMMON, "-o", finished)
    assert printed.code == 2
    assert "is not empty" in printed.err
    assert (finished / "summary.json").read_bytes() == before


@pytest.mark.parametrize(
    "name", [name for name in RunConfig.__dataclass_fields__ if kind_of(name) == "network"]
)
def test_settings_of_the_network_in_a_file(name: str, tmp_path: Path, admmnet: Admmnet) -> None:
    table = RunConfig.__dataclass_fields__[name].metadata["table"]
    values = {
        **{"topology": '"ring:5"', "transport": '"mpi"', "split": '"dirichlet:1"', "gate": '"off"'},
        **{
            "answer": '"tail"',
            "release": '"output"',
            "account": '"there"',
            "growth": "1.5",
            "gate_share": "0.5",
        },
        **{"beta": "0.5", "budgets": "", "topology_schedule": '"there"', "drop": "0.5", "straggle": "0.5"},
        **{"offline": '"3:1-2"', "delay": '"latency=1"', "on_loss": '"continue"', "resume": '"there"'},
    }
    text = f"[{table}]\n{name} = {values.get(name, '3')}\n"
    if name == "budgets":
        text = "[privacy.agents.3]\nepsilon = 1\n"
    (tmp_path / "run.toml").write_text(text)
    printed = admmnet("baseline", "dp-scd", tmp_path / "run.toml", "-o", tmp_path / "run")
    assert printed.code == 2
    assert f"{name} = " in printed.err
    assert "does not go with algorithm = 'dp-scd'" in printed.err


def test_settings_of_baselines_on_the_network(admmnet: Admmnet) -> None:
    for words in (("run", "--batch", "5"), ("calibrate", "--dual-noise"), ("run", "--schedule", "sqrt")):
        printed = admmnet(*words)
        assert printed.code == 2
        assert "but with the baselines: sdca" in printed.err
    printed = admmnet("calibrate", "--algorithm", "dp-scd")
    assert printed.code == 2
    assert "admmnet baseline dp-scd --dry-run" in printed.err
    assert RunConfig(algorithm="dp-scd", agents=1, transport="local").baseline
    with pytest.raises(RequestError, match="agents = 2"):
        RunConfig(algorithm="dp-scd", agents=2)


def test_a_dry_run_writes_nothing(
    people: str, finished: Path, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("baseline", "dp-scd", "--data", people, *COMMON, "--dry-run")
    told = admmnet.ok(*words)
    assert "subsampled-gaussian" in told
    assert re.search(
        r"budget \(8, 0\.001\) by the proven accountant; worst case: epsilon 7\.99\d+ proven", told
    )
    facts = json.loads(admmnet.ok(*words, "--json"))
    summary = json.loads((finished / "summary.json").read_text())
    assert facts["noise_multiplier"] == summary["baseline"]["noise_multiplier"]
    assert facts["epsilon_proven"] == summary["privacy"]["epsilon_proven"]
    assert facts["charges"][0]["parameters"]["steps"] == summary["steps"]
    assert "no privacy" in admmnet.ok("baseline", "sgd", "--data", people, "--dry-run")
    assert list(tmp_path.iterdir()) == []


# what works on the folder


def test_run_does_the_same(people: str, finished: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("run", "--algorithm", "dp-scd", "--data", people, *COMMON, "-o", tmp_path / "one")
    admmnet.ok("run", finished / "config.toml", "--quiet", "-o", tmp_path / "two")
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        for name in ("one", "two"):
            assert (tmp_path / name / file).read_bytes() == (finished / file).read_bytes(), file


def test_the_ledger_commands(finished: Path, admmnet: Admmnet) -> None:
    assert "1 ledgers, 1 events hold; the run is finished" in admmnet.ok("ledger", "verify", finished)
    shown = admmnet.ok("ledger", "show", finished, "--events")
    assert "subsampled-gaussian" in shown
    (account,) = json.loads(admmnet.ok("ledger", "show", finished, "--json"))
    assert account["header"]["adjacency"] == "zero-out"
    (row,) = csv.DictReader(io.StringIO(admmnet.ok("ledger", "export", finished)))
    assert json.loads(row["parameters"])["sampling"] == "poisson"


def test_evaluate_and_predict(people: str, finished: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    new = write_people(tmp_path / "new.npz", 80)
    facts = json.loads(admmnet.ok("evaluate", finished, "--data", new, "--json"))
    data = load(DataSettings(data=people, test=new), 1, [0])
    with np.load(finished / "model.npz") as archive:
        score = data.X_test @ archive["consensus"]
    assert facts["error"]["consensus"] == float(np.mean((score > 0) != (data.y_test > 0)))
    assert "of the consensus" in admmnet.ok("evaluate", finished, "--data", new)
    rows = list(csv.DictReader(io.StringIO(admmnet.ok("predict", finished, "--data", new))))
    np.testing.assert_allclose([float(row["score"]) for row in rows], score, rtol=1e-12)
    assert [row["prediction"] for row in rows] == np.where(score > 0, "+1", "-1").tolist()


def test_evaluate_and_predict_real_targets(tmp_path: Path, admmnet: Admmnet) -> None:
    stream = np.random.default_rng(5)
    X = stream.standard_normal((200, 3))
    y = 40.0 + 6.0 * X[:, 0] + stream.standard_normal(200)
    np.savez(tmp_path / "ages.npz", X=X, y=y)
    (tmp_path / "run.toml").write_text(
        f"[data]\ndata = '{tmp_path / 'ages.npz'}'\n[data.schema]\ntargets = [0, 100]\n"
        "[problem]\nloss = 'squared'\n"
    )
    printed = admmnet("baseline", "sdca", tmp_path / "run.toml", "--seed", "0", "-o", tmp_path / "run")
    assert printed.code == 0, printed.err
    assert "in the target's own unit" in printed.out
    rows = list(csv.DictReader(io.StringIO(
        admmnet.ok("predict", tmp_path / "run", "--data", tmp_path / "ages.npz")
    )))  # fmt: skip
    values = np.array([float(row["prediction"]) for row in rows])
    assert {row["probability"] for row in rows} == {""}
    facts = evaluate(read_model(tmp_path / "run"), NewData(data=str(tmp_path / "ages.npz")))
    assert facts["metric"] == "mean-squared-error"
    assert facts["error"]["root_in_units"] == pytest.approx(np.sqrt(np.mean((values - y) ** 2)), rel=1e-9)
    assert facts["error"]["consensus"] < 0.6 * facts["variance"]


# compare


def test_compare_takes_baselines(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    out = tmp_path / "grid"
    words = (
        "compare",
        "--jobs",
        "1",
        "--algorithms",
        "dp-scd,dp-scd:published,dp-sgd,sgd,pp-admm",
        "-o",
        out,
    )
    grid = ("--epsilons", "8", "--seeds", "0:2", "--data", people, "--delta", "1e-3")
    mixed = ("--topology", "ring:4", "--rounds", "3", "--epochs", "2")
    tune = (
        "--tune",
        "learning_rate=1:4,pp-admm.eta=0.1,sgd.learning_rate=0.2,clip=0.01",
        "--tune-seeds",
        "1",
    )
    printed = admmnet(*words, *grid, *mixed, *tune)
    assert printed.code == 0, printed.err
    with (out / "compare.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["algorithm"], row["method"]): row["adjacency"] for row in rows}
    assert found == {
        ("dp-scd", "proven"): "zero-out",
        ("dp-scd", "published"): "zero-out",
        ("dp-sgd", "proven"): "zero-out",
        ("sgd", "published"): "replace-one",
        ("pp-admm", "proven"): "replace-one",
    }
    assert len(rows) == 10
    assert "the epsilons of dp-scd, dp-scd:published, dp-sgd are for zero-out" in printed.err
    tuning = json.loads((out / "compare.json").read_text())["tuning"]
    assert [choice["algorithm"] for choice in tuning] == ["dp-sgd"]
    assert set(tuning[0]["chosen"]) == {"learning_rate", "clip"}
    assert tuning[0]["epsilon_proven_with_trials"] > 8.0  # two trials and a run cost more than a run
    # each setting went to those that have it, and a run is the one that the command makes
    assert "\nlearning_rate = 0.2\n" in (out / "runs/sgd-0/config.toml").read_text()
    assert "\neta = 0.1\n" in (out / "runs/pp-admm-proven-proven-8-0/config.toml").read_text()
    single = ("baseline", "dp-scd", "--data", people, "--epsilon", "8", "--delta", "1e-3", "--seed", "1")
    admmnet.ok(*single, "--epochs", "2", "--clip", "0.01", "-o", tmp_path / "run")
    same = (out / "runs/dp-scd-proven-proven-8-1/model.npz").read_bytes()
    assert (tmp_path / "run/model.npz").read_bytes() == same
    assert admmnet(*words, *grid, *mixed, *tune, "--quiet") == (0, "", "")


def test_compare_of_baselines_alone(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ("compare", "--jobs", "1", "--algorithms", "dp-sgd,sdca", "--epsilons", "8", "--seeds", "0")
    told = admmnet.ok(*words, "--data", people, "--loss", "hinge", "-o", tmp_path / "grid")
    content: dict[str, Any] = json.loads((tmp_path / "grid/compare.json").read_text())
    (survey,) = content["data"]
    assert survey["agents"] == 1
    assert survey["pooled"] < survey["larger_class"]  # the optimum of the hinge loss, by SDCA
    assert f"pooled: test error {100 * survey['pooled']:.2f}%" in told


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--algorithms", "dp-scd,dp-sgd", "--topology", "ring:5"), "there is no network"),
        (("--algorithms", "pp-admm", "--batch", "5"), "but with the baselines"),
        (("--algorithms", "pp-admm,dp-scd", "--loss", "hinge"), "pp-admm at epsilon 8: loss = 'hinge'"),
        (("--algorithms", "pp-admm,dp-scd", "--tune", "pp-admm.batch=5"), "batch = 5 does not go with"),
        (
            (
                "--algorithms",
                "sgd:proven",
            ),
            "sgd has no privacy",
        ),
        (("--algorithms", "dp-scd", "--tune", "batch=10:1000"), "batch = 1000 is not allowed"),
    ],
)
def test_compare_refuses_what_no_method_has(
    words: tuple[str, ...], what: str, people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    out = tmp_path / "grid"
    common = ("--epsilons", "8", "--seeds", "0", "--data", people, "--jobs", "1", "-o", out)
    printed = admmnet("compare", *words, *common)
    assert (printed.code, printed.out) == (2, "")
    assert what in printed.err
    assert not out.exists()


# processes


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


def test_help_loads_nothing_heavy() -> None:
    loaded = loaded_by(HELP.format("baseline", 0))
    assert loaded & {*HEAVY, "numba"} == set()
    assert loaded & {"numpy"} == loaded_by(HELP.format("run", 0)) & {"numpy"}


@pytest.mark.parametrize(
    ("words", "used"),
    [
        (("sgd", "--batch", "20"), set()),
        (("sdca",), {"numba"}),
        (("dp-sgd", "--epochs", "1"), {"dp_accounting"}),
        (("banco", "--epsilon", "4"), set()),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_only_what_is_used_is_imported(
    words: tuple[str, ...], used: set[str], people: str, tmp_path: Path
) -> None:
    given = ["baseline", *words, "--data", people, "--seed", "0", "--json", "-o", str(tmp_path / "run")]
    # notes go to standard error, too, before the names of the modules
    code = f"from admmnet.cli import run_command_line\nassert run_command_line({given!r}) == 0"
    assert loaded_by(code) & {"numba", "dp_accounting", "sklearn", "matplotlib", "mpi4py"} == used


def test_a_missing_library_is_named(
    people: str, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "admmnet.baselines.kernels", raising=False)
    monkeypatch.delattr("admmnet.baselines.kernels", raising=False)
    printed = admmnet("baseline", "sdca", "--data", people, "--seed", "0", "-o", tmp_path / "run")
    assert printed.code == 2
    assert "pip install 'admmnet[baselines]'" in printed.err
    assert not (tmp_path / "run").exists()
