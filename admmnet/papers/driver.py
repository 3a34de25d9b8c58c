"""From a paper's name to its folder: measure what is missing, weigh claims, write CSV, pictures and the report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from admmnet.errors import RequestError, RunError, counted
from admmnet.experiments import Watch
from admmnet.experiments.driver import Session, made
from admmnet.experiments.figures import Row, distinct, guess
from admmnet.experiments.grid import Cell, grids_of
from admmnet.experiments.parsing import name_of
from admmnet.experiments.pool import Call, Pool, begin, refuse_others
from admmnet.files import csv_text, read_toml, write_whole
from admmnet.papers import PAPERS
from admmnet.papers.sources import DataSource
from admmnet.report.figure import Picture, drawn
from admmnet.report.series import metrics
from admmnet.types import Vector
from admmnet.version import __version__

FILE, CLAIMS, REPORT = "reproduce.json", "claims.csv", "report.md"


@dataclass(frozen=True)
class Reproduced:
    """What was made: folder, report and pictures in it, and the claims of each figure by its title.

    ``undrawn`` says why there are no pictures, and the remedy.
    """

    folder: Path
    report: Path
    pictures: tuple[Path, ...]
    claims: dict[str, Sequence[Claim]]
    undrawn: str | None


@dataclass(frozen=True, kw_only=True)
class Figure(Picture):
    """A figure: a picture if it has panels, rows for ``name``.csv, and claims."""

    name: str
    rows: Sequence[Row]
    sources: Sequence[DataSource]
    claims: Sequence[Claim]
    height: float = 2.5


@dataclass(frozen=True)
class Bench:
    """The measurements of one paper below ``folder``: comparisons, and single passes, none of which is made twice."""

    folder: Path
    quick: bool
    data_dir: str | None
    seeds: int | None
    pool: Pool
    refused: list[str] = field(default_factory=list)
    """Methods, each with a reason why it is in no figure at some epsilon."""

    def tables(self, file: str, *variants: str) -> dict[str, Any]:
        """Tables of a grid file of this package, with what [quick] or another variant says in their places.

        A key VARIANT-quick holds in a quick call alone.
        """
        names = [*variants, *(["quick", *(f"{name}-quick" for name in variants)] if self.quick else [])]

        def varied(table: dict[str, Any]) -> dict[str, Any]:
            own = {key: value for key, value in table.items() if key.partition("-")[0] not in ("quick", "other")}
            for key, value in (pair for name in names for pair in table.get(name, {}).items()):
                own[key] = own.get(key, {}) | value if isinstance(value, dict) else value
            return own

        tables = varied(read_toml(Path(__file__).with_name(f"{file}.toml")))
        return tables | {"place": [varied(place) for place in tables.get("place", ())]}

    def compare(
        self, file: str, source: DataSource, *variants: str, place: str | None = None, **filled: str
    ) -> dict[str, Session]:
        """Finished comparisons by the places of a grid file, all or one, on a source's records.

        Texts in braces in ``tune`` are ``filled``.
        """
        tables = self.tables(file, *variants)
        tables["place"] = [own for own in tables["place"] if place in (None, own["name"])]
        for own in tables["place"]:
            own["tune"] = [text.format(**filled) for text in own.get("tune", ())]
        words = {} if self.seeds is None else {"seeds": range(self.seeds)}
        out = str(self.folder / file / name_of(source.title))
        # what is made or cut here is handed over, and the data layer is never asked for it
        read = source if source.made or source.most else None
        settings = {} if read else {**dict(source.settings), "data_dir": source.data_dir, "simulate": True}
        grids = grids_of(tables, Path(f"{file}.toml"), words, settings, out)
        sessions = {name: made(self.pool, one, read=read) for name, one in grids.items()}
        failed = [f"{run}: {error}" for session in sessions.values() for run, error in session.failed.items()]
        if failed:
            raise RunError(f"{len(failed)} failed, first {failed[0]}; the same call tries them again")
        for (entry, epsilon), reasons in (pair for session in sessions.values() for pair in session.refused.items()):
            at = "" if epsilon is None else f" at epsilon {epsilon:g}"
            self.refused.extend(f"{file}, {entry}{at}: {reason}" for reason in reasons.values())
        return sessions

    def passes(
        self, phase: str, function: Callable[..., Any], wanted: Mapping[tuple[Any, ...], tuple[Any, ...]]
    ) -> dict[tuple[Any, ...], Any]:
        """Answers of a function by the words for what it is given."""
        calls = {}
        for words, given in wanted.items():
            data = (str(dict(one.settings).get("data", "")) for one in given if isinstance(one, DataSource))
            calls[name_of(*words)] = Call(name_of(*words), function, given, tuple(data))
        return dict(zip(wanted, self.pool.answers_in(self.folder / phase, calls).values(), strict=True))


def rows_of(session: Session, **facts: Any) -> Iterator[tuple[Cell, Row, dict[str, Any]]]:
    """Cells of a comparison with their rows: what it varies, figures, what these are held against; and summaries."""
    same = ("algorithm", "method", "accountant", "adjacency", "epsilon_target", "colluders", "epsilon_if_all_collude")
    for cell, (row, summary) in session.table().items():
        own = {name: value for name, value in row.items() if name not in same}
        yield cell, facts | {"epsilon": cell.case.epsilon} | own | {"larger_class": guess(summary)}, summary


def course(run: Path, agents: int, column: str) -> list[float]:
    """A column of metrics.csv by round, its mean over the agents."""
    mean: list[float] = metrics(run, agents)[1][column][:, 1:].mean(axis=1).tolist()
    return mean


def seeds_of(rows: Sequence[Row], noun: str = "seed") -> str:
    """Over what the rows are means."""
    return f"Mean and standard deviation over {counted(len(distinct(rows, 'seed')), noun)}"


def reproduce(
    paper: str,
    out: str,
    *,
    quick: bool = False,
    data_dir: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
) -> Reproduced:
    """Make the figures of one of ``PAPERS``, or do so ``quick``, in a folder; the same again goes on with it.

    ``data_dir`` is the folder of the data sets; ``seeds`` are the runs of each point, None for the figure's own number.
    ``jobs``, ``watch`` and ``executor`` are as in ``compare``.

    Raises
    ------
    RequestError
        If a word is wrong, the folder holds something else, a library is missing, or a paper's data are missing
        and nothing can stand in.
    RunError
        If a run failed, or a process was ended from outside; what has finished is kept.
    """
    if paper not in PAPERS:
        raise RequestError(f"{paper!r} is no paper known here: choose one of {', '.join(PAPERS)}")
    if seeds is not None and seeds < 1:
        raise RequestError(f"--seeds {seeds} is not allowed: it must be a whole number, at least 1")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise RequestError(
            f"--data-dir {data_dir}: there is no such folder; name the one that holds the sets, or leave the flag out"
        )
    folder, now = Path(out), {"paper": paper}
    module = import_module(f"admmnet.papers.{paper}")
    needs = [name for name in getattr(module, "NEEDS", ()) if find_spec(name) is None]
    if needs:  # refused before anything is measured
        raise RequestError(
            f"{paper} needs {' and '.join(needs)}, not installed here; run: pip install 'admmnet[baselines]'"
        )
    words = ["admmnet reproduce", paper, *["--quick"] * quick, *([f"--seeds {seeds}"] if seeds else [])]
    with Pool(jobs, watch, executor) as pool:
        begin(folder / FILE, lambda then: refuse_others(folder, {"paper": then["paper"]}, now))
        write_whole({folder / FILE: (json.dumps({"admmnet": __version__} | now) + "\n").encode()})
        bench = Bench(folder / ("quick" if quick else "full"), quick, data_dir, seeds, pool)
        return _write(folder, module.TITLE, " ".join(words), module.figures(bench), bench)


def _write(folder: Path, title: str, words: str, figures: Sequence[Figure], bench: Bench) -> Reproduced:
    quick = " (QUICK: few seeds, few points)" * bench.quick
    parts = [
        f"# {title}{quick}",
        f"Made by `{words}`, admmnet {__version__}. All runs are seeded simulations. ± is one "
        "standard deviation over seeds. What is claimed, and how it is judged: "
        "docs/reproduction.md.",
    ]
    if bench.refused:
        parts.append("In no figure, as settings were refused:\n\n" + "\n".join(f"- {one}" for one in bench.refused))
    pictures, lines, undrawn = [], [], None
    for figure in figures:
        names = list(dict.fromkeys(name for row in figure.rows for name in row))
        table = csv_text(names, (map(row.get, names) for row in figure.rows))
        write_whole({folder / f"{figure.name}.csv": table.encode()})
        lines += [(figure.name, *claim) for claim in figure.claims]
        parts += [f"## {figure.title}", f"Records: {'; '.join(one.words for one in figure.sources)}."]
        if figure.panels:
            file = folder / f"{figure.name}.png"
            undrawn = drawn(replace(figure, title=figure.title + quick), file, dpi=110)
            if undrawn is None:
                pictures.append(file)
                parts.append(f"![{figure.title}]({file.name})")
        cells = [("theirs", "place", "ours", "holds"), ["---"] * 4, *((c[0], c[3], c[1], c[2]) for c in figure.claims)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in cells))
        parts.append(f"Figures: `{figure.name}.csv`, {len(figure.rows)} rows.")
    write_whole({folder / CLAIMS: csv_text(("figure", *Claim._fields), lines).encode()})
    write_whole({folder / REPORT: ("\n\n".join(parts) + "\n").encode()})
    claims = {figure.title + quick: figure.claims for figure in figures}
    return Reproduced(folder, folder / REPORT, tuple(pictures), claims, undrawn)


# claims over seeded values: which differences are clear, and what that says (docs/reproduction.md)

CHANCE = 0.05
"""How often, in both directions together, chance alone gives a difference that is called clear."""
ALIKE = 0.05
"""Relative difference of means that must be ruled out for them to be called alike."""
SAME = 1e-9
"""Relative difference up to which two means are the same number."""
LEAST = 3
"""Trials from which on a comparison tells anything."""
Outcome = Literal["below", "level", "alike", "above"]
"""How a first thing does against a second."""


class Claim(NamedTuple):
    """A claim of a paper: their words, our counts (clearly so, level, clearly the opposite), and whether it holds."""

    theirs: str
    ours: str
    holds: str
    place: str = ""


def claim(theirs: str, outcomes: Iterable[Outcome | None], place: str = "", *, decided: bool = True) -> Claim:
    """Return a claim that each outcome ``below`` is for; without ``decided`` it stays open.

    Too few trials (None) tell nothing. What is level refutes only where all are alike.
    """
    found = Counter(outcomes)
    places, alike = found.total() - found[None], found["alike"]
    level = found["level"] + alike
    ours = f"{found['below']}/{level}/{found['above']}{f', {alike} alike' if alike else ''}"
    if found[None] and not places:
        return Claim(theirs, ours, "too few trials for a verdict", place)
    holds = "open"
    if decided and places and found["below"] == places:
        holds = "holds"
    elif decided and places and (found["above"] > found["below"] or alike == places):
        holds = "does not hold"
    return Claim(theirs, ours, holds, place)


def lower(a: Vector, b: Vector, *, paired: bool = False) -> Outcome | None:
    """Compare two means by Welch's t test, or the paired one for values of the same seeds.

    None for too few trials of either, and for values that are not finite.
    """
    from scipy import stats

    if min(len(a), len(b)) < LEAST or not np.isfinite([*a, *b]).all() or (paired and len(a) != len(b)):
        return None
    gap, size = float(a.mean() - b.mean()), max(abs(a.mean()), abs(b.mean()))
    if abs(gap) <= SAME * size:
        return "alike"
    low = high = gap
    if any(np.ptp(part) for part in ([a - b] if paired else [a, b])):  # else there is no spread to test by
        test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
        low, high = test.confidence_interval(1.0 - CHANCE)
    if low > 0.0 or high < 0.0:
        return "above" if low > 0.0 else "below"
    return "alike" if max(-low, high) <= ALIKE * size else "level"


def steadier(a: Vector, b: Vector) -> Outcome | None:
    """Compare two standard deviations by the F test; None as in ``lower``."""
    from scipy import stats

    if min(len(a), len(b)) < LEAST or not np.isfinite([*a, *b]).all():
        return None
    first, second = np.var(a, ddof=1), np.var(b, ddof=1)
    if first == second or second == 0.0:
        return "alike" if first == second else "above"
    tail = stats.f.cdf(first / second, len(a) - 1, len(b) - 1)
    if min(tail, 1.0 - tail) >= CHANCE / 2.0:
        return "level"
    return "below" if tail < 0.5 else "above"


def against(first: Mapping[Any, Vector], second: Mapping[Any, Vector]) -> list[Outcome | None]:
    """Compare means wherever both are known."""
    return [lower(values, second[at]) for at, values in first.items() if at in second]


def sized(met: Iterable[bool], rows: list[Row]) -> list[Outcome | None]:
    """Places where means keep a size, and where not; too few seeds tell nothing."""
    few = len(distinct(rows, "seed")) < LEAST
    return [None if few else "below" if one else "above" for one in met]
