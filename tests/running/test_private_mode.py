"""What a private run tells: nothing that was computed from training records and not released."""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.data import DataSettings, load
from admmnet.holder.known import Known
from admmnet.holder.measurements import GradientSum, HeldFall, minimiser, sums
from admmnet.holder.secrets import Secret
from admmnet.privacy.discrete import discrete_rows
from admmnet.privacy.mechanisms import clipped_gaussian_rows
from admmnet.rng import Purpose
from admmnet.solvers.ball_query import BallQuery
from admmnet.solvers.certificate import AnySolver, Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.transport import Inbox, Outgoing, Trees
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Integers, Matrix, Total, Vector
from tests.processes.launch import DEADLINE
from tests.processes.warm import FORKS

FORBIDDEN = {"train_loss", "objective", "consensus_gap", "solve"}
DIGITS = 9
"""Numbers told with fewer digits are not held to be a secret's: too many agree by chance."""


# the run that is watched


def main(secrets: Path, *words: str) -> None:
    """Run the command line in a process of its own; keep every secret, and what is printed, beside each other."""
    kept: dict[str, list[float]] = {
        kind: [] for kind in ("minimisers", "noise", "falls", "thresholds", "sums", "norms")
    }
    solve, asks = LocalSolver.solve, BallQuery.ask
    gaussian, laplace, gamma_norm = Secret.gaussian, Secret.laplace, Secret.gamma_norm
    carry_out, data_gradient = HeldFall.carry_out, LocalSolver.data_gradient

    def solving(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        solution = solve(self, g, m, beta)
        kept["minimisers"] += solution.theta.tolist()
        return solution

    def asking(self: BallQuery, center: Vector) -> float:
        kept["falls"].append(asks(self, center))
        return kept["falls"][-1]

    def drawing(self: Secret, purpose: Purpose, sigma: float, size: int) -> Vector:
        drawn = gaussian(self, purpose, sigma, size)
        kept["noise"] += drawn.tolist()
        return drawn

    def drawing_a_norm(self: Secret, purpose: Purpose, rate: float, size: int) -> Vector:
        drawn = gamma_norm(self, purpose, rate, size)
        kept["noise"] += [*drawn.tolist(), float(np.linalg.norm(drawn))]
        return drawn

    def drawing_one(self: Secret, purpose: Purpose, scale: float) -> float:
        kept["noise"].append(laplace(self, purpose, scale))
        return kept["noise"][-1]

    def asking_on(self: HeldFall, secret: Secret, known: Known) -> bool:
        answer = carry_out(self, secret, known)
        if self.key in secret.kept:
            kept["thresholds"].append(secret.kept[self.key])
        return answer

    def differentiating(self: AnySolver, theta: Vector) -> Vector:
        found = data_gradient(self, theta)
        kept["norms"] += [*found.tolist(), float(np.linalg.norm(found))]
        return found

    def drawing_integers(rngs: Sequence[np.random.Generator], s: float, size: int) -> Integers:
        drawn = discrete_rows(rngs, s, size)
        kept["noise"] += drawn.ravel().tolist()
        return drawn

    def drawing_rows(rngs: Sequence[np.random.Generator], sigma: float, size: int) -> Matrix:
        drawn = clipped_gaussian_rows(rngs, sigma, size)
        kept["noise"] += drawn.ravel().tolist()
        return drawn

    def summing(self: GradientSum, secrets: Sequence[Secret], known: Known) -> Matrix:
        found = gradient_sums(self, secrets, known)
        kept["sums"] += [*found.ravel().tolist(), *np.rint(found / self.grid).ravel().tolist()]
        return found

    sums.__dict__["discrete_rows"] = drawing_integers
    minimiser.__dict__["clipped_gaussian_rows"] = drawing_rows
    gradient_sums, GradientSum.totals = GradientSum.totals, summing  # type: ignore[method-assign]
    LocalSolver.data_gradient = differentiating  # type: ignore[method-assign]
    LocalSolver.solve = solving  # type: ignore[method-assign]
    BallQuery.ask = asking  # type: ignore[method-assign]
    Secret.gaussian, Secret.laplace = drawing, drawing_one  # type: ignore[method-assign]
    Secret.gamma_norm = drawing_a_norm  # type: ignore[method-assign]
    HeldFall.carry_out = asking_on  # type: ignore[method-assign]
    moved = watch_transport()
    with secrets.with_suffix(".txt").open("w") as out, redirect_stdout(out), redirect_stderr(out):
        code = run_command_line(words)
    secrets.write_text(json.dumps({"kept": kept, "moved": moved}))
    sys.exit(code)


def watch_transport() -> list[float]:
    """Every number that goes from one agent to another or to the process that writes, as it would over MPI."""
    moved: list[float] = []
    exchange, collect, gather = LocalTransport.exchange, LocalTransport.collect, LocalWorld.gather
    reduce = LocalTransport.reduce

    def exchanging(self: LocalTransport, outgoing: Outgoing, round: int) -> Inbox:
        for vector in outgoing.values():
            moved.extend([] if vector is None else vector.tolist())
        return exchange(self, outgoing, round)

    def reducing(
        self: LocalTransport, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int
    ) -> Total | None:
        for vector in outgoing.values():
            moved.extend([] if vector is None else vector.astype(float).tolist())
        return reduce(self, outgoing, trees, round, size)

    def collecting(self: LocalTransport, rows: Matrix) -> Matrix:
        moved.extend(rows.ravel().tolist())
        return collect(self, rows)

    def gathering(self: LocalWorld, value: Any, topic: str = "ready") -> list[Any]:
        moved.extend(numbers(value))
        return gather(self, value, topic)

    LocalTransport.exchange = exchanging  # type: ignore[method-assign]
    LocalTransport.reduce = reducing  # type: ignore[method-assign]
    LocalTransport.collect = collecting  # type: ignore[method-assign]
    LocalWorld.gather = gathering  # type: ignore[method-assign]
    return moved


# the search


class Told(NamedTuple):
    """Numbers that somebody can read: those of full precision, and those written with fewer digits."""

    full: Vector
    written: dict[int, set[float]]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


def digits_of(text: str) -> int:
    mantissa = re.split("[eE]", text)[0]
    return len(mantissa.replace(".", "").lstrip("+-0"))


def everything_told(folder: Path, printed: str) -> Told:
    full: list[float] = []
    written: dict[int, set[float]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                for name in archive.files:
                    if archive[name].dtype.kind == "f":
                        full += archive[name].astype(float).ravel().tolist()
            continue
        text = data.decode()
        if path.suffix == ".jsonl":
            full += [value for line in text.splitlines() for value in numbers(json.loads(line))]
        elif path.suffix == ".json":
            full += numbers(json.loads(text))
        elif path.suffix == ".toml":
            full += numbers(tomllib.loads(text))
        else:
            printed += "\n" + text
    for word in NUMBER.findall(printed):
        value = float(word)
        if digits_of(word) >= DIGITS and math.isfinite(value):
            written.setdefault(min(digits_of(word), 17), set()).add(value)
    return Told(np.sort(np.abs(np.array(full, dtype=float))), written)


def leaks(secrets: Vector, told: Told) -> list[float]:
    """Secrets among what is told: numbers of full precision to 1e-13, others to the digits they have.

    With some 1e3 numbers of each kind of either, the chance of a false alarm is below 1e-6.
    """
    secrets = np.abs(secrets[np.isfinite(secrets) & (secrets != 0.0)])
    found = [value for value in secrets.tolist() if _near(value, told.full)]
    for digits, values in told.written.items():
        found += [value for value in secrets.tolist() if float(f"{value:.{digits - 1}e}") in values]
        found += [value for value in secrets.tolist() if -float(f"{value:.{digits - 1}e}") in values]
    return found


def _near(value: float, sorted_: Vector) -> bool:
    index = int(np.searchsorted(sorted_, value * (1.0 - 1e-13)))
    return index < len(sorted_) and bool(sorted_[index] <= value * (1.0 + 1e-13))


def words_in_bytes(folder: Path, secrets: Vector) -> list[float]:
    """Secrets whose eight bytes stand somewhere in a file, in either order."""
    data = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        value
        for value in secrets.tolist()
        if value != 0.0 and any(np.array([value], dtype=kind).tobytes() in data for kind in ("<f8", ">f8"))
    ]


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(item) for item in value.values()))
    return set().union(*(keys_of(item) for item in value)) if isinstance(value, list) else set()


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
    moved: Told


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
    return Run(out, printed, kept, Told(np.sort(np.abs(np.array(found["moved"]))), {}))


