"""What a private run tells: nothing that was computed from training records and not released."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.data import DataSettings, load
from admmnet.holder.known import Known
from admmnet.holder.measurements import GradientNorm, GradientSum, HeldNorm, minimiser, sums
from admmnet.holder.secrets import Secret
from admmnet.solvers.newton import LocalSolver
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Vector
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
        return [secret.kept[own.key]] if own.key in secret.kept else []

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

    def vectors(outgoing: Mapping[int, Any]) -> Iterator[float]:
        for vector in outgoing.values():
            yield from [] if vector is None else vector.astype(float).tolist()

    watch(LocalTransport, "exchange", vectors)
    watch(LocalTransport, "reduce", vectors)
    watch(LocalTransport, "collect", lambda rows: rows.ravel().tolist())
    watch(LocalWorld, "gather", numbers)
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
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                full += [x for one in archive.values() if one.dtype.kind == "f" for x in one.astype(float).ravel()]
        else:
            printed += "\n" + path.read_text()
    for word in NUMBER.findall(printed):
        value, digits = float(word), digits_of(word)
        if digits >= DIGITS and math.isfinite(value):
            full += [value] * (digits > 14)
            written.setdefault(digits, set()).update([value] * (digits <= 14))
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
    assert len(told.full) > 100

    summary = json.loads((run.folder / "summary.json").read_text())
    assert keys_of(summary) & FORBIDDEN == set()
    assert (run.folder / "metrics.csv").read_text().startswith("round,agent,test_error,releases,bytes_sent\n")
    files = {"config.toml", "encoding.json", "manifest.json", "summary.json", "metrics.csv", "model.npz", "ledger"}
    assert {path.name for path in run.folder.iterdir()} == files
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


FORMS = {
    "file.jsonl": '{{"a": [1, {{"b": {0!r}}}]}}\n',
    "file.toml": "[a]\nb = {0!r}\n",
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
    assert leaks(secrets, told) == [abs(value)]
    assert leaks(secrets[:17], told) == []
