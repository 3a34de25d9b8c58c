"""Ding, Wang, Liang, Bi, Pan 2020: figures 1 to 7, PP-ADMM and IPP-ADMM against DVP, M-ADMM and R-ADMM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from admmnet.data.figures import figure
from admmnet.errors import MissingDataError
from admmnet.experiments.figures import Row, by, curves, distinct, over_epsilon, pick, split, values
from admmnet.experiments.parsing import said
from admmnet.papers.driver import Bench, Claim, Figure, Outcome, against, claim, course, lower, rows_of, seeds_of, sized
from admmnet.papers.sources import FREE, DataSource, load, optimum, source
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, PINK, RED, SKY, Look, Panel

TITLE = "Ding et al. 2020: PP-ADMM and IPP-ADMM"
READINGS = {
    "a": "paper's constants, published epsilon",
    "b": "eta = 0.02, epsilon3/epsilon1 = 0.5, published epsilon",
    "c": "eta = 0.02, epsilon3/epsilon1 = 0.5, proven epsilon",
}
"""Of figures 1 to 4, where nothing else is tuned."""
GATES = {"printed": "gate's noise for 2C", "mean": "gate's noise for 2C/n"}
LEARNED, TRADE, CLOSE = 0.01, 0.01, 0.01
"""Shares of errors: by which a case must fall below guessing the larger class, at some value, to tell anything; within
which a choice is a good trade-off; within which a method is close to the pooled optimum."""
ADMM = "admm"
OWN, RIVALS = ("pp-admm", "ipp-admm"), ("dvp", "m-admm", "r-admm")
GAUSSIAN = tuple(f"{name}-gaussian" for name in RIVALS)
NAMED = {RIVALS: "DVP, M-ADMM, R-ADMM", GAUSSIAN: "the rivals with Gaussian noise"}
LOOKS = {
    "admm": ("non-private", Look(BLACK, "", "dashed")),
    "dvp": ("DVP", Look(SKY, "^")),
    "m-admm": ("M-ADMM", Look(GREEN, "s")),
    "r-admm": ("R-ADMM", Look(PINK, "D")),
    "dvp-gaussian": ("DVP, Gaussian noise", Look(SKY, "^", "dashed")),
    "m-admm-gaussian": ("M-ADMM, Gaussian noise", Look(GREEN, "s", "dashed")),
    "r-admm-gaussian": ("R-ADMM, Gaussian noise", Look(PINK, "D", "dashed")),
    "pp-admm": ("PP-ADMM", Look(BLUE, "o")),
    "ipp-admm": ("IPP-ADMM", Look(RED, "v")),
}
PRIVATE = {name: look for name, look in LOOKS.items() if name != ADMM}


def figures(bench: Bench) -> list[Figure]:
    """Measure and return the seven figures."""
    adult, others = source("adult", bench.data_dir), list[DataSource]()
    for name in ("brazil", "us"):
        with suppress(MissingDataError):
            others.append(source(name, bench.data_dir))
    found = _effects(bench, adult)
    best = bench.passes("optima", optimum, {(one.title,): (one, FREE) for one in (adult, *others)})
    pooled = {title: own["test_error"] for (title,), own in best.items()}
    first, losses = _compared(bench, adult, pooled)
    rest = [row for one in others for row in _compared(bench, one, pooled, "other")[0]]
    return [*found, trade_off(first, [adult]), _convergence(losses, adult), trade_off(rest, others, other=True)]


class Effect(NamedTuple):
    """What one of figures 1 to 4 varies, and what the paper says of it."""

    setting: str
    xlabel: str
    title: str
    choice: float
    chosen: str
    too_much: str = ""


EFFECTS = {
    1: Effect(
        "inexact_share", "splits, share for the approximate solution",
        "Effects of privacy budget splitting, PP-ADMM", 0.001, "splits = 0.001 is a good trade-off",
    ),
    2: Effect(
        "beta", "beta, gradient norm at which a solve stops", "Effects of optimisation accuracy beta, PP-ADMM",
        10.0**-3.5, "beta = 10^-3.5 gives the lowest error", "too large a beta hurts",
    ),
    3: Effect(
        "loss_clip", "C_loss, clip of a record's loss", "Effects of the clipping threshold C_loss, IPP-ADMM",
        2.0, "C_loss = 2 is a good trade-off", "too large a C_loss hurts",
    ),
    4: Effect(
        "gate_threshold", "alpha, the least fall in loss", "Effects of the gate's threshold alpha, IPP-ADMM",
        1e-3, "alpha = 1e-3 gives the lowest error", "a large alpha degrades the model",
    ),
}  # fmt: skip


def _effects(bench: Bench, adult: DataSource) -> list[Figure]:
    """Measure and return figures 1 to 4."""
    rows: dict[int, list[Row]] = {number: [] for number in EFFECTS}
    for name, session in bench.compare("ding2020_effects", adult).items():
        number, settings = int(name[6]), session.comparison.settings
        facts = {"reading": READINGS[name[9]], "x": settings[EFFECTS[number].setting]}
        facts |= {"gate": GATES.get(settings.get("gate_sensitivity", ""), "")}
        for cell, row, _ in rows_of(session, **facts):
            rows[number].append(row | {"train_error": _train_error(session.folder / cell.folder, adult)})
    return [effect_of(number, rows[number], adult) for number in rows]


def _train_error(run: Path, adult: DataSource) -> float:
    with np.load(run / "model.npz") as archive:
        theta = archive["consensus"]
    shards = load(adult, 5).shards.values()
    return float(sum(figure("binary", X @ theta, y) * len(y) for X, y in shards) / sum(len(y) for _, y in shards))


def effect_of(number: int, rows: list[Row], adult: DataSource) -> Figure:
    """One of figures 1 to 4."""
    effect = EFFECTS[number]

    def panel(own: list[Row], title: str, part: str) -> Panel:
        label = f"{'test' if part == 'test' else 'training'} error in %"
        lines = curves(own, "epsilon", "epsilon", "x", f"{part}_error", 100.0)
        return Panel(title, effect.xlabel, label, lines, xlog=True, ticks=_apart(distinct(rows, "x")))

    panels = [
        [panel(own, f"{reading}{gate and f', {gate}'}", part) for part in ("train", "test")]
        for gate, reading, own in split(rows, "gate", "reading")
    ]
    return Figure(
        f"Figure {number}. {effect.title}, {adult.words}",
        panels,
        f"{seeds_of(rows)}. Left: training records, right: test records, of the consensus.",
        height=2.0,
        name=f"figure{number}",
        rows=rows,
        sources=[adult],
        claims=[one for gate, own in split(rows, "gate") for one in _effect_claims(number, own, gate)],
    )


def _apart(values: Sequence[float]) -> tuple[float, ...]:
    """Marks that do not run into each other on a log scale: the first of those less than half a decade apart."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value >= 3.0 * found[-1]:
            found.append(value)
    return tuple(found if len(found) < 8 else found[::2])


