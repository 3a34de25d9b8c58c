"""What a paper module hands over for each figure: rows, claims as predicates over them, tables and panels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from admmnet.papers.sources import DataSource
from admmnet.papers.statistics import LEAST, Contest, Outcome, Sample, counted
from admmnet.papers.tables import Row, RowTable, grid_table, markdown
from admmnet.report.figure import Curve, Look, Panel, Picture

Verdict = Literal["holds", "open", "does not hold", "too few trials for a verdict"]
Panels = Sequence[Sequence[Panel]]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and in how many comparisons it is clear, neither, or its opposite clear.

    ``place`` says where it is asked: data set, reading of epsilon. Where nothing was ``learned``, or an optimum lies at
    a grid's end, it stays open.
    """

    words: str
    found: Contest
    place: str = ""
    learned: bool = True

    @property
    def verdict(self) -> Verdict:
        """Too few trials tell nothing; what is level refutes only where all are alike (docs/reproduction.md)."""
        clear, level, against, alike, untold = self.found
        if untold and not self.found.places:
            return "too few trials for a verdict"
        if not self.found.places or not self.learned:
            return "open"
        if clear == self.found.places:
            return "holds"
        return "does not hold" if against > clear or (clear == 0 and alike == level) else "open"

    def row(self, figure: str) -> Row:
        """Line of claims.csv."""
        numbers = dict(zip(("clear", "level", "against", "alike", "untold"), self.found, strict=True))
        return {"figure": figure, "claim": self.words, "place": self.place, "verdict": self.verdict} | numbers


def sized(met: Iterable[bool], rows: RowTable) -> Contest:
    """Places where means keep a size, and where not; too few seeds tell nothing."""
    few = len(rows.distinct("seed")) < LEAST
    found: list[Outcome | None] = [None if few else "below" if one else "above" for one in met]
    return counted(found)


@dataclass(frozen=True)
class SummaryTable:
    """Summed-up values: a line for each value of one column, a column for each of another.

    There is one for each value of the columns ``by``; ``of`` says which rows it is made of.
    """

    title: str
    line: str
    column: str
    value: str
    show: Callable[[Sample], str]
    by: tuple[str, ...] = ("reading",)
    of: Callable[[RowTable], RowTable] = RowTable

    def markdown(self, rows: RowTable) -> Iterator[str]:
        """Return each table under its title."""
        for place, own in self.of(rows).split(*self.by) if self.by else [("", self.of(rows))]:
            words = ", ".join(map(str, place)) if isinstance(place, tuple) else place
            yield f"{self.title}{', ' if words else ''}{words}:"
            yield grid_table(own, self.line, self.column, self.value, self.show)


@dataclass(frozen=True)
class Figure:
    """A figure: rows to be written to ``name``.csv, and what to make of them once they have been read back.

    ``sources`` are where the records come from; ``panels`` are lines of panels, each ``height`` inches high, None for
    a table alone; ``note`` is what must be known to quote the picture.
    """

    name: str
    title: str
    rows: Sequence[Row]
    sources: Sequence[DataSource]
    claims: Callable[[RowTable], Iterable[Claim]]
    tables: Sequence[SummaryTable] = ()
    panels: Callable[[RowTable], Panels] | None = None
    note: Callable[[RowTable], str] = lambda rows: ""
    height: float = 2.5

    def picture(self, rows: RowTable) -> Picture | None:
        """Picture of rows read back."""
        if self.panels is None:
            return None
        return Picture(self.title, tuple(map(tuple, self.panels(rows))), self.note(rows), self.height)

    def section(self, rows: RowTable, claims: Sequence[Claim], *, drawn: bool) -> str:
        """Part of report.md."""
        parts = [f"## {self.title}", f"Records: {'; '.join(source.words for source in self.sources)}."]
        if drawn and self.panels is not None:
            parts.append(f"![{self.title}]({self.name}.png)")
        columns = ("claim", "place", "verdict", "clear", "level", "against")
        parts.append(markdown(columns, ([str(one.row("")[name]) for name in columns] for one in claims)))
        parts += [text for table in self.tables for text in table.markdown(rows)]
        return "\n\n".join([*parts, f"Figures: `{self.name}.csv`, {len(rows)} rows."])


def each(claims: Callable[[RowTable, Any], Iterable[Claim]], by: str = "reading") -> Callable[[RowTable], list[Claim]]:
    """Claims of every part of the rows, which are told the value that it has in column ``by``."""
    return lambda rows: [claim for value, own in rows.split(by) for claim in claims(own, value)]


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
    edge, marker, start, step = (0.02, "v", 0.06, 0.07) if below else (0.98, "^", 0.90, -0.07)

    def paint(axes: Any) -> None:
        place = start
        for line in lines:
            gone = sorted((y, x) for x, y in zip(line.x, line.y, strict=True) if (y < top if below else y > top))
            if not gone:
                continue
            look = {"marker": marker, "color": line.look.colour, "markersize": 5.0, "linestyle": ""}
            axes.plot([x for _, x in gone], [edge] * len(gone), transform=axes.get_xaxis_transform(), **look)
            ends = dict.fromkeys(f"{y:.3g}" for y, _ in (gone[0], gone[-1]))
            words = {"ha": "right", "fontsize": 6.5, "color": line.look.colour}
            axes.text(0.98, place, f"{line.label}: {' to '.join(ends)}", transform=axes.transAxes, **words)
            place += step

    return paint
