"""Figures 5 to 7 of Ding et al. 2020, methods side by side: pictures, claims and tables from rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from admmnet.papers.report import Claim, Figure, SummaryTable, curves, each, heights, sized
from admmnet.papers.sources import DataSource
from admmnet.papers.statistics import Contest, contest, duel, total
from admmnet.papers.tables import Row, RowTable, percent, seeds_of, three
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, PINK, RED, SKY, Look, Panel, Rule

NON_PRIVATE = "admm"
OWN, RIVALS = ("pp-admm", "ipp-admm"), ("dvp", "m-admm", "r-admm")
GAUSSIAN = tuple(f"{name}-gaussian" for name in RIVALS)
METHODS = (*RIVALS, *GAUSSIAN, *OWN)
PAPER, PUBLISHED, PROVEN, OURS = (
    "paper's constants, published epsilon",
    "own constants tuned, published epsilon",
    "own constants tuned, proven epsilon",
    "our forms, proven epsilon",
)
"""Readings: whose constants, and which epsilon is equal."""
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
NAMED = {RIVALS: "DVP, M-ADMM, R-ADMM", GAUSSIAN: "the rivals with Gaussian noise"}
CLOSE = 0.01
"""Share of errors within which a method is called close to the pooled optimum."""


def _named(rows: RowTable) -> RowTable:
    return rows.changed("label", lambda row: LOOKS[row["method"]][0])


def _contests(rows: RowTable, first: Sequence[str], second: Sequence[str], value: str) -> Contest:
    series = {m: rows.where(method=m).by("epsilon", value) for m in (*first, *second)}
    return total(contest(series[one], series[other]) for one, other in product(first, second))


def _learned(rows: RowTable, every: RowTable, reading: str) -> bool:
    """Whether the run without privacy has learned, so that the others tell something, or one of these has."""
    plain = every.where(method=NON_PRIVATE).by("reading", "test_error")
    if reading not in plain:
        return True
    least = min(s.mean for s in plain.values())
    own = [s.mean for m in METHODS for s in rows.where(method=m).by("epsilon", "test_error").values()]
    return bool(min(plain[reading].mean, *own) <= min(least + 3.0 * CLOSE, every[0]["larger_class"] - CLOSE))


# figure 5: error over epsilon


def trade_off(rows: Sequence[Row], source: DataSource) -> Figure:
    """Figure 5."""
    return Figure(
        "figure5",
        f"Figure 5. Trade-off between error rate and privacy, {source.words}",
        rows,
        [source],
        _order_claims,
        TABLES,
        lambda found: _in_pairs([_error_panel(own, reading) for reading, own in found.split("reading")]),
        lambda found: f"{seeds_of(found)}. Each panel has its own scale.",
        2.7,
    )


TABLES = (
    SummaryTable("Test error in %", "label", "epsilon", "test_error", percent, ("data", "reading"), _named),
    SummaryTable("Proven epsilon", "label", "epsilon", "epsilon_proven", three, ("data", "reading"), _named),
)
"""The second is of the agent with the largest, its mean over seeds."""


def _in_pairs(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    return [panels[k : k + 2] for k in range(0, len(panels), 2)]


def _error_panel(rows: RowTable, title: str) -> Panel:
    """Error over epsilon, one line a method, a rule for the run without privacy."""
    looks = {method: LOOKS[method] for method in METHODS}
    lines = curves(rows, "method", looks, "epsilon", "test_error", lambda s: s.times(100.0))
    plain = rows.where(method=NON_PRIVATE).sample("test_error")
    rules = [] if plain is None else [Rule(LOOKS[NON_PRIVATE][0], 100.0 * plain.mean)]
    rules += [Rule("pooled optimum", 100.0 * value, "dotted") for value in rows.distinct("pooled")]
    ticks = tuple(rows.distinct("epsilon"))
    return Panel(title, "epsilon", "test error in %", lines, tuple(rules), xlog=True, ticks=ticks)


def _order_claims(rows: RowTable) -> Iterator[Claim]:
    for reading, own in rows.split("reading"):
        learned = _learned(own, rows, reading)
        pairs = [(f"PP-ADMM and IPP-ADMM have lower errors than {words}", OWN, them) for them, words in NAMED.items()]
        for words, first, second in (*pairs, ("IPP-ADMM has still lower errors than PP-ADMM", OWN[1:], OWN[:1])):
            if second[0] in own.distinct("method"):
                yield Claim(words, _contests(own, first, second, "test_error"), reading, learned)


# figure 6: loss over rounds


def convergence(rows: Sequence[Row], source: DataSource) -> Figure:
    """Figure 6."""

    def panel(own: RowTable, reading: str, epsilon: float) -> Panel:
        shown = RowTable(own.where(method=NON_PRIVATE) + own.where(epsilon=epsilon))
        lines = curves(shown, "method", LOOKS, "round", "loss")
        top = max(heights(lines), default=1.0)
        title = f"epsilon = {parameter(epsilon)}\n{reading}"
        return Panel(title, "iteration", "average loss", lines, ylim=(None, min(top * 1.05, 1.6)))

    return Figure(
        "figure6",
        f"Figure 6. Convergence of the average training loss, {source.words}",
        rows,
        [source],
        _convergence_claims,
        [
            SummaryTable(
                "Average loss after the last round",
                "label",
                "epsilon",
                "loss",
                three,
                of=lambda own: _named(_last(own)),
            )
        ],
        lambda found: [
            [panel(own, reading, epsilon) for epsilon in found.distinct("epsilon")]
            for reading, own in found.split("reading")
        ],
        lambda found: (
            "Mean over agents of each agent's loss at its own vector; line and band: mean and standard deviation over "
            f"{len(found.distinct('seed'))} seeds. Losses above 1.6 lie beyond the frame. Tuned methods have "
            "different numbers of rounds."
        ),
        2.15,
    )


def _last(rows: RowTable) -> RowTable:
    """Rows of each run's last round."""
    ends: dict[tuple[object, ...], Row] = {}
    for row in sorted(rows, key=lambda row: int(row["round"])):
        ends[row["reading"], row["method"], row["epsilon"], row["seed"]] = row
    return RowTable(ends.values())


