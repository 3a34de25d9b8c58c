"""What a paper module hands over for each figure, and the text report made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from admmnet.experiments.statistics import Contest, Sample
from admmnet.papers.tables import Row, RowTable
from admmnet.report.figure import Curve, Look, Panel, Picture

Verdict = Literal["holds", "holds in part", "does not hold", "not decided"]
Panels = Sequence[Sequence[Panel]]
WORDS = (
    "A difference is *clear* where chance alone gives one as large one time in twenty (Welch's t test over seeds, the "
    "paired t test where one parameter is varied, the F test for standard deviations); else it is *level*, and "
    "*alike* where the same test rules out a difference of 5 %. A single run tells nothing. A claim *holds* where it "
    "is clear in every place that was measured, *holds in part* where it is in some, and its opposite in no more; it "
    "*does not hold* where the opposite is clear in more, or where all are alike; else it is *not decided*. Of a "
    "hundred comparisons of what does not differ two or three come out clear in a claim's favour, and more where the "
    "best of several values is taken first."
)
"""How verdicts are reached."""


@dataclass(frozen=True)
class Finding:
    """What came of one claim: as the paper has it, the verdict and the figures that decide, both computed from the CSV.

    ``why`` says where settings or accounting differ.
    """

    claim: str
    verdict: Verdict
    measured: str
    why: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: rows to be written to ``name``.csv, and what to make of them once they have been read back.

    ``settings`` says where the paper's settings and ours differ; ``findings`` are what came of the claims; ``tables``
    is markdown below them; ``panels`` are lines of panels, each ``height`` inches high, None for a table alone;
    ``note`` is what must be known to quote the picture.
    """

    name: str
    title: str
    rows: Sequence[Row]
    settings: str
    findings: Callable[[RowTable], Sequence[Finding]]
    tables: Callable[[RowTable], str] = lambda rows: ""
    panels: Callable[[RowTable], Panels] | None = None
    note: Callable[[RowTable], str] = lambda rows: ""
    height: float = 2.5

    def picture(self, rows: RowTable) -> Picture | None:
        """Picture of rows read back."""
        if self.panels is None:
            return None
        return Picture(self.title, tuple(map(tuple, self.panels(rows))), self.note(rows), self.height)


def curves(
    rows: RowTable,
    column: str,
    looks: Mapping[Any, tuple[str, Look]],
    x: str,
    y: str,
    change: Callable[[Sample], Sample] = lambda sample: sample,
    *,
    medians: bool = False,
) -> tuple[Curve, ...]:
    """Return y over x for each value of a column that has rows, under its label and with its look."""
    found = []
    for value, (label, look) in looks.items():
        samples = {at: change(s) for at, s in rows.where(**{column: value}).by(x, y).items()}
        if samples:
            found.append(Curve.of(label, look, samples, medians=medians))
    return tuple(found)


def heights(lines: Sequence[Curve]) -> list[float]:
    """All y of curves."""
    return [float(y) for curve in lines for y in curve.y]


def beyond(lines: Sequence[Curve], top: float, *, below: bool = False) -> Callable[[Any], None]:
    """Paint what leaves the frame as arrows at its edge, with the numbers that they stand for."""

    def paint(axes: Any) -> None:
        place = 0
        for line in lines:
            gone = [(x, y) for x, y in zip(line.x, line.y, strict=True) if (y < top if below else y > top)]
            if not gone:
                continue
            edge = 0.02 if below else 0.98
            for x, _ in gone:
                axes.plot(
                    [x], [edge], marker="v" if below else "^", color=line.look.colour, markersize=5.0,
                    linestyle="", transform=axes.get_xaxis_transform(), clip_on=False,
                )  # fmt: skip
            values = sorted(y for _, y in gone)
            reach = f"{values[0]:.3g}" if len(gone) == 1 else f"{values[0]:.3g} to {values[-1]:.3g}"
            axes.text(
                0.98, (0.06 + 0.07 * place) if below else (0.90 - 0.07 * place), f"{line.label}: {reach}",
                transform=axes.transAxes, ha="right", fontsize=6.5, color=line.look.colour,
            )  # fmt: skip
            place += 1

    return paint


def section(figure: Figure, rows: RowTable, *, drawn: bool) -> str:
    """Text of a figure."""
    parts = [f"## {figure.title}", f"Settings: {figure.settings}"]
    if drawn and figure.panels is not None:
        parts.append(f"![{figure.title}]({figure.name}.png)")
    for number, finding in enumerate(figure.findings(rows), start=1):
        text = (
            f"{number}. **Claim**: {finding.claim}\n   **Measured**: {finding.measured}\n"
            f"   **{finding.verdict.capitalize()}.**"
        )
        parts.append(text + (f" {finding.why}" if finding.why else ""))
    parts += [figure.tables(rows), f"Figures: `{figure.name}.csv`, {len(rows)} rows."]
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


def verdict_on_sizes(good: int, places: int, rows: RowTable) -> Verdict:
    """Verdict where means are held against a size: of a single seed nothing is decided."""
    return verdict_of(good, places) if len(rows.distinct("seed")) > 1 else "not decided"


def verdict_on(found: Contest) -> Verdict:
    """Verdict on the claim that one thing is below another: level places refute it only where all are alike."""
    if found.below == found.above == 0 and found.alike < found.level:
        return "not decided"
    return verdict_of(found.below, found.places, found.above)


def told(claim: str, found: Contest, lead: str, why: str = "", *, end: str = "", decided: bool = True) -> Finding:
    """Finding on the claim that one thing is below another, measured in words between ``lead`` and ``end``."""
    return Finding(claim, verdict_on(found) if decided else "not decided", f"{lead}{found.words}{end}", why)