def _effect_claims(number: int, rows: list[Row], place: str) -> Iterator[Claim]:
    """Claims on one of figures 1 to 4, over the readings and epsilons at which something was learned."""
    effect, every = EFFECTS[number], [own for *_, own in split(rows, "reading", "epsilon")]
    least = [min((found.mean() for found in by(own, "x", "test_error").values()), default=1.0) for own in every]
    cases = [own for own, error in zip(every, least, strict=True) if error < own[0]["larger_class"] - LEARNED]
    low, *_, high = sorted(distinct(rows, "x"))

    def ends(some: list[list[Row]], first: float, second: float, name: str = "test_error") -> list[Outcome | None]:
        return [lower(values(pick(own, x=first), name), values(pick(own, x=second), name), paired=True) for own in some]

    standings = [_standing(own, effect.choice, best=number in (2, 4)) for own in cases]
    yield claim(effect.chosen, [one for one in standings if one != "alike"], place)
    if number == 1:
        both = ends(cases, low, high, "train_error") + ends(cases, low, high)
        yield claim("the less of the budget goes to the approximate solution, the better the accuracy", both)
        return
    yield claim(effect.too_much, ends(cases, effect.choice, high), place)
    little = ends(cases, effect.choice, low)
    if number == 2:
        # that it does not help holds where it is alike, too; what is too noisy to tell is left out
        no_better: list[Outcome | None] = ["below" if one == "alike" else one for one in little if one != "level"]
        yield claim("too small a beta does not help: an exact solution of the noisy problem is no better", no_better)
    elif number == 3:
        yield claim("too small a C_loss hurts", little, place)
    else:
        yield claim("a large alpha may reduce communication", ends(every, high, low, "releases"), place)