def _convergence_claims(rows: RowTable) -> Iterator[Claim]:
    for reading, own in _last(rows).split("reading"):
        low, high = min(own.distinct("epsilon")), max(own.distinct("epsilon"))
        series = [own.where(method=m).by("epsilon", "loss") for m in RIVALS]
        rises = total(duel(s[high], s[low]) for s in series if len(s) > 1)
        yield Claim("the rivals' loss rises as epsilon falls", rises, reading)
        lower = _contests(own, OWN, RIVALS, "loss")
        yield Claim("PP-ADMM and IPP-ADMM reach a lower loss than the rivals", lower, reading)


# figure 7: other data


def on_other_data(rows: Sequence[Row], sources: Sequence[DataSource]) -> Figure:
    """Figure 7: the paper's Brazil and US, or what stands for them."""

    def panel(own: RowTable, reading: str, source: DataSource) -> Panel:
        return _error_panel(own.where(data=source.title), f"{source.words}\n{reading}")

    return Figure(
        "figure7",
        f"Figure 7. Error rates on other data: {' and '.join(source.words for source in sources)}",
        rows,
        sources,
        each(_other_claims, "data"),
        TABLES,
        lambda found: _in_pairs(
            [panel(own, reading, source) for reading, own in found.split("reading") for source in sources]
        ),
        lambda found: f"{seeds_of(found)}.",
        2.7,
    )


def _other_claims(rows: RowTable, title: str) -> Iterator[Claim]:
    for reading, own in rows.split("reading"):
        learned, place = _learned(own, rows, reading), f"{title}, {reading}"
        series = {m: own.where(method=m).by("epsilon", "test_error") for m in METHODS}
        falls = total(duel(s[max(s)], s[min(s)]) for s in series.values() if len(s) > 1)
        near = sized((s.mean - rows[0]["pooled"] <= CLOSE for m in OWN for s in series[m].values()), own)
        yield Claim("the lower the budget, the higher the error", falls, place, learned)
        yield Claim("PP-ADMM and IPP-ADMM get close to the best achievable error", near, place, learned)
    for claim in _order_claims(rows):
        if "still" not in claim.words:
            yield replace(claim, place=f"{title}, {claim.place}")
