"""What a holder takes and refuses: the promises of docs/proofs.md, sec. 1, about every row and label."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from admmnet import RequestError, RunConfig, run
from admmnet.data import Records
from admmnet.holder import Holder, SimulatedHolder
from admmnet.holder.holder import Secret
from admmnet.holder.problem import row_slack
from admmnet.running.plan import Plan
from admmnet.solvers.certificate import MANY, WIDE
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import WideSolver
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.transport import Transport, World
from admmnet.types import Matrix, Vector

N, D, SECRET = 12, 5, 0.7351948


def rows(n: int = N, d: int = D, seed: int = 0) -> Matrix:
    X = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def labels(n: int = N) -> Vector:
    return np.where(np.arange(n) % 3, 1.0, -1.0)


def with_row(values: Any) -> Matrix:
    X = rows()
    X[3] = values
    return X


def with_label(value: float) -> Vector:
    y = labels()
    y[7] = value
    return y


def of_norm(norm: float, d: int = D) -> Vector:
    return np.asarray([norm, *np.zeros(d - 1)])


# what is refused

PARTS: dict[str, Any] = {"task": "classes", "classes": 4}
REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "norm 100": (with_row(of_norm(100.0)), labels(), {}, "a row has norm above 1"),
    "norm of many": (with_row(np.full(D, SECRET)), labels(), {}, "a row has norm above 1"),
    "nan": (with_row(np.nan), labels(), {}, "not finite"),
    "inf": (with_row(of_norm(-np.inf)), labels(), {}, "not finite"),
    "huge": (with_row(of_norm(1e200)), labels(), {}, "not finite or too large"),
    "short": (with_row(of_norm(0.5)), labels(), {"unit": True}, "norm below 1"),
    "label nan": (rows(), with_label(np.nan), {}, "not finite"),
    "target inf": (rows(), with_label(np.inf), {"task": "real"}, "not finite"),
    "one label": (rows(), with_label(SECRET), {}, r"a label is neither -1 nor \+1"),
    "target": (rows(), with_label(1.0 + 1e-9), {"task": "real", "bounded": True}, "a target is above 1 in size"),
    "class 4": (rows(), np.abs(with_label(4.0)), PARTS, r"none of 0, 1, \.\.\., 3"),
    "class -1": (rows(), labels(), PARTS, r"none of 0, 1, \.\.\., 3"),
    "class 1.5": (rows(), np.abs(with_label(1.5)), PARTS, r"none of 0, 1, \.\.\., 3"),
    "fewer labels": (rows(), labels(N - 1), {}, r"got \(12, 5\) and \(11,\)"),
    "labels in a column": (rows(), labels()[:, None], {}, r"got \(12, 5\) and \(12, 1\)"),
    "one row": (rows()[0], labels(1), {}, r"got \(5,\) and \(1,\)"),
    "no row": (np.empty((0, D)), np.empty(0), {}, r"got \(0, 5\)"),
    "no column": (np.empty((N, 0)), labels(), {}, r"got \(12, 0\)"),
    "words": ([["a", "b"], ["c", "d"]], [1.0, -1.0], {}, "the rows are not a table of numbers"),
    "rows of two lengths": ([[0.5], [0.5, 0.1]], [1.0, -1.0], {}, "the rows are not a table of numbers"),
    "labels in words": (rows(2), ["yes", "no"], {}, "the labels are not all numbers"),
}
NO_SPARSE_TABLE = ("one row", "words", "rows of two lengths")


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_theorems_do_not_cover_is_refused(name: str) -> None:
    """The only numbers that are told are shapes and the sets that labels may be of."""
    X, y, kind, told = REFUSED[name]
    good = np.full(N, 1.0) if "classes" in kind else labels()
    for table in (X,) if name in NO_SPARSE_TABLE else (X, sparse.csr_array(np.asarray(X))):
        with pytest.raises(RequestError, match=told) as caught:
            Holder(table, y, **kind)
        with pytest.raises(RequestError, match=told):
            SimulatedHolder.of([(rows(), good), (table, y)], copy=False, **kind)
        said = str(caught.value)
        found = {float(word) for word in re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", said)}
        assert found <= {1.0, -1.0, 2.0, 3.0, 0.0, *map(float, (N, N - 1, D))}
        assert not any(word in said for word in ("yes", "'a'", "nan", "inf", str(SECRET)[:5]))


def test_members_have_one_width_and_one_loss() -> None:
    with pytest.raises(RequestError, match="records of different widths"):
        Holder.of([(rows(), labels()), (rows(d=4), labels())])
    with pytest.raises(RequestError, match="the records of one agent at least"):
        Holder.of([])
    holder = Holder(rows(), labels())
    assert Secret(holder, 0, get_loss("logistic"), {}, None).solver
    with pytest.raises(RequestError, match="in use with the logistic loss"):
        assert Secret(holder, 0, get_loss("huber"), {}, None).solver


@pytest.mark.parametrize(
    "settings", [{"task": "reel"}, *({"task": "classes", "classes": K} for K in (3.5, 2, math.inf))]
)
def test_tasks_that_there_are_not_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"must be (one of|a whole number)"):
        Holder(rows(), np.zeros(12), **settings)
    plain = Holder(rows(), labels())
    assert (plain.task, plain.classes, plain.bounded, plain.unit, plain.dependent) == ("binary", 2, False, False, False)


# what is taken


@pytest.mark.parametrize("d", [1, D, 3000])
def test_norms_may_exceed_one_by_their_rounding(d: int) -> None:
    slack = row_slack(d)
    assert slack == max(1e-12, 4.0 * d * 2.0**-53)
    assert Holder(of_norm(1.0 + 0.99 * slack, d)[None, :], [1.0]).width == d
    with pytest.raises(RequestError, match="norm above 1"):
        Holder(of_norm(1.0 + 1.01 * slack, d)[None, :], [1.0])
    assert row_slack(10**9) <= LARGEST_ROW - 1.0, "no row is longer than the bounds allow for"
    assert Holder([of_norm(1.0 - 0.99 * slack, d), np.zeros(d)], [1.0, 1.0], unit=True).unit, "absent rows are zeros"
    X = np.random.default_rng(d).standard_normal((50, d)) * 10.0 ** np.arange(50)[:, None]
    assert Holder(X / np.linalg.norm(X, axis=1, keepdims=True), labels(50), unit=True).counts == (50,)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_the_callers_arrays_stay_the_callers(sparse_rows: bool) -> None:
    X: Any = sparse.csr_array(rows()) if sparse_rows else rows()
    y = labels()
    holder = SimulatedHolder.of([(X, y)] * 2)
    (X.data if sparse_rows else X)[:] = 50.0
    y[:] = 0.5
    kept, targets = holder._shards[1]
    assert np.array_equal(kept.toarray() if sparse_rows else kept, rows())
    assert np.array_equal(targets, labels())
    parts = (kept.data, kept.indices, kept.indptr) if sparse_rows else (kept,)
    assert not any(part.flags.writeable for part in (*parts, targets))


def test_arrays_that_were_given_up_are_frozen() -> None:
    X, y = rows(), labels()
    holder = SimulatedHolder.of([(X, y)], copy=False)
    assert holder._shards[0][0] is X
    assert not X.flags.writeable
    assert not y.flags.writeable


def test_entries_of_a_sparse_table_that_stand_twice_are_added_in_a_copy() -> None:
    matrix = sparse.csr_matrix((np.array([0.5, 0.4]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    held = SimulatedHolder(matrix, [1.0])._shards[0][0]
    np.testing.assert_allclose(held.toarray(), [[0.0, 0.9, 0.0]])
    assert matrix.nnz == 2


def test_a_holder_shows_counts_and_width_alone() -> None:
    holder = Holder.of([(rows(), labels()), (rows(4), labels(4))])
    assert repr(holder) == str(holder) == "Holder(counts=(12, 4), width=5)"
    assert (len(holder), holder.counts, holder.width) == (2, (12, 4), 5)
    public = {name for name in dir(holder) if not name.startswith("_")}
    settings = {"bounded", "classes", "dependent", "kernel", "task", "unit"}
    prologue = {"encode", "encoding", "numbers", "whiten"}
    assert public == {"counts", "of", "width", *settings, *prologue}, "nothing hands out what was computed from records"


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("n", "d", "wide"),
    [(MANY // 2, MANY, True), (MANY // 2 + 1, MANY, False), (1, MANY - 1, False), (WIDE // 2 + 1, WIDE, True)],
)
def test_public_numbers_decide_how_is_solved_and_never_how_many_entries_are_zero(
    kind: Any, n: int, d: int, wide: bool
) -> None:
    solver = Secret(Holder(kind(np.eye(n, d)), labels(n)), 0, get_loss("logistic"), {}, None).solver
    assert isinstance(solver, WideSolver) is wide
    assert d == WIDE or type(solver.X) is np.ndarray


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_losses_of_members_have_the_bits_of_each_alone(kind: Any) -> None:
    shards, loss = [(kind(rows(n, seed=n)), labels(n)) for n in (1, 7, 130, 1000)], get_loss("logistic")
    theta = np.random.default_rng(1).standard_normal((len(shards), D))
    (found,) = SimulatedHolder.of(shards).mean_losses(loss, theta)
    assert found.tolist() == [np.mean(loss.value(X @ row, y)) for (X, y), row in zip(shards, theta, strict=True)]


# whole runs

AGENTS = 5


def loaded(X: Matrix, y: Vector) -> Records:
    """Records of five agents, one of which has others than the rest."""
    shards = {i: (rows(40, seed=i), labels(40)) for i in range(AGENTS)} | {3: (X, y)}
    counts = {i: len(own) for i, (_, own) in shards.items()}
    names = tuple(f"x{k}" for k in range(D))
    return Records("made", shards, counts, rows(10), labels(10), names, "public-bounds")


class Unconnected(World):
    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        raise AssertionError("connected before the records were checked")


@pytest.mark.parametrize("seed", [None, 1])
def test_a_loaders_records_are_refused_before_anything_happens(
    seed: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others hear that it did not start; in a simulation why."""
    monkeypatch.chdir(tmp_path)
    mode: dict[str, Any] = {"private": True, "no_test": True, "account": "account"} if seed is None else {}
    config = RunConfig(algorithm="pp-admm", seed=seed, out="run", agents=AGENTS, **mode)
    X = 100.0 * rows(40)
    told = "agent 3 cannot start: its records do not fit the proofs"
    told = told if seed is None else "the records of agent 3 cannot be used: a row has norm above 1"
    with pytest.raises(RequestError, match=told) as caught:
        run(config, loader=lambda *_: loaded(X, labels(40)), world=Unconnected())
    assert list(tmp_path.iterdir()) == []
    assert not any(f"{abs(value):.4g}"[:5] in str(caught.value) for value in X.ravel())


@pytest.mark.parametrize("seed", [None, 1])
def test_a_loaders_records_stay_with_it(seed: int | None, tmp_path: Path) -> None:
    """Many runs share what a loader keeps; a private run's holders have copies that nobody else can write to."""
    data, plans = loaded(rows(40, seed=3), labels(40)), list[Plan]()
    before = {i: X.copy() for i, (X, _) in data.shards.items()}
    settings: dict[str, Any] = {"algorithm": "pp-admm", "seed": seed, "rounds": 2, "agents": AGENTS}
    settings |= {"private": True, "no_test": True, "no_account": True} if seed is None else {}
    for name in ("one", "two"):
        run(RunConfig(out=str(tmp_path / name), **settings), loader=lambda *_: data, on_start=plans.append)
    for i, (X, y) in data.shards.items():
        assert np.array_equal(X, before[i])
        holder, member = plans[-1].holders[i]
        for mine, theirs in zip(holder._shards[member], (X, y), strict=True):
            assert np.shares_memory(mine, theirs) is (seed is not None)
