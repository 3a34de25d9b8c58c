"""What a holder takes and refuses: the promises of docs/proofs.md, sec. 1, about every row and label."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from admmnet import RequestError, RunConfig, run
from admmnet.data import Records
from admmnet.holder import Holder, SimulatedHolder
from admmnet.holder.rows import row_slack
from admmnet.running.plan import Plan
from admmnet.solvers.losses import get_loss
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.transport import Transport
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix, Vector

N, D, U = 12, 5, 2.0**-53
KINDS = [Holder, SimulatedHolder]


def rows(n: int = N, d: int = D, seed: int = 0) -> Matrix:
    X = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def labels(n: int = N) -> Vector:
    return np.where(np.arange(n) % 3, 1.0, -1.0)


def with_row(row: int, values: Any) -> Matrix:
    X = rows()
    X[row] = values
    return X


def with_label(value: float, n: int = N) -> Vector:
    y = labels(n)
    y[7] = value
    return y


def of_norm(norm: float, d: int = D) -> Vector:
    row = np.zeros(d)
    row[0] = norm
    return row


# what is refused

SECRET = 0.7351948
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "norm 100": (with_row(3, of_norm(100.0)), labels(), "a row has norm above 1"),
    "norm a little above": (with_row(3, of_norm(1.0 + 1.01e-12)), labels(), "a row has norm above 1"),
    "norm of many": (with_row(3, np.full(D, SECRET)), labels(), "a row has norm above 1"),
    "nan": (with_row(3, np.nan), labels(), "not finite"),
    "inf": (with_row(3, of_norm(-np.inf)), labels(), "not finite"),
    "huge": (with_row(3, of_norm(1e200)), labels(), "not finite or too large"),
    "label nan": (rows(), with_label(np.nan), "not finite"),
    "label inf": (rows(), with_label(np.inf), "not finite"),
    "labels 0 and 1": (rows(), (labels() + 1.0) / 2.0, r"a label is neither -1 nor \+1"),
    "labels 0 and 2": (rows(), labels() + 1.0, r"a label is neither -1 nor \+1"),
    "one label": (rows(), with_label(SECRET), r"a label is neither -1 nor \+1"),
    "fewer labels": (rows(), labels(N - 1), r"got \(12, 5\) and \(11,\)"),
    "labels in a column": (rows(), labels()[:, None], r"got \(12, 5\) and \(12, 1\)"),
    "one row": (rows()[0], labels(1), r"got \(5,\) and \(1,\)"),
    "no row": (np.empty((0, D)), np.empty(0), r"got \(0, 5\)"),
    "no column": (np.empty((N, 0)), labels(), r"got \(12, 0\)"),
    "words": ([["a", "b"], ["c", "d"]], [1.0, -1.0], "the rows are not a table of numbers"),
    "rows of two lengths": ([[0.5], [0.5, 0.1]], [1.0, -1.0], "the rows are not a table of numbers"),
    "labels in words": (rows(2), ["yes", "no"], "the labels are not all numbers"),
}


def as_csr(X: Any) -> Any:
    return sparse.csr_array(np.asarray(X))


NO_SPARSE_TABLE = ("one row", "words", "rows of two lengths")


@pytest.mark.parametrize(
    ("name", "kind"), [*product(REFUSED, KINDS), *((name, "sparse") for name in REFUSED if name not in NO_SPARSE_TABLE)]
)
def test_what_the_theorems_do_not_cover_is_refused(name: str, kind: Any) -> None:
    X, y, told = REFUSED[name]
    if kind == "sparse":
        X, kind = as_csr(X), Holder
    with pytest.raises(RequestError, match=told) as caught:
        kind(X, y)
    assert_tells_nothing(str(caught.value))
    with pytest.raises(RequestError, match=told):
        kind.of([(rows(), labels()), (X, y)], copy=False)


def assert_tells_nothing(message: str) -> None:
    """The only numbers are shapes and the sets that labels may be of."""
    found = {float(word) for word in re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", message)}
    assert found <= {1.0, -1.0, 2.0, 0.0, *map(float, (N, N - 1, D))}
    assert not any(word in message for word in ("yes", "'a'", "nan", "inf", str(SECRET)[:5]))


def test_members_have_one_width() -> None:
    with pytest.raises(RequestError, match="records of different widths"):
        Holder.of([(rows(), labels()), (rows(d=4), labels())])
    with pytest.raises(RequestError, match="the records of one agent at least"):
        Holder.of([])


def test_real_targets_are_finite_and_nothing_else() -> None:
    y = np.linspace(-3.0, 0.5, N)
    assert Holder(rows(), y, task="real").counts == (N,)
    with pytest.raises(RequestError, match="not finite"):
        Holder(rows(), with_label(np.nan), task="real")


# what is taken


@pytest.mark.parametrize("d", [1, D, 3000])
def test_norms_may_exceed_one_by_their_rounding(d: int) -> None:
    slack = row_slack(d)
    assert slack == max(1e-12, 4.0 * d * U)
    assert Holder(of_norm(1.0 + 0.99 * slack, d)[None, :], [1.0]).width == d
    with pytest.raises(RequestError, match="norm above 1"):
        Holder(of_norm(1.0 + 1.01 * slack, d)[None, :], [1.0])


def test_rows_scaled_in_floating_point_are_taken() -> None:
    """What a loader's division leaves: norms within a few units of rounding of 1."""
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((50, 300)) * 10.0**seed
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        assert Holder(X, labels(50)).counts == (50,)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("members", [1, 2])
def test_the_callers_arrays_stay_the_callers(sparse_rows: bool, members: int) -> None:
    X: Any = as_csr(rows()) if sparse_rows else rows()
    y = labels()
    holder = SimulatedHolder.of([(X, y)] * members)
    before = (holder._shards[0][0].data if sparse_rows else holder._shards[0][0]).copy()
    (X.data if sparse_rows else X)[:] = 50.0
    y[:] = 0.5
    kept, targets = holder._shards[members - 1]
    assert np.array_equal(targets, labels())
    if sparse_rows:
        assert np.array_equal(kept.data, before)
        assert not any(part.flags.writeable for part in (kept.data, kept.indices, kept.indptr))
    else:
        assert np.array_equal(kept, before)
        with pytest.raises(ValueError, match="read-only"):
            kept[0, 0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        targets[0] = 0.0


def test_arrays_that_were_given_up_are_frozen() -> None:
    X, y = rows(), labels()
    holder = SimulatedHolder.of([(X, y)], copy=False)
    assert holder._shards[0][0] is X
    assert not X.flags.writeable
    assert not y.flags.writeable


def test_a_holder_shows_counts_and_width_alone() -> None:
    holder = Holder.of([(rows(), labels()), (rows(4), labels(4))])
    assert repr(holder) == str(holder) == "Holder(counts=(12, 4), width=5)"
    assert (len(holder), holder.counts, holder.width) == (2, (12, 4), 5)
    public = {name for name in dir(holder) if not name.startswith("_")}
    settings = {"bounded", "classes", "dependent", "kernel", "task", "unit"}
    prologue = {"encode", "encoding", "numbers", "whiten"}
    assert public == {"counts", "of", "width", *settings, *prologue}, "nothing hands out what was computed from records"


@pytest.mark.parametrize(
    "settings", [{"task": "reel"}, *({"task": "classes", "classes": K} for K in (3.5, 2, math.inf))]
)
def test_tasks_that_there_are_not_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"must be (one of|a whole number)"):
        Holder(rows(), np.zeros(12), **settings)


