"""What private runs tell: nothing that was computed from training records and not released; runs of baselines."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, RunError, RunResult, load_config, read_run, run
from admmnet.cli import run_command_line
from admmnet.config.run_config import own_settings, settings_of
from admmnet.data import DataSettings, load
from admmnet.holder.answers import Known
from admmnet.holder.holder import Secret
from admmnet.holder.measurements import GradientNorm, GradientSum, HeldNorm, minimiser, sums
from admmnet.holder.series import base, coordinate
from admmnet.methods import single_sites
from admmnet.privacy.ledger.file import Ledger
from admmnet.running.entrance import prepare
from admmnet.running.events import RoundEvent
from admmnet.running.loading import load_whole
from admmnet.solvers.newton import LocalSolver
from admmnet.transport import Transport, World
from admmnet.types import Matrix, Vector
from tests.people_runs import rows
from tests.processes.launch import DEADLINE
from tests.processes.warm import FORKS

FORBIDDEN = {"train_loss", "objective", "consensus_gap", "solve"}
DIGITS = 9
"""Numbers told with fewer digits are not held to be a secret's: too many agree by chance."""


# the run that is watched


def main(secrets: Path, *words: str) -> None:
    """Run the command line in a process of its own; keep every secret, and what is printed, beside each other."""
    kinds = ("minimisers", "noise", "gate norms", "thresholds", "sums", "norms")
    kept: dict[str, list[float]] = {kind: [] for kind in kinds}

    def keep(kind: str, owner: Any, name: str, read: Callable[..., list[float]]) -> None:
        """Keep what is read of every result of a function, from it and the arguments."""
        real = getattr(owner, name)

        def keeping(*given: Any, **more: Any) -> Any:
            found = real(*given, **more)
            kept[kind] += read(found, *given)
            return found

        setattr(owner, name, keeping)

    def flat(found: Any, *given: Any) -> list[float]:
        values: list[float] = np.ravel(found).astype(float).tolist()
        return values

    def with_norm(found: Any, *given: Any) -> list[float]:
        return [*flat(found), float(np.linalg.norm(found))]

    def held(answer: bool, own: HeldNorm, secret: Secret, known: Known) -> list[float]:
        return [secret.held[own.key]] if own.key in secret.held else []

    keep("minimisers", LocalSolver, "solve", lambda found, *given: flat(found.theta))
    keep("norms", LocalSolver, "data_gradient", with_norm)
    for gate in (GradientNorm, HeldNorm):
        keep("gate norms", gate, "norm", flat)
    keep("thresholds", HeldNorm, "carry_out", held)
    keep("sums", GradientSum, "totals", lambda found, own, *given: [*flat(found), *flat(np.rint(found / own.grid))])
    for owner, name in ((sums, "discrete_rows"), (minimiser, "clipped_gaussian_rows"), (Secret, "gaussian")):
        keep("noise", owner, name, flat)
    keep("noise", Secret, "laplace", flat)
    keep("noise", Secret, "gamma_norm", with_norm)
    moved = watch_transport()
    with secrets.with_suffix(".txt").open("w") as out, redirect_stdout(out), redirect_stderr(out):
        code = run_command_line(words)
    secrets.write_text(json.dumps({"kept": kept, "moved": moved}))
    sys.exit(code)


def watch_transport() -> list[float]:
    """Every number that goes from one agent to another or to the process that writes, as it would over MPI."""
    moved: list[float] = []

    def watch(owner: Any, name: str, read: Callable[[Any], Iterable[float]]) -> None:
        real = getattr(owner, name)

        def watched(self: Any, value: Any, *rest: Any, **more: Any) -> Any:
            moved.extend(read(value))
            return real(self, value, *rest, **more)

        setattr(owner, name, watched)

    for verb in ("exchange", "reduce"):
        watch(Transport, verb, lambda said: [float(x) for one in said.values() if one is not None for x in one])
    watch(Transport, "collect", lambda rows: rows.ravel().tolist())
    watch(World, "gather", numbers)
    return moved


# the search


NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def exactly(values: Any) -> Matrix:
    """Numbers of full precision, and how far they may be from a secret: shape (2, k)."""
    values = np.abs(np.array(values, dtype=float).ravel())
    return np.stack([values, 1e-13 * values])


