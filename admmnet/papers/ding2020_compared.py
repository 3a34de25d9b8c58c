"""Figures 5 to 7 of Ding et al. 2020, methods side by side: pictures, claims and tables from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from admmnet.experiments.statistics import Contest, contest, duel, total
from admmnet.papers.report import Figure, Finding, curves, heights, told, verdict_on_sizes
from admmnet.papers.sources import DataSource
from admmnet.papers.tables import Row, RowTable, grid_table, markdown, percent, seeds_of, short, three
from admmnet.report.figure import BLACK, BLUE, GREEN, PINK, RED, SKY, Look, Panel, Rule

NON_PRIVATE = "admm"
OWN, RIVALS = ("pp-admm", "ipp-admm"), ("dvp", "m-admm", "r-admm")
GAUSSIAN = tuple(f"{name}-gaussian" for name in RIVALS)
METHODS = (*RIVALS, *GAUSSIAN, *OWN)
PAPER, PUBLISHED, PROVEN, OURS = (
    "paper's constants, equal published epsilon",
    "own constants tuned, equal published epsilon",
    "own constants tuned, equal proven epsilon",
    "our forms, equal proven epsilon",
)
SHORT = {
    PAPER: "paper's constants, published epsilon",
    PUBLISHED: "own constants tuned, published epsilon",
    PROVEN: "own constants tuned, proven epsilon",
    OURS: "our forms, proven epsilon",
}
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
_WHY = {
    PAPER: "With eta = 0.5 an agent's problem is so stiff that 30 rounds hardly leave the larger class, with "
    "privacy or without.",
    PUBLISHED: "",
    PROVEN: "Gaussian noise is about sqrt(d) smaller than noise of density exp(-a ||z||) at the same proven cost.",
    OURS: "",
}
CLOSE = 0.01
"""Share of errors within which a method is called close to the pooled optimum."""


def _named(rows: RowTable) -> RowTable:
    return rows.changed("method", lambda row: LOOKS[row["method"]][0])


def _contests(rows: RowTable, first: Sequence[str], second: Sequence[str], value: str) -> Contest:
    series = {m: rows.where(method=m).by("epsilon", value) for m in (*first, *second)}
    return total(contest(series[one], series[other]) for one, other in product(first, second))


def _idle(rows: RowTable, every: RowTable, reading: str) -> str:
    """Words where the run without privacy has itself hardly learned, so that the others tell nothing; else empty."""
    plain = every.where(method=NON_PRIVATE).by("reading", "test_error")
    if reading not in plain:
        return ""
    own, best, larger = plain[reading].mean, min(s.mean for s in plain.values()), every[0]["larger_class"]
    private = min(
        (s.mean for m in METHODS for s in rows.where(method=m).by("epsilon", "test_error").values()), default=1.0
    )
    if min(own, private) <= min(best + 3.0 * CLOSE, larger - CLOSE):
        return ""
    return (
        f"; but the run without privacy has itself hardly learned: {100.0 * own:.1f} %, with other settings "
        f"{100.0 * best:.1f} %, guessing the larger class {100.0 * larger:.1f} %"
    )


# figure 5: error over epsilon


def trade_off(rows: Sequence[Row], source: DataSource) -> Figure:
    """Figure 5."""
    return Figure(
        "figure5",
        f"Figure 5. Trade-off between error rate and privacy, {source.words}",
        rows,
        "the paper asks for the privacy at which given error rates are met; here errors are measured at given "
        "epsilons, and the epsilon for an error rate is read between them. The paper's rho = epsilon^2/(4 "
        "ln(1/delta)) reads back as epsilon + rho (column epsilon_published).",
        _order_findings,
        lambda found: _by_reading(found, needed=True),
        lambda found: _in_pairs([_error_panel(own, SHORT[reading]) for reading, own in found.split("reading")]),
        lambda found: f"{seeds_of(found)}. Each panel has its own scale.",
        2.7,
    )


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


def _order_findings(rows: RowTable) -> list[Finding]:
    found = []
    for reading, own in rows.split("reading"):
        idle = _idle(own, rows, reading)
        present = own.distinct("method")
        claims = [
            (f"PP-ADMM and IPP-ADMM need less privacy than {words} for the same error", OWN, rivals)
            for rivals, words in NAMED.items()
            if rivals[0] in present
        ]
        for claim, first, second in (*claims, ("IPP-ADMM needs still less than PP-ADMM", OWN[1:], OWN[:1])):
            ahead = _contests(own, first, second, "test_error")
            why = _WHY[reading] if second == RIVALS else "Its gate costs part of the budget." * (first == OWN[1:])
            found.append(
                told(
                    f"{claim} ({SHORT[reading]})",
                    ahead,
                    f"error at equal epsilon, {PAIRS}: ",
                    why if ahead.below < ahead.places or reading == PROVEN else "",
                    end=idle,
                    decided=not idle,
                )
            )
    return found


PAIRS = "every pair of methods at every epsilon, all on one split and so no independent trials"


def _needed(rows: RowTable, level: float) -> str:
    """Epsilon at which the mean error falls to a level, between measured ones on a log scale."""
    previous: tuple[float, float] | None = None
    for epsilon, sample in rows.by("epsilon", "test_error").items():
        if sample.mean <= level:
            if previous is None:
                return f"≤ {short(epsilon)}"
            low, high = previous
            share = (high - level) / (high - sample.mean)
            return f"{math.exp(math.log(low) + share * math.log(epsilon / low)):.2g}"
        previous = (epsilon, sample.mean)
    return "-"


def _needed_table(rows: RowTable) -> str:
    own = {method: rows.where(method=method) for method in rows.distinct("method") if method in METHODS}
    means = [s.mean for part in own.values() for s in part.by("epsilon", "test_error").values()]
    low, high = min(means), max(means)
    levels = [low + share * (high - low) for share in (0.1, 0.25, 0.5, 0.75)]
    lines = [[LOOKS[m][0], *(_needed(part, level) for level in levels)] for m, part in own.items()]
    return markdown(["epsilon for an error of", *(f"{100.0 * level:.2f} %" for level in levels)], lines)


def _by_reading(rows: RowTable, *, needed: bool) -> str:
    parts = []
    for reading, own in rows.split("reading"):
        private = _named(own.known("epsilon"))
        parts += [
            f"Test error in %, {SHORT[reading]}:",
            grid_table(private, "method", "epsilon", "test_error", percent),
        ]
        plain = own.where(epsilon=None).sample("test_error")
        if plain is not None:
            parts.append(f"Without privacy: {percent(plain)}.")
        parts += [
            "Proven epsilon of these runs, of the agent with the largest, mean over seeds:",
            grid_table(private, "method", "epsilon", "epsilon_proven", three),
        ]
        if needed and not _idle(own, rows, reading):
            parts.append(_needed_table(own))
    return "\n\n".join(parts)


# figure 6: loss over rounds


def convergence(rows: Sequence[Row], source: DataSource) -> Figure:
    """Figure 6."""

    def panel(own: RowTable, reading: str, epsilon: float) -> Panel:
        shown = RowTable(own.where(method=NON_PRIVATE) + own.where(epsilon=epsilon))
        lines = curves(shown, "method", LOOKS, "round", "loss")
        top = max(heights(lines), default=1.0)
        title = f"epsilon = {short(epsilon)}\n{SHORT[reading]}"
        return Panel(title, "iteration", "average loss", lines, ylim=(None, min(top * 1.05, 1.6)))

    return Figure(
        "figure6",
        f"Figure 6. Convergence of the average training loss, {source.words}",
        rows,
        "as figure 5, the same runs.",
        _convergence_findings,
        _convergence_tables,
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


def _convergence_findings(rows: RowTable) -> list[Finding]:
    found = []
    for reading, own in _last(rows).split("reading"):
        low, high = min(own.distinct("epsilon")), max(own.distinct("epsilon"))
        series = [own.where(method=m).by("epsilon", "loss") for m in RIVALS]
        found.append(
            told(
                f"the rivals' loss rises as epsilon falls ({SHORT[reading]})",
                total(duel(s[high], s[low]) for s in series if len(s) > 1),
                f"last loss at {short(high)} against {short(low)}: ",
            )
        )
        found.append(
            told(
                f"PP-ADMM and IPP-ADMM reach a lower loss than the rivals ({SHORT[reading]})",
                _contests(own, OWN, RIVALS, "loss"),
                f"last loss, {PAIRS}: ",
                _WHY[reading],
            )
        )
    return found


def _convergence_tables(rows: RowTable) -> str:
    parts = []
    for reading, own in _named(_last(rows)).split("reading"):
        private = own.known("epsilon")
        text = grid_table(private, "method", "epsilon", "loss", lambda s: f"{s.mean:.3f} ± {s.spread:.3f}")
        parts.append(f"Average loss after the last round, {SHORT[reading]}:\n\n{text}")
    return "\n\n".join(parts)


# figure 7: other data


def on_other_data(rows: Sequence[Row], sources: Sequence[DataSource]) -> Figure:
    """Figure 7: the paper's Brazil and US, or what stands for them."""
    stands = [f"{source.title} in place of {source.stands_for}" for source in sources if source.stands_for]
    words = "the user's own IPUMS extracts, encoded as docs/data.md says."
    if stands:
        words = (
            f"**stand-ins**: {'; '.join(stands)}. IPUMS licenses its extracts to registered users; give your own with "
            "--ipums-brazil and --ipums-us. Levels of error cannot be compared with the paper's, orders of methods "
            "can. Without an extract of the US or ACSIncome's files in the folder there is no panel for the US."
        )

    def panel(own: RowTable, reading: str, source: DataSource) -> Panel:
        return _error_panel(own.where(data=source.title), f"{source.words}\n{SHORT[reading]}")

    return Figure(
        "figure7",
        f"Figure 7. Error rates on other data: {' and '.join(source.words for source in sources)}",
        rows,
        words,
        lambda found: [
            replace(finding, claim=f"{title}: {finding.claim}")
            for title, own in found.split("data")
            for finding in _other_findings(own)
        ],
        lambda found: "\n\n".join(
            f"### {title}\n\n{_by_reading(own, needed=False)}" for title, own in found.split("data")
        ),
        lambda found: _in_pairs(
            [panel(own, reading, source) for reading, own in found.split("reading") for source in sources]
        ),
        lambda found: f"{seeds_of(found)}.",
        2.7,
    )