def test_no_row_is_longer_than_the_bounds_allow_for() -> None:
    assert row_slack(10**9) <= LARGEST_ROW - 1.0


def test_a_holder_has_one_loss() -> None:
    holder = Holder(rows(), labels())
    holder._solver(0, get_loss("logistic"))
    with pytest.raises(RequestError, match="in use with the logistic loss"):
        holder._solver(0, get_loss("huber"))


# whole runs


AGENTS = 5


def loaded(agent: int, X: Matrix, y: Vector) -> Records:
    """Records of five agents, one of which has others than the rest."""
    shards = {i: (rows(40, seed=i), labels(40)) for i in range(AGENTS)}
    shards[agent] = (X, y)
    counts = {i: len(own) for i, (_, own) in shards.items()}
    names = tuple(f"x{k}" for k in range(D))
    return Records("made", shards, counts, rows(10), labels(10), names, "public-bounds")


class Unconnected(LocalWorld):
    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        raise AssertionError("connected before the records were checked")


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    ("X", "y", "told"),
    [
        (100.0 * rows(40), labels(40), "a row has norm above 1"),
        (rows(40), (labels(40) + 1.0) / 2.0, "a label is neither"),
        (rows(40), labels(40) + 1.0, "a label is neither"),
    ],
    ids=["norm 100", "labels 0 and 1", "labels 0 and 2"],
)
def test_a_loaders_records_are_refused_before_anything_happens(
    X: Matrix, y: Vector, told: str, seed: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mode: dict[str, Any] = {"private": True, "no_test": True, "account": "account"} if seed is None else {}
    config = RunConfig(algorithm="pp-admm", seed=seed, out="run", agents=AGENTS, **mode)
    bad = loaded(3, X, y)
    # others hear that it did not start; in a simulation why
    expected = "agent 3 cannot start: its records do not fit the proofs"
    if seed is not None:
        expected = f"the records of agent 3 cannot be used: {told}"
    with pytest.raises(RequestError, match=expected) as caught:
        run(config, loader=lambda *_: bad, world=Unconnected())
    assert list(tmp_path.iterdir()) == []
    message = str(caught.value)
    for value in (*X[:5].ravel(), *X[:5].ravel().round(3)):
        assert f"{abs(value):.4g}"[:5] not in message


@pytest.mark.parametrize("seed", [None, 1])
def test_a_loaders_records_stay_with_it(seed: int | None, tmp_path: Path) -> None:
    """Many runs share what a loader keeps; a private run's holders have copies that nobody else can write to."""
    data, plans = loaded(3, rows(40, seed=3), labels(40)), list[Plan]()
    before = {i: X.copy() for i, (X, _) in data.shards.items()}
    settings: dict[str, Any] = {"algorithm": "pp-admm", "seed": seed, "rounds": 2, "agents": AGENTS}
    settings |= {"private": True, "no_test": True, "no_account": True} if seed is None else {}
    for name in ("one", "two"):
        config = RunConfig(out=str(tmp_path / name), **settings)
        run(config, loader=lambda *_: data, on_start=plans.append)
    assert sorted(data.shards) == list(range(AGENTS))
    for i, (X, y) in data.shards.items():
        assert np.array_equal(X, before[i])
        holder, member = plans[-1].holders[i]
        held = holder._shards[member]
        for mine, theirs in zip(held, (X, y), strict=True):
            assert np.shares_memory(mine, theirs) is (seed is not None)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_losses_of_members_have_the_bits_of_each_alone(kind: Any) -> None:
    shards, loss = [(kind(rows(n, seed=n)), labels(n)) for n in (1, 7, 130, 1000)], get_loss("logistic")
    theta = np.random.default_rng(1).standard_normal((len(shards), D))
    (found,) = SimulatedHolder.of(shards).mean_losses(loss, theta)
    assert found.tolist() == [np.mean(loss.value(X @ row, y)) for (X, y), row in zip(shards, theta, strict=True)]
