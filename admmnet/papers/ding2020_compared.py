"""Figures 5 to 7 of Ding et al. 2020, methods side by side: pictures, claims and tables from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from admmnet.papers.ding2020_words import (
    LOOKS,
    NAMES,
    NON_PRIVATE,
    OWN,
    PAPER,
    PROVEN,
    PUBLISHED,
    RIVALS,
    SHORT,
    in_percent,
)
from admmnet.papers.report import Figure, Finding, verdict_on, verdict_on_sizes
from admmnet.papers.significance import Contest, contest, duel, total
from admmnet.papers.sources import Source
from admmnet.papers.tables import (
    Row,
    by,
    distinct,
    grid_table,
    markdown,
    percent,
    several,
    short,
    summed_up,
    where,
)
from admmnet.report.figure import (
    Curve,
    Panel,
    Picture,
    Rule,
)


def _contests(rows: Sequence[Row], first: Sequence[str], second: Sequence[str], value: str) -> Contest:
    found = []
    for one, other in product(first, second):
        a = by(where(rows, method=one), "epsilon", value)
        b = by(where(rows, method=other), "epsilon", value)
        found.append(contest(a, b))
    return total(found)


_WHY_PAPER = (
    "With eta = 0.5 an agent's problem is so stiff that 30 rounds hardly leave the larger class, with "
    "privacy or without."
)


_WHY_PUBLISHED = (
    "Theorem 3.1 forces a regulariser on PP-ADMM and IPP-ADMM that the rivals do not need, its solves' "
    "tolerance costs noise, and "
    "the rivals spend less in truth than PP-ADMM at the same published epsilon."
)


_WHY_PROVEN = (
    "Gaussian noise is about sqrt(d) smaller than noise of density exp(-a ||z||) at the same proven cost."
)


_WHY = {PAPER: _WHY_PAPER, PUBLISHED: _WHY_PUBLISHED, PROVEN: _WHY_PROVEN}


CLOSE = 0.01
"""Share of errors within which a method is called close to the one without privacy."""


def _idle(rows: Sequence[Row], reading: str) -> str:
    """Words where the run without privacy has itself hardly learned, so that the others tell nothing; else empty."""
    plain = by(where(rows, method=NON_PRIVATE), "reading", "test_error")
    if reading not in plain:
        return ""
    own, best, larger = plain[reading].mean, min(s.mean for s in plain.values()), rows[0]["larger_class"]
    if own <= min(best + 3.0 * CLOSE, larger - CLOSE):
        return ""
    return (
        f"; but the run without privacy has itself hardly learned: {100.0 * own:.1f} %, with other settings "
        f"{100.0 * best:.1f} %, guessing the larger class {100.0 * larger:.1f} %"
    )


def _order_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for reading in distinct(rows, "reading"):
        own, idle = where(rows, reading=reading), _idle(rows, reading)
        for claim, first, second, why in (
            (
                "PP-ADMM and IPP-ADMM need less privacy than DVP, M-ADMM, R-ADMM for the same error",
                OWN,
                RIVALS,
                _WHY[reading],
            ),
            (
                "IPP-ADMM needs still less than PP-ADMM",
                ("ipp-admm",),
                ("pp-admm",),
                "Its gate costs part of the budget.",
            ),
        ):
            ahead = _contests(own, first, second, "test_error")
            found.append(
                Finding(
                    f"{claim} ({SHORT[reading]})",
                    "not decided" if idle else verdict_on(ahead),
                    f"error at equal epsilon, every pair of methods at every epsilon: {ahead.words}{idle}",
                    why if ahead.below < ahead.places or reading == PROVEN else "",
                )
            )
    return found


def _error_panel(rows: Sequence[Row], title: str, *, ylabel: str = "test error in %") -> Panel:
    """Error over epsilon, one line a method, a rule for the run without privacy."""
    curves = [
        Curve.of(NAMES[m], LOOKS[m], in_percent(by(where(rows, method=m), "epsilon", "test_error")))
        for m in (*RIVALS, *OWN)
        if where(rows, method=m)
    ]
    plain = summed_up(row["test_error"] for row in where(rows, method=NON_PRIVATE))
    rules = () if plain is None else (Rule(NAMES[NON_PRIVATE], 100.0 * plain.mean),)
    ticks = tuple(distinct(rows, "epsilon"))
    return Panel(title, "epsilon", ylabel, tuple(curves), rules, xlog=True, ticks=ticks)


def _needed(rows: Sequence[Row], level: float) -> str:
    """Epsilon at which the mean error falls to a level, between measured ones on a log scale."""
    found = list(by(rows, "epsilon", "test_error").items())
    previous: tuple[float, float] | None = None
    for epsilon, summary in found:
        if summary.mean <= level:
            if previous is None:
                return f"≤ {short(epsilon)}"
            low, high = previous
            share = (high - level) / (high - summary.mean)
            return f"{math.exp(math.log(low) + share * math.log(epsilon / low)):.2g}"
        previous = (epsilon, summary.mean)
    return "-"


def _needed_table(rows: Sequence[Row]) -> str:
    means = [
        s.mean for m in (*RIVALS, *OWN) for s in by(where(rows, method=m), "epsilon", "test_error").values()
    ]
    low, high = min(means), max(means)
    levels = [low + share * (high - low) for share in (0.1, 0.25, 0.5, 0.75)]
    lines = [
        [NAMES[m], *(_needed(where(rows, method=m), level) for level in levels)] for m in (*RIVALS, *OWN)
    ]
    return markdown(["epsilon for an error of", *(f"{100.0 * level:.2f} %" for level in levels)], lines)


def _by_reading(rows: Sequence[Row], *, needed: bool) -> str:
    parts = []
    for reading in distinct(rows, "reading"):
        own = [row | {"method": NAMES[row["method"]]} for row in where(rows, reading=reading)]
        private = [row for row in own if row["epsilon"] is not None]
        parts.append(
            f"Test error in %, {SHORT[reading]}:\n\n"
            + grid_table(
                private, line="method", column="epsilon", value="test_error", show=percent, head="epsilon"
            )
        )
        plain = summed_up(row["test_error"] for row in own if row["epsilon"] is None)
        if plain is not None:
            parts.append(f"Without privacy: {percent(plain)}.")
        parts.append(
            "Proven epsilon of these runs, of the agent with the largest, mean over seeds:\n\n"
            + grid_table(
                private,
                line="method",
                column="epsilon",
                value="epsilon_proven",
                show=lambda s: f"{s.mean:.3g}",
                head="epsilon",
            )
        )
        if needed and not _idle(rows, reading):
            parts.append(_needed_table(where(rows, reading=reading)))
    return "\n\n".join(parts)


def trade_off(rows: list[Row], source: Source, quick: str, seeds: int) -> Figure:
    """Figure 5."""
    heading = f"Figure 5. Trade-off between error rate and privacy, {source.words}{quick}"
    return Figure(
        "figure5",
        heading,
        rows,
        lambda found: Picture(
            heading,
            (tuple(_error_panel(where(found, reading=r), SHORT[r]) for r in distinct(found, "reading")),),
            f"Mean and standard deviation over {several(seeds, 'seed')}. Each panel has its own scale.",
            2.9,
        ),
        _order_findings,
        lambda found: _by_reading(found, needed=True),
        "the paper asks for the privacy at which given error rates are met; here errors are measured at "
        "given epsilons, and the "
        "epsilon for an error rate is read between them. The paper's rho = epsilon^2/(4 ln(1/delta)) reads back "
        "as epsilon + rho (column epsilon_published).",
    )


def convergence(rows: list[Row], source: Source, quick: str, seeds: int) -> Figure:
    """Figure 6."""
    heading = f"Figure 6. Convergence of the average training loss, {source.words}{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for reading in distinct(found, "reading"):
            own = where(found, reading=reading)
            line = []
            for epsilon in distinct(found, "epsilon"):
                curves = []
                for method in (NON_PRIVATE, *RIVALS, *OWN):
                    wanted = where(own, method=method, epsilon=None if method == NON_PRIVATE else epsilon)
                    if wanted:
                        curves.append(Curve.of(NAMES[method], LOOKS[method], by(wanted, "round", "loss")))
                title = f"epsilon = {short(epsilon)}\n{SHORT[reading]}"
                top = max((y for c in curves for y in c.y), default=1.0)
                line.append(
                    Panel(
                        title, "iteration", "average loss", tuple(curves), ylim=(None, min(top * 1.05, 1.6))
                    )
                )
            lines.append(tuple(line))
        note = (
            "Mean over agents of each agent's loss at its own vector; line and band: mean and standard "
            f"deviation over {seeds} "
            "seeds. Losses above 1.6 lie beyond the frame. Tuned methods have different numbers of rounds."
        )
        return Picture(heading, tuple(lines), note, 2.15)

    return Figure(
        "figure6",
        heading,
        rows,
        picture,
        _convergence_findings,
        _convergence_tables,
        "as figure 5, the same runs.",
    )


def _last(rows: Sequence[Row]) -> list[Row]:
    """Rows of each run's last round."""
    ends: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = (row["reading"], row["method"], row["epsilon"], row["seed"])
        if key not in ends or row["round"] > ends[key]["round"]:
            ends[key] = row
    return list(ends.values())


