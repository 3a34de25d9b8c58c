"""The baselines in plain NumPy, record by record, from the equations of docs/methods.md.

Nothing is shared with the package. Random numbers are asked for in the documented order. Each series yields (what a
step releases, what it keeps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from admmnet.types import Matrix, Vector

Rng = np.random.Generator


class Data(NamedTuple):
    X: Matrix
    y: Vector
    kind: str
    lam: float


class Settings(NamedTuple):
    batch: int = 1
    clip: float = math.inf
    noise_multiplier: float = 0.0
    steps: int = 1
    epochs: int = 1
    sampling: str = "poisson"
    logistic_margin: float = 0.01
    dual_noise: bool = False
    learning_rate: float = 1.0
    epsilon: Any = None
    sigma: float | None = None
    constant: str = "tight"
    schedule: str = "sqrt"
    scale: float = 1.0


Steps = Iterator[tuple[Vector, Vector]]


def grid(values: Vector, sigma: float) -> Vector:
    """Round to multiples of the largest power of two up to sigma 2^-20."""
    step = 2.0 ** (math.floor(math.log2(sigma)) - 20)
    return np.asarray(np.round(values / step) * step)


def noisy(values: Vector, sigma: float, rng: Rng) -> Vector:
    return grid(values + sigma * rng.standard_normal(len(values)), sigma) if sigma else values


def batches(sampling: str, n: int, size: int, steps: int, rng: Rng, ordered: bool = False) -> Iterator[list[int]]:
    order: list[int] = []
    for _ in range(steps):
        if sampling == "poisson":
            count = int(rng.binomial(n, size / n))
            yield sorted(rng.choice(n, count, replace=False, shuffle=False).tolist())
        elif sampling == "fixed" and ordered:
            yield rng.choice(n, size, replace=False, shuffle=True).tolist()
        elif sampling == "fixed":
            yield sorted(rng.choice(n, size, replace=False, shuffle=False).tolist())
        else:
            order = order or rng.permutation(n).tolist()
            yield order[:size]
            order = order[size:]


def step(kind: str, alpha: float, y: float, x: Vector, v: Vector, scale: float, L: float, tiny: float) -> float:
    """(43), (44), (46): zeta of one record before it is scaled; `scale` is lambda N."""
    score, weight = float(x @ v) / scale, L * float(x @ x) / scale
    if kind == "squared":
        return (y - alpha - score) / (1.0 + weight)
    if kind == "hinge":
        p = min(max(y * alpha, 0.0), 1.0)
        if weight == 0.0:  # the limit: nothing but the conjugate is left, which is least at 1
            return y * (1.0 - p)
        return y * min(max(p + (1.0 - y * score) / weight, 0.0), 1.0) - y * p
    p = min(max(y * alpha, tiny), 1.0 - tiny)
    return -(y * math.log(p / (1.0 - p)) + score) / (1.0 / (p * (1.0 - p)) + weight)


def shortened(zeta: Any, C: float) -> Any:
    """(47)."""
    return zeta / np.maximum(1.0, np.abs(zeta) / C)


def dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(48), (49): yield (v, alpha) after each step; an absent record takes none."""
    X, y, kind, lam = data
    n, scale = len(X), lam * len(X)
    sigma = s.noise_multiplier and s.noise_multiplier * s.clip * (math.sqrt(2.0) if s.dual_noise else 1.0)
    alpha, v = np.zeros(n), np.zeros(X.shape[1])
    for batch in batches(s.sampling, n, s.batch, s.steps, batch_rng):
        found = [step(kind, alpha[j], y[j], X[j], v, scale, s.batch, s.logistic_margin) * X[j].any() for j in batch]
        zeta = shortened(np.array(found), s.clip)
        total = zeta @ X[batch]
        alpha[batch] += noisy(zeta, sigma, noise_rng) if s.dual_noise else zeta
        v = v + noisy(total, sigma, noise_rng)
        yield v, alpha


def seq_dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(50): yield (v, alpha) after each step."""
    X, y, kind, lam = data
    n, scale = len(X), lam * len(X)
    sigma = s.noise_multiplier * 2.0 * s.clip * math.sqrt(s.batch * (s.batch + 1))
    alpha, v = np.zeros(n), np.zeros(X.shape[1])
    for batch in batches(s.sampling, n, s.batch, s.steps, batch_rng, ordered=True):
        zeta, start = np.zeros(len(batch)), v
        for k, j in enumerate(batch):
            if X[j].any():
                zeta[k] = shortened(step(kind, alpha[j], y[j], X[j], v, scale, 1, s.logistic_margin), s.clip)
            v = v + zeta[k] * X[j]
        alpha[batch] += noisy(zeta, sigma, noise_rng)
        v = start + noisy(v - start, sigma, noise_rng)
        yield v, alpha


def slope(kind: str, score: Any, y: Any) -> Any:
    if kind == "squared":
        return score - y
    return np.where(y * score < 1.0, -y, 0.0) if kind == "hinge" else -y / (1.0 + np.exp(y * score))


def primal_dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(51), (52): yield (theta, v) after each step."""
    X, y, kind, lam = data
    n, d = X.shape
    sigma = s.noise_multiplier and s.noise_multiplier * 2.0 * s.clip * math.sqrt(s.batch * (s.batch + 1))
    bend = 1.0 if kind == "squared" else 0.25
    theta, v = np.zeros(d), np.zeros(n)
    for batch in batches("fixed", d, s.batch, s.steps, batch_rng):
        columns = X[:, batch]
        gradient = slope(kind, v, y) @ columns / n + lam * theta[batch]
        zeta = shortened(-gradient / (s.batch * bend * np.sum(columns**2, axis=0) / n + lam), s.clip)
        theta[batch] += noisy(zeta, sigma, noise_rng)
        v = v + noisy(columns @ zeta, sigma, noise_rng)
        yield theta.copy(), v