def _standing(own: list[Row], choice: float, *, best: bool) -> Outcome | None:
    """Where the paper's own choice stands: ``alike`` where no two values differ clearly, ``above`` if one beats it.

    It is good if its mean is the least (``best``), or near that and no other value is clearly lower.
    """
    series = by(own, "x", "test_error")
    others = [lower(series[choice], series[x], paired=True) for x in series if choice in series and x != choice]
    if not {"below", "above"} & {*others}:
        return "alike" if choice not in series or set(others) - {None} else None
    mean, least = series[choice].mean(), min(found.mean() for found in series.values())
    if mean == least if best else mean <= least + TRADE and "above" not in others:
        return "below"
    return "above" if "above" in others else "level"


def _compared(
    bench: Bench, records: DataSource, pooled: dict[str, float], *variants: str
) -> tuple[list[Row], list[Row]]:
    """All methods at all epsilons in the four readings: figures of the end, and losses by round."""
    points: list[Row] = []
    losses: list[Row] = []
    for reading, session in bench.compare("ding2020_methods", records, *variants).items():
        for cell, row, summary in rows_of(session, data=records.title, reading=reading):
            facts = {"data": row["data"], "reading": reading, "method": cell.case.entry.algorithm}
            facts |= {"epsilon": row["epsilon"], "seed": row["seed"]}
            points.append(row | facts | {"settings": said(cell.values), "pooled": pooled[records.title]})
            if not variants:
                rounds = course(session.folder / cell.folder, summary["agents"], "train_loss")
                losses += [facts | {"round": number + 1, "loss": loss} for number, loss in enumerate(rounds)]
    return points, losses


def _contests(rows: list[Row], first: Sequence[str], second: Sequence[str], name: str) -> list[Outcome | None]:
    series = {m: by(pick(rows, method=m), "epsilon", name) for m in (*first, *second)}
    return [one for a, b in product(first, second) for one in against(series[a], series[b])]


def _taught(rows: list[Row], every: list[Row], reading: str) -> bool:
    """Whether the run without privacy has learned, so that the others tell something, or one of these has."""
    plain = {key: found.mean() for key, found in by(pick(every, method=ADMM), "reading", "test_error").items()}
    if reading not in plain:
        return True
    own = [found.mean() for m in PRIVATE for found in by(pick(rows, method=m), "epsilon", "test_error").values()]
    most = min(min(plain.values()) + 3.0 * CLOSE, every[0]["larger_class"] - CLOSE)
    return bool(min(plain[reading], *own) <= most)


def _order_claims(rows: list[Row]) -> Iterator[Claim]:
    for reading, own in split(rows, "reading"):
        learned = _taught(own, rows, reading)
        pairs = [(f"PP-ADMM and IPP-ADMM have lower errors than {words}", OWN, them) for them, words in NAMED.items()]
        for words, first, second in (*pairs, ("IPP-ADMM has still lower errors than PP-ADMM", OWN[1:], OWN[:1])):
            if second[0] in distinct(own, "method"):
                yield claim(words, _contests(own, first, second, "test_error"), reading, decided=learned)


