"""A comparison from its words to its files: choose settings, run what is missing, sum up what is there."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from admmnet.config.defaults import with_delta
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.experiments.figures import COLUMNS, Choice, CompareResult, Line, facts_of, row_of
from admmnet.experiments.folder import csv_text, locked, read_about
from admmnet.experiments.grid import Case, Cell, Comparison, Grid
from admmnet.experiments.holdout import Reader, load_for
from admmnet.experiments.parsing import Values, said
from admmnet.experiments.picture import drawable, picture_of
from admmnet.experiments.pool import Call, Failure, Pool
from admmnet.experiments.progress import Watch
from admmnet.experiments.tasks import cost, counted, run_cell
from admmnet.files import load_json, refusing, write_whole
from admmnet.record.folder import is_held
from admmnet.record.manifest import FILES, MANIFEST
from admmnet.report.figure import REMEDY, save

FILE = "compare.json"
SIMULATION = "the seeds can regenerate the noise: a comparison is a simulation, not a private release"
WHOLE = (1, 1)


def compare(
    comparison: Comparison,
    *,
    jobs: int | None = None,
    plot: Path | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
    part: tuple[int, int] = WHOLE,
    reader: Reader = load_for,
) -> CompareResult:
    """Run what is missing of a grid of seeded runs, write the table and the picture, and say what failed.

    With more than one process (``jobs``, by default as many as there are processors), a script must call this under
    ``if __name__ == "__main__"``. Runs go over an ``executor`` of ``concurrent.futures`` where one is given, as
    mpi4py's and dask's are. ``part`` (I, N) makes one of N parts of the runs alone, which write into one folder.
    ``plot`` is a further file for the picture: .png, .svg or .pdf; ``watch`` is told of progress. ``reader`` brings
    records in place of the settings', and has to be picklable.

    Raises
    ------
    RequestError
        If the words, the data or the folder are wrong, or anything was different in an earlier call.
    BudgetError
        If no method affords a round at any epsilon, naming the first of both; nothing has been run then.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    able = drawable(Path(comparison.out), plot)
    with Pool(jobs, watch, executor) as pool:
        (session,) = made(pool, [(comparison, reader)], part)
        return session.end(part, plot, able=able)


def made(
    pool: Pool, wanted: Sequence[tuple[Comparison, Reader]], part: tuple[int, int] = WHOLE, *, priced: bool = True
) -> list[Session]:
    """Run what is missing of several comparisons, all of them side by side; ``priced`` as ``Session.choose``."""
    sessions = [Session(Grid(comparison), pool, reader) for comparison, reader in wanted]
    for session in sessions:
        session.begin()
    with ExitStack() as locks:
        for session in sessions:
            locks.enter_context(locked(session.folder, part))
            read_about(session.folder / FILE, session.agree)  # again: now nobody else can write it
            session.note()
        pieces = [(session, session.grid.pieces(part)) for session in sessions]
        try:
            trials = [(session, session.trials(own)) for session, own in pieces]
            if any(cells for _, cells in trials):
                _complete(pool, "trials", trials)
                for session, own in pieces:
                    session.choose([case for case, _ in own], priced=priced)
            _complete(pool, "runs", [(session, session.runs(own)) for session, own in pieces])
        finally:  # an interrupted grid has its table, too: of every run that finished, heard of or not
            for session in sessions:
                session.table()
    return sessions


def _complete(pool: Pool, phase: str, wanted: Sequence[tuple[Session, Sequence[Cell]]]) -> None:
    """Run cells that have not finished, in place of what they have left."""
    tasks: list[tuple[Session, Cell, Call]] = []
    for session, cells in wanted:
        for cell in cells:
            if session.summary(cell) is None:
                place = session.folder / cell.folder
                _clear(place)
                given = session.grid.config(cell), place, cell.trial
                tasks.append((session, cell, Call(cell.words, run_cell, given, session.read)))
    there = sum(len(cells) for _, cells in wanted) - len(tasks)
    for number, answer in pool.run([call for _, _, call in tasks], phase, there):
        if isinstance(answer, Failure):
            session, cell, _ = tasks[number]
            session.without(cell, answer)


def summed_up(folder: Path, *, jobs: int | None = None, plot: Path | None = None) -> CompareResult:
    """Table and picture of the runs that are in a comparison's folder, such as its parts have left.

    RequestError if it is no folder of a comparison, or no run has finished.
    """
    words: dict[str, Any] = {}
    if read_about(folder / FILE, lambda content: words.update(content["settings"], delta=content["delta"])) is None:
        raise RequestError(f"{folder} holds no {FILE}: name the folder of a comparison, or a file with a grid")
    delta, *_ = words.pop("delta"), words.pop("admmnet"), words.pop("files")
    grid = Grid(Comparison(**words, out=str(folder)))
    grid.delta = delta
    able = drawable(folder, plot)
    with Pool(jobs) as pool, locked(folder):
        session = Session(grid, pool)
        session.choose(case for case, _ in grid.pieces())
        return session.end(WHOLE, plot, able=able)