def everything_told(folder: Path, printed: str) -> Matrix:
    """Numbers that somebody can read, and the half of their last digit."""
    told = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                told += [exactly(one) for one in archive.values() if one.dtype.kind == "f"]
        else:
            printed += "\n" + path.read_text()
    for word in NUMBER.findall(printed):
        value, digits = abs(float(word)), len(re.split("[eE]", word)[0].replace(".", "").lstrip("+-0"))
        if digits > 14:
            told.append(exactly(value))
        elif digits >= DIGITS and math.isfinite(value):
            told.append(np.array([[value], [0.5001 * 10.0 ** (math.floor(math.log10(value)) - digits + 1)]]))
    return np.hstack([np.zeros((2, 0)), *told])


def leaks(secrets: Vector, told: Matrix) -> list[float]:
    """Secrets among what is told. With some 1e3 numbers of either the chance of a false alarm is below 1e-6."""
    secrets = np.abs(secrets[np.isfinite(secrets) & (secrets != 0.0)])
    near = [bool((np.abs(told[0] - value) <= told[1]).any()) for value in secrets.tolist()]
    found: list[float] = secrets[near].tolist()
    return found


def words_in_bytes(folder: Path, secrets: Vector) -> list[float]:
    """Secrets whose eight bytes stand somewhere in a file, in either order."""
    data = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        value
        for value in secrets.tolist()
        if value != 0.0 and any(np.array([value], dtype=kind).tobytes() in data for kind in ("<f8", ">f8"))
    ]


def keys_of(value: Any) -> set[str]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(keys_of, items))


def computed_from_records(folder: Path, people: str, *, no_test: bool = True, split: str = "iid") -> dict[str, Vector]:
    """Row values, and losses, gradients and gaps at everything that was released."""
    with np.load(folder / "model.npz") as archive:
        theta, consensus = archive["theta"], archive["consensus"]
    shards = load(DataSettings(data=people, no_test=no_test, split=split), 5, range(5)).shards
    losses, gradients = [], []
    points = [*theta, consensus, np.zeros_like(consensus)]
    for X, y in (*shards.values(), tuple(np.concatenate([s[k] for s in shards.values()]) for k in (0, 1))):
        for point in points:
            margin = y * (X @ point)
            loss = float(np.logaddexp(0.0, -margin).mean())
            losses += [loss] if point.any() else []  # ln 2 at zero, whatever the records
            gradients += (X.T @ (-y / (1.0 + np.exp(margin))) / len(y)).tolist()
    with np.load(people) as archive:
        raw = archive["X"].ravel()
    rows = np.concatenate([X[:, :-1].ravel() for X, _ in shards.values()])
    return {"losses": np.array(losses), "gradients": np.array(gradients), "rows": rows, "raw rows": raw}


class Run(NamedTuple):
    folder: Path
    printed: str
    kept: dict[str, Vector]
    moved: Matrix


def instrumented(folder: Path, people: str, *words: str) -> Run:
    out, secrets = folder / "run", folder / "secrets.json"
    common = ("run", "--data", people, "--topology", "ring:5", "--rounds", "4", "--epsilon", "30")
    words = ("--loss", "logistic", *words)
    process = FORKS.Process(target=main, args=(secrets, *common, *words, "-o", str(out)))
    process.start()
    process.join(DEADLINE)
    printed = secrets.with_suffix(".txt").read_text()
    assert process.exitcode == 0, printed
    assert "admmnet" in printed or "privacy" in printed
    found = json.loads(secrets.read_text())
    kept = {name: np.array(values) for name, values in found["kept"].items()}
    return Run(out, printed, kept, exactly(found["moved"]))


