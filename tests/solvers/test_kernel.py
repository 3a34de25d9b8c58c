"""The compiled kernel: its bits, made again in numpy; the errors that docs/proofs.md states; and what it refuses."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.solvers import certificate as kernels
from admmnet.solvers.certificate import Compiled, chosen
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Squared
from admmnet.types import Matrix, Vector

from .problems import problem

native: Any = kernels._compiled
built = pytest.mark.skipif(native is None, reason="the compiled kernel is not built here")
LOSSES = (Logistic(), SmoothedHinge(), SmoothedHinge(1e-6), SmoothedHinge(3.7), Huber(0.1), Squared())
UNIT = 2.0**-53


def exponential(x: Vector) -> Vector:
    shifted = x * float.fromhex("0x1.71547652b82fep+0") + 1.5 * 2.0**52
    k = shifted - 1.5 * 2.0**52
    r = (x - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    p = r * (1.0 / math.factorial(13)) + 1.0 / math.factorial(12)
    for degree in range(11, -1, -1):
        p = p * r + 1.0 / math.factorial(degree)
    return np.asarray(p * np.ldexp(1.0, k.astype(int)))


def slopes(loss: Loss, u: Vector, y: Vector) -> Vector:
    if isinstance(loss, Logistic):
        return np.asarray(-(y / (1.0 + exponential(np.clip(y * u, -64.0, 709.0)))))
    return loss.derivative(u, y)


def scores(X: Matrix, theta: Vector) -> Vector:
    whole = X.shape[1] // 8 * 8
    lanes = np.zeros((len(X), 8))
    for j in range(0, whole, 8):
        lanes += X[:, j : j + 8] * theta[j : j + 8]
    a, b, c, d, e, f, g, h = lanes.T
    u = ((a + e) + (c + g)) + ((b + f) + (d + h))
    for j in range(whole, X.shape[1]):
        u = u + X[:, j] * theta[j]
    return np.asarray(u)


def sums(X: Matrix, y: Vector, theta: Vector, loss: Loss, rows: int) -> tuple[Vector, float, Vector]:
    """The kernel's numbers, in its order: rows by fours, of which missing ones weigh nothing."""
    u = scores(X, theta)
    w, total, lanes = slopes(loss, u, y), np.zeros(X.shape[1]), np.zeros(8)
    for start in range(0, len(y), rows):
        part, stop = np.zeros(X.shape[1]), min(start + rows, len(y))
        for i in range(start, stop, 8):
            own = np.zeros(8)
            own[: min(stop - i, 8)] = w[i : min(i + 8, stop)]
            lanes += own * own
            for k in range(0, min(stop - i, 8), 4):
                four = X[np.minimum(np.arange(i + k, i + k + 4), stop - 1)] * own[k : k + 4, None]
                part += (four[0] + four[1]) + (four[2] + four[3])
        total = total + part if start else part
    a, b, c, d, e, f, g, h = lanes
    return total, ((a + e) + (c + g)) + ((b + f) + (d + h)), u


def compiled(loss: Loss, variant: int | None = None) -> Compiled:
    found = Compiled.of("c", loss)
    assert found is not None
    return found if variant is None else found._replace(variant=variant)


def own_slopes(loss: Loss, u: Vector, y: Vector, variant: int) -> Vector:
    """Slopes that the kernel finds: gradients of members with the one record (1)."""
    found, _ = compiled(loss, variant).sums(np.ones((len(u), 1, 1)), y[:, None].copy(), u[:, None], 1)
    return found[:, 0]


variants = pytest.mark.parametrize("variant", range(native.VARIANTS if native is not None else 1))