def _convergence_findings(rows: Sequence[Row]) -> list[Finding]:
    last, found = _last(rows), []
    for reading in distinct(last, "reading"):
        own = where(last, reading=reading)
        epsilons = sorted(distinct(own, "epsilon"))
        series = [by(where(own, method=m), "epsilon", "loss") for m in RIVALS if where(own, method=m)]
        rise = total(duel(s[epsilons[-1]], s[epsilons[0]]) for s in series if len(s) > 1)
        found.append(
            Finding(
                f"the rivals' loss rises as epsilon falls ({SHORT[reading]})",
                verdict_on(rise),
                f"last loss at {short(epsilons[-1])} against {short(epsilons[0])}: {rise.words}",
            )
        )
        ahead = _contests(own, OWN, RIVALS, "loss")
        found.append(
            Finding(
                f"PP-ADMM and IPP-ADMM reach a lower loss than the rivals ({SHORT[reading]})",
                verdict_on(ahead),
                f"last loss: {ahead.words}",
                _WHY[reading],
            )
        )
    return found


def _convergence_tables(rows: Sequence[Row]) -> str:
    parts = []
    last = [row | {"method": NAMES[row["method"]]} for row in _last(rows)]
    for reading in distinct(last, "reading"):
        own = [row for row in where(last, reading=reading) if row["epsilon"] is not None]
        text = grid_table(
            own,
            line="method",
            column="epsilon",
            value="loss",
            show=lambda s: f"{s.mean:.3f} ± {s.spread:.3f}",
            head="epsilon",
        )
        parts.append(f"Average loss after the last round, {SHORT[reading]}:\n\n{text}")
    return "\n\n".join(parts)