SIZES = "sizes:16:1:16:1:18"
METHODS = {
    "pp-objective": ("--algorithm", "pp-admm"),
    "pp-output": ("--algorithm", "pp-admm", "--release", "output"),
    "ipp-held": ("--gate", "above-threshold", "--gate-share", "0.5", "--gate-threshold", "0.3"),
    "ipp-gaussian": ("--gate", "gaussian", "--gate-share", "0.5", "--gate-threshold", "0.1", "--json"),
    # a core of 0, 2 and 4; 1 or 3 passes on what it hears, both are asked
    "ipp-joining": ("--split", SIZES, "--gate-threshold", "0.25"),
    "m-admm": ("--algorithm", "m-admm", "--growth", "1.1", "--json"),
    "r-admm": ("--algorithm", "r-admm", "--answer", "tail"),
    "noisy-gd": ("--algorithm", "noisy-gd", "--json"),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", METHODS)
def test_nothing_but_what_was_released_is_told(name: str, people: str, tmp_path: Path) -> None:
    run = instrumented(tmp_path, people, *METHODS[name], "--no-test", "--no-account")
    told = everything_told(run.folder, run.printed)
    split = SIZES if name == "ipp-joining" else "iid"
    secrets = run.kept | computed_from_records(run.folder, people, split=split)
    for kind, values in secrets.items():
        assert leaks(values, told) == [], kind
        assert leaks(values, run.moved) == [], kind
        assert words_in_bytes(run.folder, values) == [], kind
    # everything that this method has was looked for, and there was something to look through
    expected = {"noise", "losses", "gradients", "rows", "raw rows"}
    expected |= {"sums"} if name == "noisy-gd" else {"minimisers"}
    expected |= {"norms", "gate norms"} if name.startswith("ipp") else set()
    expected |= {"thresholds"} if name == "ipp-held" else set()
    assert {kind for kind, values in secrets.items() if values.size} == expected
    noise = run.kept["noise"]
    assert name == "noisy-gd" or len(np.unique(noise)) == noise.size > 10, "no number is drawn twice"
    assert told.shape[1] > 100

    summary = json.loads((run.folder / "summary.json").read_text())
    assert keys_of(summary) & FORBIDDEN == set()
    assert (run.folder / "metrics.csv").read_text().startswith("round,agent,test_error,releases,bytes_sent\n")
    assert {path.name for path in run.folder.iterdir()} == FILES
    assert set(json.loads((run.folder / "encoding.json").read_text())) == {"features"}
    assert not any(word in run.printed for word in FORBIDDEN)


@pytest.mark.processes
def test_the_search_finds_what_a_simulation_tells(people: str, tmp_path: Path) -> None:
    run = instrumented(tmp_path, people, *METHODS["pp-objective"], "--seed", "1")
    told, figures = everything_told(run.folder, run.printed), computed_from_records(run.folder, people, no_test=False)
    assert min(len(leaks(figures["losses"], where)) for where in (told, run.moved)) > 5
    assert keys_of(json.loads((run.folder / "summary.json").read_text())) >= {"train_loss", "solve"}
    # and still no noise, no row, no minimiser
    for values in (figures["rows"], figures["raw rows"], figures["gradients"], *run.kept.values()):
        assert leaks(values, told) == []


FORMS = {
    "file.jsonl": '{{"a": [1, {{"b": {0!r}}}]}}\n',
    "file.csv": "round,x\n1,{0!r}\n",
    "printed": "loss {0!r}",
    "rounded": "loss {0:.9e}, ",
}


@pytest.mark.parametrize("form", [*FORMS, "file.npz", "file"])
def test_the_search_finds_a_planted_secret(form: str, tmp_path: Path) -> None:
    secrets = np.random.default_rng(9).standard_normal(40)
    value, text = secrets[17].item(), FORMS.get(form, "").format(secrets[17].item())
    if form == "file":
        (tmp_path / form).write_bytes(b"abc" + np.array([value]).tobytes())
        assert words_in_bytes(tmp_path, secrets) == [value]
        return
    if form == "file.npz":
        np.savez(tmp_path / form, x=np.array([0.5, value]))
    elif form.startswith("file"):
        (tmp_path / form).write_text(text)
    told = everything_told(tmp_path, "" if form.startswith("file") else text)
    assert (leaks(secrets, told), leaks(secrets[:17], told)) == ([abs(value)], [])


# a baseline's run folder: every method end to end, seeds, what private runs keep to themselves, real targets

SITES: dict[str, dict[str, Any]] = {
    "sdca": {},
    "dp-scd": {},
    "dp-scd published": {"method": "published"},
    "dp-scd dual noise": {"dual_noise": True, "loss": "hinge"},
    "seq-dp-scd": {"loss": "hinge"},
    "primal-dp-scd published": {"method": "published", "loss": "squared"},
    "sgd": {"loss": "hinge"},
    "dp-sgd": {"accounting": "rdp"},
    "dp-sgd fixed": {"sampling": "fixed"},
    "song-sgd": {},
    "banco": {},
    "banco gaussian": {"noise": "gaussian", "loss": "hinge"},
}
FILES = {"encoding.json", "config.toml", "manifest.json", "summary.json", "metrics.csv", "model.npz", "ledger"}
assert {name.split(" ")[0] for name in SITES} == set(single_sites())


def settings(people: str, out: Path, name: str, **others: Any) -> RunConfig:
    """Of a method above, or of an algorithm."""
    algorithm = name.split(" ")[0]
    given: dict[str, Any] = {"data": people, "epsilon": 8.0, "delta": 1e-3, "seed": 3, "out": str(out)}
    given |= {"epochs": 3} if "epochs" in settings_of(algorithm) and algorithm != "sdca" else {}
    given |= SITES.get(name, {}) | others
    if given["seed"] is None and not given.get("simulate"):
        given |= {"no_test": True, "no_account": True}
    return RunConfig(algorithm=algorithm, **given)


def made(name: str, people: str, out: Path, **others: Any) -> RunResult:
    return run(settings(people, out, name, **others))


@pytest.mark.parametrize("name", SITES)
def test_end_to_end(name: str, people: str, tmp_path: Path) -> None:
    result = made(name, people, tmp_path / "run")
    folder, summary = read_run(tmp_path / "run"), result.summary  # verifies the ledger
    assert msgspec.to_builtins(folder.summary) == summary
    assert {path.name for path in result.folder.iterdir()} == FILES
    (account,), (entry,) = folder.ledgers.values(), summary["per_agent"]
    privacy, algorithm = summary["privacy"], name.split(" ")[0]
    private = algorithm not in ("sdca", "sgd")
    assert (account.finished, len(account.events), account.header["neighbours"]) == (True, 1, [])
    relation = "zero-out" if "dp-scd" in name or name == "dp-sgd" else "replace-one"
    assert account.header["adjacency"] == privacy["adjacency"] == relation
    assert (account.header["preprocessing"] == "data-dependent") == (algorithm == "primal-dp-scd")
    assert (summary["agents"], summary["topology"], summary["transport"]) == (1, None, "local")
    assert (entry["agent"], entry["records"], entry["degree"], summary["bytes_sent"]) == (0, 150, 0, 0)
    figures = [privacy[key] for key in ("epsilon_target", "delta", "epsilon_proven", "epsilon_spent")]
    if private:
        assert figures[:2] == [8.0, 1e-3]
        if algorithm == "primal-dp-scd":  # no figure covers scaled columns
            assert figures[2:] == [None, None]
        else:
            assert figures[3] <= figures[2] * (1.0 + 1e-9)
            assert figures[3] == pytest.approx(account.totals.epsilon_proven(1e-3))
        reached = figures[3] if privacy["accountant"] == "proven" else privacy["epsilon_published"]
        assert reached <= 8.0
        assert reached > 7.9 or name == "dp-sgd"  # calibrated by rdp, and then read by the tighter pld
        assert (privacy["epsilon_published"] is None) == (summary["method"] == "proven")
    else:
        assert (figures, privacy["accountant"]) == ([None] * 4, None)
    with np.load(result.folder / "model.npz", allow_pickle=False) as archive:
        theta, names = archive["theta"], archive["feature_names"]
    assert theta.shape == (1, 5)
    assert theta.any()
    assert list(names) == ["x1", "x2", "x3", "x4", "intercept"]
    data = load(DataSettings(data=people), 1, [0])
    wrong = float(np.mean((data.X_test @ theta[0] > 0) != (data.y_test > 0)))
    assert summary["test_error"]["consensus"] == summary["test_error"]["mean"] == entry["test_error"] == wrong
    lines = rows(result.folder)
    places = [(str(round), agent) for round in range(summary["rounds"]) for agent in ("-1", "0")]
    assert [(row["round"], row["agent"]) for row in lines] == places
    assert float(lines[-1]["test_error"]) == wrong
    assert int(lines[-1]["releases"]) == entry["releases"] == (summary["steps"] if private else summary["rounds"])
    assert float(lines[-1]["train_loss"]) == pytest.approx(summary["train_loss"], rel=1e-9)
    assert all(float(row["objective"]) >= float(row["train_loss"]) for row in lines)
    if algorithm == "sdca":
        assert 0.0 <= summary["baseline"]["diagnostics"]["duality_gap"] <= 1e-6


@pytest.mark.parametrize("name", ["sdca", "dp-scd dual noise", "primal-dp-scd published", "banco"])
def test_the_resolved_settings_give_the_same_bytes(name: str, people: str, tmp_path: Path) -> None:
    first = made(name, people, tmp_path / "one")
    config = load_config(first.folder / "config.toml", {"out": str(tmp_path / "two")})
    assert "auto" not in [getattr(config, key) for key in own_settings(config.algorithm)]
    second = run(config)
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        assert (first.folder / file).read_bytes() == (second.folder / file).read_bytes(), file
    assert (made(name, people, tmp_path / "three", seed=4).theta != first.theta).any()


def test_charges_are_booked_before_anything_is_drawn_and_written_before_it_is_shown(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that dies, too."""
    order, written = list[str](), list[list[str]]()

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **others: Any) -> Any:
            order.append(name)
            return real(*given, **others)

        return noted

    monkeypatch.setattr(Ledger, "book", noting("charge", Ledger.book))
    monkeypatch.setattr(coordinate, "draw_batches", noting("draw", base.draw_batches))

    def shown(event: RoundEvent) -> None:
        lines = (tmp_path / "run/ledger/agent-000.jsonl").read_text().splitlines()
        written.append([json.loads(line)["kind"] for line in lines])

    run(settings(people, tmp_path / "run", "dp-scd"), on_round=shown)
    assert order == ["charge", "draw"]
    assert written == [["header", "event"]] * 3
    with pytest.raises(RunError, match="ran away"):
        made("dp-sgd", people, tmp_path / "died", learning_rate=1e9)
    folder = read_run(tmp_path / "died")
    (account,) = folder.ledgers.values()
    assert (folder.summary, account.finished, len(account.events)) == (None, False, 1)


def test_a_private_run_tells_nothing_but_what_was_released(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, list[float]] = {"dual": [], "noise": [], "steps": []}
    original, noisy = coordinate.DualSteps.model, base.with_noise

    def model(self: Any, progress: Any) -> Any:
        kept["dual"] += progress.dual.tolist()
        return original(self, progress)

    def adding(x: Vector, sigma: float, rng: np.random.Generator) -> Vector:
        result = noisy(x, sigma, rng)
        kept["steps"] += x.tolist()
        kept["noise"] += (result - x).tolist()
        return result

    monkeypatch.setattr(coordinate.DualSteps, "model", model)
    monkeypatch.setattr(coordinate, "with_noise", adding)
    # a clip that cuts nothing: dual variables would else be multiples of a public number
    result = made("dp-scd", people, tmp_path / "run", seed=None, clip=5.0)
    told = everything_told(result.folder, json.dumps(result.summary))
    assert told.shape[1] > 10
    for name, values in kept.items():
        found = np.array(values)
        assert np.count_nonzero(found) > 50, name
        assert (leaks(found, told), words_in_bytes(result.folder, found)) == ([], []), name
    assert {path.name for path in result.folder.iterdir()} == FILES
    assert keys_of(result.summary) & {*FORBIDDEN, "diagnostics"} == set()
    assert (result.folder / "metrics.csv").read_text().startswith("round,agent,test_error,releases,bytes_sent\n")
    assert result.ledgers[0].header["noise"] == "private"
    assert not any("simulation" in note for note in result.summary["notes"])
    again = made("dp-scd", people, tmp_path / "again", seed=None, clip=5.0)
    assert (again.theta != result.theta).all()
    ledgers = [(one.folder / "ledger/agent-000.jsonl").read_bytes() for one in (result, again)]
    assert ledgers[0] == ledgers[1]  # the cost is the same: it depends on public facts alone


def test_what_reads_private_records_is_refused(people: str, tmp_path: Path) -> None:
    scaled: dict[str, Any] = {"seed": None, "normalise": "columns"}
    with pytest.raises(RequestError, match=r"scales columns .* --data-dependent"):
        made("primal-dp-scd published", people, tmp_path / "run", seed=None)
    with pytest.raises(RequestError, match="discovered from the private records"):
        made("dp-scd", people, tmp_path / "run", **scaled)
    assert not (tmp_path / "run").exists()
    assert (made("dp-scd", people, tmp_path / "run", **scaled, data_dependent=True).folder / "encoding.json").is_file()


@pytest.mark.parametrize("algorithm", ["sdca", "dp-scd", "dp-sgd"])
def test_real_targets(algorithm: str, tmp_path: Path) -> None:
    stream = np.random.default_rng(5)
    X = stream.standard_normal((300, 3))
    np.savez(tmp_path / "ages.npz", X=X, y=40.0 + 6.0 * X[:, 0] - 3.0 * X[:, 1] + stream.standard_normal(300))
    given: dict[str, Any] = {"schema": {"targets": [0.0, 100.0], "centre": 40.0}, "epsilon": 100.0}
    config = settings(str(tmp_path / "ages.npz"), tmp_path / "run", algorithm, **given)
    with pytest.raises(RequestError, match=r"loss = 'logistic' does not learn real targets.*take squared"):
        run(config.changed(loss="logistic"))
    result = run(config)
    data = load(DataSettings(data=config.data, schema=config.schema), 1, [0])
    error = float(np.mean((data.X_test @ result.theta[0] - data.y_test) ** 2))
    told = result.summary["test_error"]
    assert result.summary["metric"] == "mean-squared-error"
    assert [told["consensus"], told["root_in_units"]] == pytest.approx([error, 60.0 * math.sqrt(error)], rel=1e-12)
    assert error < 0.6 * float(np.mean(data.y_test**2))  # better than always saying the centre
    read_run(result.folder)


def test_rows_of_few_entries_stay_sparse(tmp_path: Path) -> None:
    stream, width = np.random.default_rng(7), 60
    few, many = tmp_path / "few.svm", tmp_path / "many.svm"
    places = [np.sort(stream.choice(width, 3, replace=False)) + 1 for _ in range(120)]
    few.write_text("".join(f"{1 if one[0] < 16 else -1} {one[0]}:1 {one[1]}:1 {one[2]}:1\n" for one in places))
    many.write_text("1 1:1 2:1\n-1 1:1 3:1\n" * 4)
    assert type(load_whole(DataSettings(data=str(many), features=3), 1, [0]).shards[0][0]) is np.ndarray
    given = DataSettings(data=str(few), features=width)
    sparse: Any = load_whole(given, 1, [0]).shards[0][0]
    assert sparse.format == "csr"
    np.testing.assert_allclose(sparse.toarray(), load(given, 1, [0]).shards[0][0], rtol=1e-15)
    for algorithm in ("dp-scd", "dp-sgd", "sdca"):
        config = settings(str(few), tmp_path / algorithm, algorithm, features=width)
        one, two = run(config), run(config.changed(out=f"{config.out}-dense"), loader=load)
        np.testing.assert_allclose(one.theta, two.theta, rtol=1e-9, atol=1e-12)


def test_a_plan_follows_from_public_facts(people: str) -> None:
    def other(given: DataSettings, agents: int, mine: Any) -> Any:
        assert (agents, list(mine)) == (1, [0])
        data = load(given, agents, mine)
        X, y = data.shards[0]
        return replace(data, shards={0: (np.zeros_like(X), -np.abs(y))})

    config = RunConfig(algorithm="dp-scd", data=people, epsilon=8.0, delta=1e-3, seed=0)
    one, two = (prepare(config, World(), loader).agents[0] for loader in (None, other))
    assert one.charges == two.charges