def _other_findings(rows: RowTable) -> list[Finding]:
    found = []
    for reading, own in rows.split("reading"):
        idle, words = _idle(own, rows, reading), SHORT[reading]
        series = {m: own.where(method=m).by("epsilon", "test_error") for m in METHODS}
        gaps = [s.mean - rows[0]["pooled"] for m in OWN for s in series[m].values()]
        near = sum(gap <= CLOSE for gap in gaps)
        found += [
            told(
                f"the lower the budget, the higher the error ({words})",
                total(duel(s[max(s)], s[min(s)]) for s in series.values() if len(s) > 1),
                "error at the largest epsilon against the smallest: ",
                end=idle,
                decided=not idle,
            ),
            Finding(
                f"PP-ADMM and IPP-ADMM get close to the best achievable error ({words})",
                "not decided" if idle else verdict_on_sizes(near, len(gaps), own),
                f"within one point of the pooled optimum in {near} of {len(gaps)}; largest gap "
                f"{100.0 * max(gaps, default=math.nan):.1f} points{idle}",
            ),
            *(
                told(
                    f"PP-ADMM and IPP-ADMM have lower errors than {named} ({words})",
                    _contests(own, OWN, rivals, "test_error"),
                    f"error, {PAIRS}: ",
                    end=idle,
                    decided=not idle,
                )
                for rivals, named in NAMED.items()
                if series[rivals[0]]
            ),
        ]
    return found
