"""The baselines in plain Python, record by record, from the equations of docs/methods.md.

Lists of floats and loops; nothing is shared with the package. Random numbers are asked for in the documented order.
Each series yields (what a step releases, what it keeps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Row = list[float]
Rng = np.random.Generator


class Data(NamedTuple):
    X: list[Row]
    y: Row
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
    epsilon: Sequence[float] | float | None = None
    sigma: float | None = None
    constant: str = "tight"
    schedule: str = "sqrt"
    scale: float = 1.0


Steps = Iterator[tuple[Row, Row]]


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(p * q for p, q in zip(a, b, strict=True))


def add(a: Row, factor: float, b: Sequence[float]) -> Row:
    return [p + factor * q for p, q in zip(a, b, strict=True)]


def clip(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value


def grid(values: Sequence[float], sigma: float) -> Row:
    """Round to multiples of the largest power of two up to sigma 2^-20."""
    step = 2.0 ** (math.floor(math.log2(sigma)) - 20)
    return [round(value / step) * step for value in values]


def noisy(values: Sequence[float], sigma: float, rng: Rng) -> Row:
    if sigma == 0.0:
        return list(values)
    draws = rng.standard_normal(len(values)).tolist()
    return grid([value + sigma * draw for value, draw in zip(values, draws, strict=True)], sigma)


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
            if not order:
                order = rng.permutation(n).tolist()
            yield order[:size]
            order = order[size:]


def step(kind: str, alpha: float, y: float, x: Row, v: Row, scale: float, L: float, tiny: float) -> float:
    """(43), (44), (46): zeta of one record before it is scaled; `scale` is lambda N."""
    score, weight = dot(x, v) / scale, L * dot(x, x) / scale
    if kind == "squared":
        return (y - alpha - score) / (1.0 + weight)
    if kind == "hinge":
        p = clip(y * alpha, 0.0, 1.0)
        if weight == 0.0:  # the limit: nothing but the conjugate is left, which is least at 1
            return y * (1.0 - p)
        return y * clip(p + (1.0 - y * score) / weight, 0.0, 1.0) - y * p
    p = clip(y * alpha, tiny, 1.0 - tiny)
    return -(y * math.log(p / (1.0 - p)) + score) / (1.0 / (p * (1.0 - p)) + weight)


def shortened(zeta: float, C: float) -> float:
    """(47)."""
    return zeta / max(1.0, abs(zeta) / C)


def exact_logistic(alpha: float, y: float, x: Row, v: Row, scale: float) -> float:
    """(45) by bisection: the new alpha."""
    margin, weight, p = y * dot(x, v) / scale, dot(x, x) / scale, y * alpha
    low, high = -800.0, 800.0
    for _ in range(200):
        z = 0.5 * (low + high)
        q = 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0
        low, high = (low, z) if z + margin + weight * (q - p) > 0.0 else (z, high)
    return y / (1.0 + math.exp(-0.5 * (low + high)))


def sdca(data: Data, s: Settings, rng: Rng, _: Rng) -> Steps:
    """Yield (theta, alpha) after each epoch."""
    X, y, kind, lam = data
    n, scale = len(X), lam * len(X)
    alpha, v = [0.0] * n, [0.0] * len(X[0])
    for _epoch in range(s.epochs):
        for i in rng.permutation(n).tolist():
            if kind == "logistic":
                new = exact_logistic(alpha[i], y[i], X[i], v, scale)
            else:
                new = alpha[i] + step(kind, alpha[i], y[i], X[i], v, scale, 1.0, 0.0)
            v = add(v, new - alpha[i], X[i])
            alpha[i] = new
        yield [entry / scale for entry in v], list(alpha)


def dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(48), (49): yield (v, alpha) after each step."""
    X, y, kind, lam = data
    L, C = s.batch, s.clip
    n, scale = len(X), lam * len(X)
    sigma = s.noise_multiplier * C * (math.sqrt(2.0) if s.dual_noise else 1.0)
    alpha, v = [0.0] * n, [0.0] * len(X[0])
    for batch in batches(s.sampling, n, L, s.steps, batch_rng):
        total, zetas = [0.0] * len(v), []
        for j in batch:
            zeta = (
                0.0 if not any(X[j]) else shortened(step(kind, alpha[j], y[j], X[j], v, scale, L, s.logistic_margin), C)
            )
            zetas.append(zeta)
            total = add(total, zeta, X[j])
        if s.dual_noise:
            zetas = noisy(zetas, sigma, noise_rng)
        for j, zeta in zip(batch, zetas, strict=True):
            alpha[j] += zeta
        v = add(v, 1.0, noisy(total, sigma, noise_rng))
        yield v, list(alpha)