class Session:
    """One call of ``compare``: what it has found so far."""

    def __init__(self, grid: Grid, pool: Pool, read: Reader = load_for) -> None:
        self.grid, self.folder, self.pool, self.read = grid, grid.folder, pool, read
        self.choices: dict[Case, Choice] = {}
        self.failed: dict[str, Failure] = {}

    def begin(self) -> None:
        """Read the data, and choose delta where it is open: one for all methods, by the smallest agent's records."""
        grid = self.grid
        read_about(self.folder / FILE, self.agree)
        counts = self.answers([Call("the data", counted, (one,), self.read) for one in grid.samples()])
        if grid.delta is None:
            every = [sum(own) if grid.pooled else min(own) for own in counts]
            grid.delta = float(with_delta(grid.sample, every).delta)

    def agree(self, content: dict[str, Any]) -> None:
        """Refuse a folder that was made with other words."""
        self.grid.agree(content["settings"])

    def answers(self, tasks: Sequence[Call]) -> list[Any]:
        """Answers of all tasks in their order; the first refusal is raised."""
        answers = dict(self.pool.run(tasks))
        for number in range(len(tasks)):
            if isinstance(answers[number], Failure):
                raise answers[number].error()
        return [answers[number] for number in range(len(tasks))]

    def note(self, **found: Any) -> None:
        """Write compare.json: it is the first file in the folder."""
        content = {"settings": self.grid.words, "delta": self.grid.delta, **found}
        write_whole({self.folder / FILE: (json.dumps(content, indent=2, default=str) + "\n").encode()})

    def summary(self, cell: Cell) -> dict[str, Any] | None:
        """Summary of a finished run, None if it has not finished."""
        try:
            summary = load_json((self.folder / cell.folder / "summary.json").read_bytes())
        except (OSError, ValueError):
            return None
        return summary if isinstance(summary, dict) and "test_error" in summary else None

    def without(self, cell: Cell, failure: Failure) -> None:
        """Keep why a cell has not finished; what is refused is left out from then."""
        if failure.code == RunError.exit_code:
            self.failed[cell.words] = failure
        else:
            self.grid.refuse(cell.case, cell.values, replace(failure, message=f"{cell.words}: {failure.message}"))

    def trials(self, pieces: Sequence[tuple[Case, list[int]]]) -> list[Cell]:
        """Trials of these pieces."""
        tuned = dict.fromkeys(case for case, _ in pieces if self.grid.tuned(case.entry))
        return [cell for case in tuned for cell in self.grid.trials(case)]

    def runs(self, pieces: Sequence[tuple[Case, list[int]]]) -> list[Cell]:
        """Runs of these pieces, seeds outermost."""
        cells = [replace(own, seed=seed) for case, seeds in pieces for own in self.chosen(case) for seed in seeds]
        return sorted(cells, key=lambda cell: cell.seed)

    def chosen(self, case: Case) -> list[Cell]:
        """A cell of a case with the settings that its runs have; none while they are not known."""
        if not self.grid.tuned(case.entry):
            return [Cell(case, 0, values) for values in self.grid.tried(case)]
        if case in self.choices:
            return [Cell(case, 0, self.choices[case].values)]
        if self.grid.tried(case):
            self.failed[case.words] = Failure(RunError.exit_code, "not run, because trials of it failed")
        return []

    def choose(self, cases: Iterable[Case], *, priced: bool = True) -> None:
        """Choose for each tuned case what has the least mean validation error; of equals the first.

        ``priced``: say what all trials and a final run would cost together.
        """
        grid, tuned = self.grid, [case for case in dict.fromkeys(cases) if self.grid.tuned(case.entry)]
        for case in tuned:
            errors: dict[Values, list[float]] = {values: [] for values in grid.tried(case)}
            for cell in grid.trials(case):
                if (summary := self.summary(cell)) is not None:
                    errors[cell.values].append(summary["test_error"]["consensus"])
            if errors and all(len(found) == grid.comparison.tune_seeds for found in errors.values()):
                values, means = best_of(errors)
                self.choices[case] = Choice(case, values, means, len(grid.trials(case)))
        costly = [choice for choice in self.choices.values() if priced and choice.case.entry.private]
        tasks = []
        for case, values, *_ in costly:
            seeds = [seed for seed in grid.seeds if grid.data_seed(seed) == case.data_seed]
            finals = tuple(grid.config(Cell(case, seed, values)) for seed in seeds)
            trials = tuple(map(grid.config, grid.trials(case)))
            tasks.append(Call(case.words, cost, (trials, finals), self.read))
        for choice, costs in zip(costly, self.answers(tasks) if tasks else (), strict=True):
            self.choices[choice.case] = choice._replace(cost_proven=costs[0], cost_published=costs[1])

    def table(self) -> dict[Cell, dict[str, Any]]:
        """Summaries of all runs that are there, in the order of the words; compare.csv has them, too."""
        order = {entry: number for number, entry in enumerate(self.grid.entries)}
        cells = [
            replace(own, seed=seed) for case, seeds in self.grid.pieces() for own in self.known(case) for seed in seeds
        ]
        cells.sort(key=lambda cell: (order[cell.case.entry], cell.case.epsilon or 0.0, cell.seed))
        found = {cell: summary for cell in cells if (summary := self.summary(cell)) is not None}
        rows = (row_of(cell, summary).values() for cell, summary in found.items())
        write_whole({self.folder / "compare.csv": csv_text(COLUMNS, rows).encode()})
        return found

    def known(self, case: Case) -> list[Cell]:
        """As ``chosen``; of a tuned case that another part has chosen for, whose folders do not name what it chose."""
        return [Cell(case, 0)] if self.grid.tuned(case.entry) and case not in self.choices else self.chosen(case)

    def end(self, part: tuple[int, int], plot: Path | None, *, able: bool) -> CompareResult:
        """Sum up and draw."""
        grid, found = self.grid, self.table()
        wanted = sum(len(seeds) for _, seeds in grid.pieces())
        if not found and part == WHOLE and not self.failed:
            raise (grid.first_refusal() if grid.refused else RequestError(f"no run in {self.folder} has finished"))
        rows = {cell: row_of(cell, summary) for cell, summary in found.items()}
        places = dict.fromkeys((cell.case.entry, cell.case.epsilon) for cell in rows)
        lines = [Line(*at, tuple(row for cell, row in rows.items() if cell.case[:2] == at)) for at in places]
        splits: dict[int, list[dict[str, Any]]] = {}
        for cell, summary in found.items():
            splits.setdefault(cell.case.data_seed, []).append(summary)
        assert grid.delta is not None
        result = CompareResult(
            folder=self.folder,
            delta=grid.delta,
            data=tuple(facts_of(own, seed) for seed, own in sorted(splits.items())),
            rows=rows,
            lines=tuple(lines),
            choices=tuple(self.choices.values()),
            failed=self.failed,
            refused={
                at: next(iter(reasons.values()))
                for at, reasons in grid.refused.items()
                if len(reasons) == len(grid.candidates[at[0]])
            },
            missing=wanted - len(found),
            notes=tuple(self._notes([*found.values()])),
            pictures=(),
            undrawn=None,
        )
        result = _drawn(result, plot, able=able)
        self.note(**{name: value for name, value in result.as_dict().items() if name != "delta"})
        return result

    def _notes(self, summaries: Sequence[dict[str, Any]]) -> Iterable[str]:
        grid = self.grid
        for note in summaries[0]["notes"] if summaries else ():
            if all(note in summary["notes"] for summary in summaries):
                yield note
        for entry in grid.entries:
            if grid.candidates[entry] != ((),) and not grid.tuned(entry):
                yield f"{entry.text} runs with {said(grid.candidates[entry][0])}"
        if grid.fixed:
            yield (
                f"all methods see the same rows: {said(tuple(grid.fixed.items()))}, which `admmnet run` chooses by "
                "auto; a flag says otherwise"
            )
        for (entry, _), reasons in grid.refused.items():
            if len(reasons) < len(grid.candidates[entry]):
                yield from (f"not tried: {failure.message}" for failure in reasons.values())
        weaker = {s["algorithm"] for s in summaries if s["privacy"]["adjacency"] == "zero-out"}
        names = ", ".join(entry.text for entry in grid.entries if entry.private and entry.algorithm in weaker)
        if names:
            yield (
                f"the epsilons of {names} are for zero-out, a record against none; for replace-one, the relation of "
                "the network methods, double epsilon and multiply delta by 1 + e^epsilon"
            )
        yield SIMULATION