SIZES = "sizes:16:1:16:1:18"
METHODS = {
    "pp-objective": ("--algorithm", "pp-admm"),
    "pp-output": ("--algorithm", "pp-admm", "--release", "output"),
    "ipp-held": ("--gate", "above-threshold", "--gate-share", "0.5", "--gate-threshold", "0.3"),
    "ipp-gaussian": ("--gate", "gaussian", "--gate-share", "0.5", "--gate-threshold", "0.3", "--json"),
    # a core of 0, 2 and 4; 1 or 3 passes on what it hears, both are asked
    "ipp-joining": ("--split", SIZES, "--gate-threshold", "0.25"),
    "dvp": ("--algorithm", "dvp"),
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
    expected |= {"norms"} if name == "ipp-joining" else {"falls"} if name.startswith("ipp") else set()
    expected |= {"thresholds"} if name == "ipp-held" else set()
    assert {kind for kind, values in secrets.items() if values.size} == expected
    assert len(told.full) > 200

    summary = json.loads((run.folder / "summary.json").read_text())
    assert keys_of(summary) & FORBIDDEN == set()
    header = (run.folder / "metrics.csv").read_text().splitlines()[0].split(",")
    assert header == ["round", "agent", "test_error", "releases", "bytes_sent"]
    files = {path.name for path in run.folder.iterdir()}
    assert files == {
        *("config.toml", "encoding.json", "manifest.json", "summary.json", "metrics.csv", "model.npz", "ledger")
    }
    assert set(json.loads((run.folder / "encoding.json").read_text())) == {"features"}
    assert not any(word in run.printed for word in FORBIDDEN)


@pytest.mark.processes
def test_the_search_finds_what_a_simulation_tells(people: str, tmp_path: Path) -> None:
    run = instrumented(tmp_path, people, *METHODS["pp-objective"], "--seed", "1")
    told = everything_told(run.folder, run.printed)
    figures = computed_from_records(run.folder, people, no_test=False)
    assert len(leaks(figures["losses"], told)) > 5
    assert len(leaks(figures["losses"], run.moved)) > 5
    summary = json.loads((run.folder / "summary.json").read_text())
    assert keys_of(summary) >= {"train_loss", "solve"}
    # and still no noise, no row, no minimiser
    for kind in ("rows", "raw rows", "gradients"):
        assert leaks(figures[kind], told) == []
    for values in run.kept.values():
        assert leaks(values, told) == []


@pytest.mark.parametrize("form", ["json", "jsonl", "toml", "csv", "npz", "bytes", "printed", "rounded"])
def test_the_search_finds_a_planted_secret(form: str, tmp_path: Path) -> None:
    secrets = np.random.default_rng(9).standard_normal(40)
    value = secrets[17].item()
    printed, path = "", tmp_path / f"file.{form}"
    if form in ("json", "jsonl"):
        path.write_text(json.dumps({"a": [1, {"b": value}]}) + "\n")
    elif form == "toml":
        path.write_text(f"[a]\nb = {value!r}\n")
    elif form == "csv":
        path.write_text(f"round,x\n1,{value!r}\n")
    elif form == "npz":
        np.savez(path, x=np.array([0.5, value]))
    elif form == "bytes":
        path.write_bytes(b"abc" + np.array([value]).tobytes())
        assert words_in_bytes(tmp_path, secrets) == [value]
        return
    else:
        printed = f"loss {value!r}" if form == "printed" else f"loss {value:.9e}, "
    told = everything_told(tmp_path, printed)
    assert leaks(secrets, told) == [abs(value)]
    assert leaks(secrets[:17], told) == []


def test_noise_differs_between_runs(people: str, tmp_path: Path) -> None:
    for words in (METHODS["ipp-held"], METHODS["dvp"]):
        kept, models = [], []
        for number in (0, 1):
            folder = tmp_path / f"{words[-1]}{number}"
            folder.mkdir()
            run = instrumented(folder, people, *words, "--no-test", "--no-account")
            kept.append(run.kept["noise"])
            with np.load(run.folder / "model.npz") as archive:
                models.append(archive["theta"])
        assert np.intersect1d(kept[0], kept[1]).size == 0
        assert min(one.size for one in kept) > 10
        spoke = models[0].any(axis=1) & models[1].any(axis=1)
        assert spoke.any()
        assert (models[0] != models[1])[spoke].all()
        assert len(np.unique(kept[0])) == kept[0].size, "no number is drawn twice"