def seq_dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(50): yield (v, alpha) after each step."""
    X, y, kind, lam = data
    L, C = s.batch, s.clip
    n, scale = len(X), lam * len(X)
    sigma = s.noise_multiplier * 2.0 * C * math.sqrt(L * (L + 1))
    alpha, v = [0.0] * n, [0.0] * len(X[0])
    for batch in batches(s.sampling, n, L, s.steps, batch_rng, ordered=True):
        zetas, start = [], v
        for j in batch:
            own = step(kind, alpha[j], y[j], X[j], v, scale, 1, s.logistic_margin) if any(X[j]) else 0.0
            zetas.append(shortened(own, C))
            v = add(v, zetas[-1], X[j])
        for j, zeta in zip(batch, noisy(zetas, sigma, noise_rng), strict=True):
            alpha[j] += zeta
        moved = noisy([p - q for p, q in zip(v, start, strict=True)], sigma, noise_rng)
        v = add(start, 1.0, moved)
        yield v, list(alpha)


def slope(kind: str, score: float, y: float) -> float:
    if kind == "squared":
        return score - y
    if kind == "hinge":
        return -y if y * score < 1.0 else 0.0
    return -y / (1.0 + math.exp(y * score))


def primal_dp_scd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(51), (52): yield (theta, v) after each step."""
    X, y, kind, lam = data
    L, C = s.batch, s.clip
    n, d = len(X), len(X[0])
    sigma = s.noise_multiplier * 2.0 * C * math.sqrt(L * (L + 1))
    bend = 1.0 if kind == "squared" else 0.25
    theta, v = [0.0] * d, [0.0] * n
    for batch in batches("fixed", d, L, s.steps, batch_rng):
        total, zetas = [0.0] * n, []
        for j in batch:
            column = [row[j] for row in X]
            slopes = [slope(kind, v[i], y[i]) for i in range(n)]
            gradient = dot(slopes, column) / n + lam * theta[j]
            zetas.append(shortened(-gradient / (L * bend * dot(column, column) / n + lam), C))
            total = add(total, zetas[-1], column)
        for j, zeta in zip(batch, noisy(zetas, sigma, noise_rng), strict=True):
            theta[j] += zeta
        v = add(v, 1.0, noisy(total, sigma, noise_rng))
        yield list(theta), v


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
    L, C = s.batch, s.clip
    theta = [0.0] * len(X[0])
    for batch in gradient_batches(s, len(X), batch_rng):
        total = [0.0] * len(theta)
        for j in batch:
            gradient = [slope(kind, dot(X[j], theta), y[j]) * entry for entry in X[j]]
            norm = math.sqrt(dot(gradient, gradient))
            total = add(total, 1.0 / max(1.0, norm / C), gradient)
        if s.noise_multiplier:
            total = noisy(total, s.noise_multiplier * C, noise_rng)
        theta = [p - s.learning_rate * (q / L + lam * p) for p, q in zip(theta, total, strict=True)]
        yield theta, theta


def k_noise(values: Row, rate: float, rng: Rng) -> Row:
    """Add noise of density exp(-rate ||z||): radius first, then direction."""
    radius = float(rng.standard_gamma(len(values))) / rate
    direction = rng.standard_normal(len(values)).tolist()
    norm = math.sqrt(dot(direction, direction))
    return grid([p + radius * q / norm for p, q in zip(values, direction, strict=True)], 1.0 / rate)


def song_sgd(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(55), (56): yield w after each step."""
    X, y, kind, lam = data
    epsilon = np.broadcast_to(np.asarray(s.epsilon, dtype=float), len(X)).tolist()
    n, w = len(X), [0.0] * len(X[0])
    drawn = batch_rng.permutation(n).tolist()
    batches = []
    for alpha in sorted(set(epsilon), reverse=True):
        alike = [j for j in drawn if epsilon[j] == alpha]
        batches += [alike[k : k + s.batch] for k in range(0, len(alike), s.batch)]
    for t, batch in enumerate(batches, start=1):
        total = [0.0] * len(w)
        for j in batch:
            total = add(total, slope(kind, dot(X[j], w), y[j]), X[j])
        if epsilon[batch[0]] < math.inf:
            total = k_noise(total, epsilon[batch[0]] / 2.0, noise_rng)
        eta = s.scale * {"sqrt": t**-0.5, "inverse": 1.0 / (lam * t), "constant": 1.0}[s.schedule]
        w = [p - eta * (lam * p + q / len(batch)) for p, q in zip(w, total, strict=True)]
        norm = math.sqrt(dot(w, w))
        if norm > 1.0 / lam:
            w = [p / (lam * norm) for p in w]
        yield w, w


def simpson(x: float, y: float, a: float, cells: int = 2000) -> float:
    """(57)."""
    total = 0.0
    for k in range(cells + 1):
        beta = a * k / cells
        weight = 1.0 if k in (0, cells) else 4.0 if k % 2 else 2.0
        total += weight * beta * math.sinh(beta * x) * math.exp(-beta * beta * y)
    return total / (3.0 * cells)


def banco(data: Data, s: Settings, batch_rng: Rng, noise_rng: Rng) -> Steps:
    """(57) to (59), the integral by Simpson's rule: yield w_{t+1} and the average of w_1 to w_t."""
    X, y, kind, _ = data
    epsilon, sigma = s.epsilon, s.sigma or 0.0
    d = len(X[0])
    w, q, total = [0.0] * d, [0.0] * d, [0.0] * d
    x = squares = 0.0
    assert epsilon is None or isinstance(epsilon, float)
    if epsilon is None:
        variance, a = sigma**2, 0.6838
    elif s.constant == "poster":
        variance, a = 18.0 * d**2 / epsilon**2, min(0.6838, epsilon / 4.0)
    else:
        variance, a = 16.0 * math.log(4.0 / 3.0) * (d + 1) / epsilon**2, min(0.6838, epsilon / 4.0)
    for t, j in enumerate(batch_rng.permutation(len(X)).tolist(), start=1):
        total = add(total, 1.0, w)
        g = [-slope(kind, dot(X[j], w), y[j]) * entry for entry in X[j]]
        g = k_noise(g, epsilon / 2.0, noise_rng) if epsilon is not None else noisy(g, sigma, noise_rng)
        x += dot(g, q)
        squares += dot(g, g)
        m = simpson(x, t * (variance / 2.0 + 1.0), a)
        q = add(q, 1.0 / math.sqrt(squares), g)
        norm = math.sqrt(dot(q, q))
        q = [entry / max(1.0, norm) for entry in q]
        w = [m * entry for entry in q]
        yield w, [entry / t for entry in total]