def on_other_data(rows: list[Row], sources: Sequence[Source], quick: str, seeds: int) -> Figure:
    """Figure 7: the paper's Brazil and US, or what stands for them."""
    heading = (
        f"Figure 7. Error rates on Brazil and US: {' and '.join(source.words for source in sources)}{quick}"
    )

    def picture(found: Sequence[Row]) -> Picture:
        lines = tuple(
            tuple(
                _error_panel(
                    where(found, reading=reading, data=source.title), f"{source.words}\n{SHORT[reading]}"
                )
                for source in sources
            )
            for reading in distinct(found, "reading")
        )
        return Picture(heading, lines, f"Mean and standard deviation over {several(seeds, 'seed')}.", 2.4)

    def tables(found: Sequence[Row]) -> str:
        return "\n\n".join(
            f"### {title}\n\n{_by_reading(where(found, data=title), needed=False)}"
            for title in distinct(found, "data")
        )

    return Figure("figure7", heading, rows, picture, _other_findings, tables, _other_settings(sources))


def _other_settings(sources: Sequence[Source]) -> str:
    stands = [source for source in sources if source.stands_for is not None]
    if not stands:
        return "the user's own IPUMS extracts, encoded as docs/data.md says."
    words = "; ".join(f"{source.title} in place of {source.stands_for}" for source in stands)
    return (
        f"**stand-ins**: {words}. IPUMS licenses its extracts to registered users; give your own with "
        "--ipums-brazil and "
        "--ipums-us. Levels of error cannot be compared with the paper's, orders of methods can."
    )


def _other_findings(rows: Sequence[Row]) -> list[Finding]:
    return [
        Finding(f"{title}: {finding.claim}", finding.verdict, finding.measured, finding.why)
        for title in distinct(rows, "data")
        for finding in _other_of(where(rows, data=title))
    ]


def _other_of(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for reading in distinct(rows, "reading"):
        own, idle = where(rows, reading=reading), _idle(rows, reading)
        methods = [m for m in (*RIVALS, *OWN) if where(own, method=m)]
        series = {m: by(where(own, method=m), "epsilon", "test_error") for m in methods}
        falls = total(duel(s[max(s)], s[min(s)]) for s in series.values() if len(s) > 1)
        found.append(
            Finding(
                f"the lower the budget, the higher the error ({SHORT[reading]})",
                "not decided" if idle else verdict_on(falls),
                f"error at the largest epsilon against the smallest: {falls.words}{idle}",
            )
        )
        plain = summed_up(row["test_error"] for row in where(own, method=NON_PRIVATE))
        gaps = [s.mean - plain.mean for m in OWN for s in series.get(m, {}).values() if plain is not None]
        near = sum(gap <= CLOSE for gap in gaps)
        found.append(
            Finding(
                f"PP-ADMM and IPP-ADMM get close to the best achievable error ({SHORT[reading]})",
                "not decided" if idle else verdict_on_sizes(near, len(gaps), own),
                f"within one point of the run without privacy in {near} of {len(gaps)}; largest gap "
                f"{100.0 * max(gaps, default=math.nan):.1f} points{idle}",
                _WHY[reading] if reading != PROVEN else "",
            )
        )
        ahead = _contests(own, OWN, RIVALS, "test_error")
        found.append(
            Finding(
                f"they have lower errors than the rivals ({SHORT[reading]})",
                "not decided" if idle else verdict_on(ahead),
                f"error: {ahead.words}{idle}",
            )
        )
    return found
