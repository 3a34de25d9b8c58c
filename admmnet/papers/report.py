"""What a paper module hands over for each figure, and the text report made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from admmnet.papers.significance import Contest
from admmnet.papers.tables import Row, distinct
from admmnet.report.figure import Picture

Verdict = Literal["holds", "holds in part", "does not hold", "not decided"]


@dataclass(frozen=True)
class Finding:
    """What came of one claim.

    Attributes
    ----------
    claim : str
        As the paper has it.
    verdict : str
        Computed from the figure's CSV.
    measured : str
        The figures that decide, computed from the CSV.
    why : str
        Where settings or accounting differ; may be empty.
    """

    claim: str
    verdict: Verdict
    measured: str
    why: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: its rows, and what to make of them once they have been read back.

    Attributes
    ----------
    name : str
        Of its files, such as ``figure1``.
    title : str
        What it shows.
    rows : sequence of Row
        To be written to ``name``.csv.
    picture : callable or None
        Rows read back to the picture; None for a table alone.
    findings : callable
        Rows read back to what came of the claims.
    tables : callable
        Rows read back to text (markdown) below the findings.
    settings : str
        The paper's settings and ours, where they differ.
    """

    name: str
    title: str
    rows: Sequence[Row]
    picture: Callable[[Sequence[Row]], Picture] | None
    findings: Callable[[Sequence[Row]], Sequence[Finding]]
    tables: Callable[[Sequence[Row]], str]
    settings: str


def section(figure: Figure, rows: Sequence[Row], *, drawn: bool) -> str:
    """Text of a figure."""
    parts = [f"## {figure.title}", f"Settings: {figure.settings}"]
    if drawn and figure.picture is not None:
        parts.append(f"![{figure.title}]({figure.name}.png)")
    for number, finding in enumerate(figure.findings(rows), start=1):
        text = (
            f"{number}. **Claim**: {finding.claim}\n   **Measured**: {finding.measured}\n"
            f"   **{finding.verdict.capitalize()}.**"
        )
        parts.append(text + (f" {finding.why}" if finding.why else ""))
    parts.append(figure.tables(rows))
    parts.append(f"Figures: `{figure.name}.csv`, {len(rows)} rows.")
    return "\n\n".join(part for part in parts if part)


def verdict_of(good: int, places: int, against: int | None = None) -> Verdict:
    """Verdict on a claim that is met in ``good`` of ``places``, its opposite in ``against``: by default in the others.

    ``holds`` if everywhere, ``does not hold`` if nowhere or if its opposite in more, else in part; undecided without
    places.
    """
    if places == 0:
        return "not decided"
    if good == places:
        return "holds"
    opposite = places - good if against is None else against
    return "does not hold" if good == 0 or opposite > good else "holds in part"


def verdict_on_sizes(good: int, places: int, rows: Sequence[Row]) -> Verdict:
    """Verdict where means are held against a size: of a single seed nothing is decided."""
    return verdict_of(good, places) if len(distinct(rows, "seed")) > 1 else "not decided"


def verdict_on(found: Contest) -> Verdict:
    """Verdict on the claim that one thing is below another: level places refute it only where all are alike."""
    if found.below == found.above == 0 and found.alike < found.level:
        return "not decided"
    return verdict_of(found.below, found.places, found.above)