def gradient_batches(s: Settings, n: int, rng: Rng) -> Iterator[list[int]]:
    """Yield batches; single records without noise or clip are drawn an epoch at a time."""
    if s.batch > 1 or s.clip < math.inf:
        yield from batches(s.sampling, n, s.batch, s.steps, rng)
        return
    for start in range(0, s.steps, n):
        size = min(n, s.steps - start)
        order = rng.permutation(n)[:size] if s.sampling == "shuffled" else rng.integers(n, size=size)
        yield from ([int(i)] for i in order)


def dp_sgd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(53), (54): yield theta after each step; gradients record by record, clipped as vectors."""
    X, y, kind, lam = data
    theta = np.zeros(X.shape[1])
    for batch in gradient_batches(s, len(X), batch_rng):
        total = np.zeros(len(theta))
        for j in batch:
            gradient = slope(kind, float(X[j] @ theta), y[j]) * X[j]
            total += gradient / max(1.0, float(np.linalg.norm(gradient)) / s.clip)
        total = noisy(total, s.noise_multiplier * s.clip if s.noise_multiplier else 0.0, noise_rng)
        theta = theta - s.learning_rate * (total / s.batch + lam * theta)
        yield theta, theta


def k_noise(values: Vector, rate: float, rng: Rng) -> Vector:
    """Add noise of density exp(-rate ||z||): radius first, then direction."""
    radius = float(rng.standard_gamma(len(values))) / rate
    direction = rng.standard_normal(len(values))
    return grid(values + radius * direction / float(np.linalg.norm(direction)), 1.0 / rate)


def song_sgd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(55), (56): yield w after each step."""
    X, y, kind, lam = data
    epsilon = np.broadcast_to(np.asarray(s.epsilon, dtype=float), len(X)).tolist()
    w, drawn, parts = np.zeros(X.shape[1]), batch_rng.permutation(len(X)).tolist(), []
    for alpha in sorted(set(epsilon), reverse=True):
        alike = [j for j in drawn if epsilon[j] == alpha]
        parts += [alike[k : k + s.batch] for k in range(0, len(alike), s.batch)]
    for t, batch in enumerate(parts, start=1):
        total = slope(kind, X[batch] @ w, y[batch]) @ X[batch]
        if epsilon[batch[0]] < math.inf:
            total = k_noise(total, epsilon[batch[0]] / 2.0, noise_rng)
        eta = s.scale * {"sqrt": t**-0.5, "inverse": 1.0 / (lam * t), "constant": 1.0}[s.schedule]
        w = w - eta * (lam * w + total / len(batch))
        w = w / max(1.0, lam * float(np.linalg.norm(w)))
        yield w, w


def simpson(x: float, y: float, a: float, cells: int = 2000) -> float:
    """(57)."""
    beta, weights = a * np.arange(cells + 1) / cells, np.where(np.arange(cells + 1) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return float(np.sum(weights * beta * np.sinh(beta * x) * np.exp(-beta * beta * y)) / (3.0 * cells))


def banco(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(57) to (59), the integral by Simpson's rule: yield w_{t+1} and the average of w_1 to w_t."""
    X, y, kind, _ = data
    epsilon, sigma, d = s.epsilon, s.sigma or 0.0, X.shape[1]
    w, q, total = np.zeros((3, d))
    x = squares = 0.0
    if epsilon is None:
        variance, a = sigma**2, 0.6838
    elif s.constant == "poster":
        variance, a = 18.0 * d**2 / epsilon**2, min(0.6838, epsilon / 4.0)
    else:
        variance, a = 16.0 * math.log(4.0 / 3.0) * (d + 1) / epsilon**2, min(0.6838, epsilon / 4.0)
    for t, j in enumerate(batch_rng.permutation(len(X)).tolist(), start=1):
        total = total + w
        g = -slope(kind, float(X[j] @ w), y[j]) * X[j]
        g = k_noise(g, epsilon / 2.0, noise_rng) if epsilon is not None else noisy(g, sigma, noise_rng)
        x += float(g @ q)
        squares += float(g @ g)
        m = simpson(x, t * (variance / 2.0 + 1.0), a)
        q = q + g / math.sqrt(squares)
        q = q / max(1.0, float(np.linalg.norm(q)))
        w = m * q
        yield w, total / t