def trade_off(rows: list[Row], sources: Sequence[DataSource], *, other: bool = False) -> Figure:
    """Figure 5: error over epsilon; or figure 7: on the paper's Brazil and US, or what stands for them."""
    panels = []
    for reading, own in split(rows, "reading"):
        for one in sources:
            title = f"{one.words}\n{reading}" if other else reading
            panels.append(over_epsilon(pick(own, data=one.title), title, LOOKS))
    title = "7. Error rates on other data: " if other else "5. Trade-off between error rate and privacy, "
    claims = [one for data, own in split(rows, "data") for one in _other_claims(own, data)] if other else None
    return Figure(
        f"Figure {title}{' and '.join(one.words for one in sources)}",
        [panels[k : k + 2] for k in range(0, len(panels), 2)],
        f"{seeds_of(rows)}.{' Each panel has its own scale.' * (not other)}",
        height=2.7,
        name=f"figure{title[0]}",
        rows=rows,
        sources=sources,
        claims=[*_order_claims(rows)] if claims is None else claims,
    )


def _convergence(rows: list[Row], adult: DataSource) -> Figure:
    """Figure 6: loss over rounds."""
    ends = {(row["reading"], row["method"], row["epsilon"], row["seed"]): row for row in rows}  # the last rounds
    last = [*ends.values()]

    def panel(own: list[Row], reading: str, epsilon: float) -> Panel:
        lines = curves([row for row in own if row["epsilon"] in (None, epsilon)], "method", LOOKS, "round", "loss")
        top = max((float(y) for line in lines for y in line.y), default=1.0)
        title = f"epsilon = {parameter(epsilon)}\n{reading}"
        return Panel(title, "iteration", "average loss", lines, ylim=(None, min(top * 1.05, 1.6)))

    claims = []
    for reading, own in split(last, "reading"):
        low, high = min(distinct(own, "epsilon")), max(distinct(own, "epsilon"))
        series = [by(pick(own, method=m), "epsilon", "loss") for m in RIVALS]
        rises = [lower(s[high], s[low]) for s in series if len(s) > 1]
        claims.append(claim("the rivals' loss rises as epsilon falls", rises, reading))
        less = _contests(own, OWN, RIVALS, "loss")
        claims.append(claim("PP-ADMM and IPP-ADMM reach a lower loss than the rivals", less, reading))
    return Figure(
        f"Figure 6. Convergence of the average training loss, {adult.words}",
        [
            [panel(own, reading, epsilon) for epsilon in distinct(rows, "epsilon") if epsilon >= 1.0]
            for reading, own in split(rows, "reading")
        ],
        "Mean over agents of each agent's loss at its own vector; line and band: mean and standard deviation over "
        f"{len(distinct(rows, 'seed'))} seeds. Losses above 1.6 lie beyond the frame. Tuned methods have different "
        "numbers of rounds.",
        height=2.15,
        name="figure6",
        rows=rows,
        sources=[adult],
        claims=claims,
    )


def _other_claims(rows: list[Row], title: str) -> Iterator[Claim]:
    for reading, own in split(rows, "reading"):
        learned, place = _taught(own, rows, reading), f"{title}, {reading}"
        series = {m: by(pick(own, method=m), "epsilon", "test_error") for m in PRIVATE}
        falls = [lower(s[max(s)], s[min(s)]) for s in series.values() if len(s) > 1]
        near = sized((found.mean() - rows[0]["pooled"] <= CLOSE for m in OWN for found in series[m].values()), own)
        yield claim("the lower the budget, the higher the error", falls, place, decided=learned)
        yield claim("PP-ADMM and IPP-ADMM get close to the best achievable error", near, place, decided=learned)
    for one in _order_claims(rows):
        if "still" not in one.theirs:
            yield one._replace(place=f"{title}, {one.place}")