def best_of(errors: dict[Values, list[float]]) -> tuple[Values, dict[Values, float]]:
    """Combination of the least mean validation error, and all means; of equals the first, what is no number last."""
    means = {values: fmean(found) for values, found in errors.items()}
    return min(means, key=lambda values: math.inf if math.isnan(means[values]) else means[values]), means


def _drawn(result: CompareResult, plot: Path | None, *, able: bool) -> CompareResult:
    """Draw the picture where that can be."""
    if not able:
        again = "and make the same call again: finished runs are not repeated"
        return replace(result, undrawn=f"no picture was drawn: {REMEDY}, {again}")
    picture, pictures = picture_of(result), (result.folder / "compare.png", *([plot] if plot else []))
    if picture is None:
        return replace(result, undrawn="no picture was drawn: nothing that has an epsilon has finished")
    try:
        for path in pictures:
            save(path, picture)
    except AdmmnetError as error:  # the table is worth having without it
        return replace(result, failed=result.failed | {"the picture": Failure(error.exit_code, str(error))})
    return replace(result, pictures=pictures)


OF_A_RUN = {*FILES, MANIFEST}
"""What a run writes: an unfinished run's folder is removed only if it holds nothing else."""


def _clear(run: Path) -> None:
    if is_held(run):
        raise RequestError(f"{run} is at work in another call: wait for its end")
    with refusing(f"remove the unfinished run {run}"), suppress(FileNotFoundError):
        names = sorted(path.name for path in run.iterdir())
        strange = [name for name in names if name.removesuffix(".new").lstrip(".") not in OF_A_RUN]
        if strange:
            raise RequestError(f"{run} holds {strange[0]}, which no run writes: move it elsewhere and call again")
        shutil.rmtree(run)
