"""Tuning in Damaskinos et al. 2021: what it costs, and what SGD's tells of DP-SGD, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from admmnet.papers.damaskinos2021_figures import PUBLISHED
from admmnet.papers.report import Figure, Finding, verdict_of
from admmnet.papers.tables import Row, RowTable, grid_table, markdown, short


def tuning(rows: Sequence[Row]) -> Figure:
    """The paper's paragraph of that name, as a table."""
    return Figure(
        "tuning",
        "Tuning cost",
        rows,
        "one trial of each setting, on three quarters of the training records (the choice itself takes three, one "
        "with `--quick`). On private records every trial is a release. The choice by errors on the held-out quarter "
        "is not charged: those records would have to be public.",
        lambda found: [_tuning_finding(own, reading) for reading, own in found.split("reading")],
        _tuning_table,
    )


def _tuning_finding(rows: RowTable, reading: str) -> Finding:
    costs = {
        method: {row["problem"]: row["epsilon_proven_with_trials"] for row in rows.where(method=method)}
        for method in ("DP-SCD", "DP-SGD")
    }
    own, other = costs.values()
    pairs = [(own[problem], other[problem], problem) for problem in own if problem in other]
    known = [(a, b, problem) for a, b, problem in pairs if a is not None and b is not None]
    tried = {problem: [rows.where(method=m, problem=problem)[0]["tried"] for m in costs] for _, _, problem in known}
    like = [(a, b) for a, b, problem in known if tried[problem][0] < tried[problem][1]]
    return Finding(
        f"having no learning rate to tune saves privacy ({reading})",
        verdict_of(sum(a < b for a, b in like), len(like)),
        "proven epsilon of all trials and one final run, DP-SCD and DP-SGD: "
        + ", ".join(
            f"{a:.3g} and {b:.3g} ({problem}, {tried[problem][0]} and {tried[problem][1]} settings)"
            for a, b, problem in known
        )
        + "; in the paper 156 and 2,028. What counts is where DP-SGD has more to try, as there",
        "That DP-SGD takes more trials is how these grids were made; what trials cost is what is measured."
        + (
            " The published methods are charged for batches that are seen, so a trial costs more."
            if reading == PUBLISHED
            else ""
        ),
    )


def _tuning_table(rows: RowTable) -> str:
    heads = {
        "problem": "problem",
        "reading": "reading",
        "method": "method",
        "hyperparameters": "hyperparameters",
        "tried": "settings tried",
    }
    lines = []
    for row in rows:
        cost = row["epsilon_proven_with_trials"]
        errors = ", ".join(f"{row[name]:.4g}" for name in ("best", "middle", "worst"))
        cells = [str(row[name]) for name in heads]
        lines.append([*cells, errors, "-" if cost is None else f"{cost:.3g}"])
    text = markdown([*heads.values(), "error: best, middle, worst", "epsilon proven"], lines)
    return f"Errors on the held-out quarter; proven epsilon of all trials and one final run, composed:\n\n{text}"


def learning_rates(rows: Sequence[Row]) -> Figure:
    """What tuning SGD tells of DP-SGD: the paper's last sentence on tuning, as a table."""
    return Figure(
        "rates",
        "Learning rates of SGD and DP-SGD",
        rows,
        "the trials of figure 1 at the epsilon nearest 1, one of each setting, measured on the held-out quarter.",
        lambda found: [finding for reading, own in found.split("reading") for finding in _rate_findings(own, reading)],
        _rate_table,
    )


def _best_rates(rows: RowTable, column: str) -> dict[float, tuple[float, float]]:
    """Learning rate of least error, and that error, for each value of a column."""
    found = {}
    for value, own in rows.known("error").split(column):
        best = min(own, key=lambda row: float(row["error"]))
        found[value] = (best["learning_rate"], best["error"])
    return found


def _rate_findings(rows: RowTable, reading: str) -> list[Finding]:
    """Whether DP-SGD's best rate depends on C, and what SGD's best rate at the same batch would cost it."""
    said, depends, useless, places = [], 0, 0, 0
    for problem, own in rows.split("problem"):
        private = own.where(method="DP-SGD")
        for batch, part in private.split("batch"):
            plain = _best_rates(own.where(method="SGD"), "batch").get(batch)
            by_clip = _best_rates(part, "clip")
            if plain is None or len(by_clip) < 2:
                continue
            rates, best = [rate for rate, _ in by_clip.values()], min(error for _, error in by_clip.values())
            taken = min(row["error"] for row in part.known("error").where(learning_rate=plain[0]))
            places, depends = places + 1, depends + (len(set(rates)) > 1)
            useless += taken > best * (1.0 + RATE_MATTERS)
            said.append(
                f"{problem}, L {short(batch)}: SGD {short(plain[0])}, DP-SGD "
                + ", ".join(f"{short(rate)} at C {short(clip)}" for clip, (rate, _) in by_clip.items())
                + f", its error {taken / best:.2f} times its best with SGD's rate"
            )
    return [
        Finding(
            f"SGD's tuning is not useful for DP-SGD, whose best rate depends on C ({reading})",
            verdict_of(useless, places),
            f"best rates: {'; '.join(said)}. The best rate depends on C in {depends} of {places}; with SGD's rate the "
            f"error is over {100.0 * RATE_MATTERS:.0f} % above DP-SGD's best in {useless}",
        )
    ]


RATE_MATTERS = 0.05
"""Share of DP-SGD's best error by which SGD's rate must miss it to be called useless."""


def _rate_table(rows: RowTable) -> str:
    parts = []
    for (problem, reading), own in rows.where(method="DP-SGD").split("problem", "reading"):
        named = own.changed("setting", lambda row: f"L {short(row['batch'])}, C {short(row['clip'])}")
        text = grid_table(named, "setting", "learning_rate", "error", lambda s: f"{s.mean:.4g}", "learning rate")
        parts.append(f"Error of DP-SGD, {problem}, {reading}:\n\n{text}")
    return "\n\n".join(parts)