@built
@variants
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("n", "d", "rows"), [(1, 1, 1), (3, 7, 2), (37, 24, 37), (100, 20, 13), (50, 105, 16), (9, 9, 4)]
)
def test_bits_are_those_of_the_order_on_every_processor(n: int, d: int, rows: int, loss: Loss, variant: int) -> None:
    X, y = problem(n, d)
    X[n // 2 :] *= 2.0 ** -np.arange(n - n // 2)[:, None]
    X[0, d // 2 :] = -0.0
    for size in (0.0, 1.0, -50.0, 1e4):
        theta, left = size * np.cos(np.arange(d)), np.empty(n)
        found, squares = compiled(loss, variant).sums(X, y, theta, rows, scores=left)
        expected, square, u = sums(X, y, theta, loss, rows)
        assert found.tobytes() == expected.tobytes()
        assert squares[0] == square
        assert left.tobytes() == u.tobytes() == compiled(loss, variant).scores(X, theta, np.empty(len(X))).tobytes()


@built
@variants
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_members_of_a_stack_are_as_alone(loss: Loss, variant: int) -> None:
    shards = [problem(n, 21, seed=n) for n in (11, 8, 10, 1)]
    X, y = np.zeros((4, 11, 21)), np.ones((4, 11))
    for i, (rows, labels) in enumerate(shards):
        X[i, : len(labels)], y[i, : len(labels)] = rows, labels
    theta = np.random.default_rng(3).standard_normal((4, 21))
    found, squares = compiled(loss, variant).sums(X, y, theta, 11, counts=np.array([11.0, 8.0, 10.0, 1.0]))
    for i, shard in enumerate(shards):
        alone, square = compiled(loss, variant).sums(*shard, theta[i], 11)
        assert (found[i].tobytes(), squares[i]) == (alone.tobytes(), square[0])


@built
@variants
def test_what_is_no_number_stays_none(variant: int) -> None:
    """As of numpy, whose error state nobody asks: a solve that meets it ends without a certificate."""
    u, y = np.array([np.nan, -np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324]), np.ones(7)
    for loss in LOSSES:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(own_slopes(loss, u, y, variant), loss.derivative(u, y), rtol=1e-15, atol=1e-307)


def test_exp_is_within_the_bound_of_its_proof() -> None:
    """3 units in docs/proofs.md, sec. 10: where it is reduced worst, at random, and near 0; in extended precision."""
    worst = (np.arange(-92, 1023) + 0.5) * math.log(2.0)
    near = np.concatenate([worst + shift for shift in (np.arange(-20, 21) * 2.0**-46)])
    spread = np.concatenate(
        [near, np.linspace(-64.0, 709.0, 700_001), np.random.default_rng(0).uniform(-1, 1, 300_000)]
    )
    x = np.clip(spread, -64.0, 709.0)
    exact = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(exponential(x) - exact) / exact) <= 2 * UNIT
    with localcontext() as context:
        context.prec = 40
        for at in x[::5003].tolist():
            true = Decimal(at).exp()
            assert abs(Decimal(float(exponential(np.array([at]))[0])) - true) <= true * Decimal(2 * UNIT)


@built
@variants
def test_slopes_keep_the_contract_of_losses(variant: int) -> None:
    """At most 8 units of 2^-53, of which the proof uses 5; in extended precision."""
    u = np.concatenate([np.linspace(-720.0, 708.0, 60_001), np.random.default_rng(1).standard_normal(40_000)])
    for label in (-1.0, 1.0):
        y = np.full(len(u), label)
        assert own_slopes(Logistic(), label * u, y, variant).tobytes() == slopes(Logistic(), label * u, y).tobytes()
        exact = -y / (1 + np.exp(u.astype(np.longdouble)))
        assert np.max(np.abs(slopes(Logistic(), label * u, y) - exact) / np.abs(exact)) <= 4 * UNIT
        for loss in LOSSES[1:]:
            assert (
                own_slopes(loss, u[::9].copy(), y[::9].copy(), variant) == loss.derivative(u[::9].copy(), y[::9].copy())
            ).all()


@built
def test_threads_share_nothing() -> None:
    X, y = problem(3000, 50)
    points = np.random.default_rng(2).standard_normal((40, 50))
    rows = 100
    expected = [compiled(Logistic()).sums(X, y, theta, rows)[0].tobytes() for theta in points]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda theta: compiled(Logistic()).sums(X, y, theta, rows)[0].tobytes(), points)
        assert list(found) == expected


@built
def test_arrays_that_do_not_fit_are_refused() -> None:
    X, y, theta = np.ones((6, 4)), np.ones(6), np.ones(4)
    fit: dict[str, Any] = {"variant": 0, "loss": 0, "width": 0.0, "block": 2, "X": X, "theta": theta, "y": y}
    fit |= {"counts": None, "out": np.ones(4), "squares": np.ones(1), "scores": np.ones(6)}
    native.run(*fit.values())
    wrong: list[tuple[str, list[Any]]] = [
        ("X", [X.astype(np.float32), X.astype(">f8"), X.T, X[:, :2], X[0], np.ones((6, 0)), np.ones((0, 4)), None]),
        ("y", [y[:5], y.astype(int), np.ones(12)[::2]]),
        ("theta", [theta[:3], np.ones(5), np.ones(8)[::2], None]),
        ("counts", [np.ones(2), np.ones(1, dtype=int)]),
        ("out", [np.ones(3), np.ones(8)[::2], np.broadcast_to(np.ones(1), 4), b"\0" * 32, None]),
        ("squares", [np.ones(2), np.ones(0), None]),
        ("scores", [np.ones(5), np.ones(7), np.ones(6, dtype=np.float32)]),
        ("variant", [-1, native.VARIANTS]),
        ("loss", [-1, 4]),
        ("block", [0, -1]),
    ]
    changes = [{name: value} for name, values in wrong for value in values]
    for change in (*changes, {"y": None, "scores": None}):
        with pytest.raises((ValueError, TypeError, BufferError)):
            native.run(*(fit | change).values())


def test_what_a_setting_means(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = problem(5, 3)
    monkeypatch.setattr(kernels, "_compiled", type("Built", (), {"VARIANTS": 1}))
    assert [chosen(name) for name in ("auto", "c", "numpy")] == ["c", "c", "numpy"]
    assert Compiled.of("c", Logistic(), X, y) == Compiled(0, 0.0, 0)
    assert Compiled.of("numpy", Logistic(), X, y) is None
    for arrays in ((X.T, y), (X.astype(np.float32), y), (X, y[::2])):
        assert Compiled.of("c", Logistic(), *arrays) is None
    assert Compiled.of("c", type("Own", (Logistic,), {})(), X, y) is None
    monkeypatch.setattr(kernels, "_compiled", None)
    assert [chosen(name) for name in ("auto", "numpy")] == ["numpy", "numpy"]
    with pytest.raises(RequestError, match="not built here: install the package with a C compiler"):
        chosen("c")
