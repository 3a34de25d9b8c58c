"""A comparison from its words to its files: check all, choose settings, run what is missing, sum up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.figures import CompareResult, Failed, Line, Row, line_of, row_of, to_csv
from admmnet.experiments.folder import (
    FILE,
    clear,
    locked,
    read_agreeing,
    settings_of,
    summary_of,
    write_whole,
)
from admmnet.experiments.grid import Case, Cell, Comparison, Grid
from admmnet.experiments.parsing import Values, said
from admmnet.experiments.picture import drawable, picture_of
from admmnet.experiments.pool import Failure, Pool, Task
from admmnet.experiments.progress import Watch
from admmnet.experiments.tasks import CheckTask, CostTask, RunTask, Survey, SurveyTask
from admmnet.experiments.tuning import Choice, choose
from admmnet.report.figure import REMEDY, save

SIMULATION = "the seeds can regenerate the noise: a comparison is a simulation, not a private release"


def compare(
    comparison: Comparison, *, jobs: int | None = None, plot: Path | None = None, watch: Watch | None = None
) -> CompareResult:
    """Run what is missing of a grid of seeded runs, and write the table and the picture.

    Parameters
    ----------
    comparison : Comparison
        What is to be compared, and where it is kept.
    jobs : int, optional
        Processes; by default as many as this process may use processors. With more than one, a script must
        call this under ``if __name__ == "__main__"``.
    plot : Path, optional
        A further file for the picture: .png, .svg or .pdf.
    watch : Watch, optional
        Is told of progress.

    Returns
    -------
    CompareResult
        Also of what failed.

    Raises
    ------
    RequestError
        If the words, the data or the folder are wrong, or anything was different in an earlier call.
    BudgetError
        If a method affords no round at an epsilon, naming both; nothing has been run then.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    grid, folder, watch = Grid(comparison), Path(comparison.out), watch or Watch()
    pictures = [folder / "compare.png", *([plot] if plot else [])]
    able = drawable(folder, plot)
    read_agreeing(folder, settings_of(grid))
    if jobs is not None and jobs < 1:
        raise RequestError(f"--jobs {jobs} is not allowed: it must be a whole number, at least 1")
    with Pool(jobs or processors()) as pool:
        session = _Session(grid, folder, pool, watch)
        session.check()
        with locked(folder):
            session.begin()
            session.tune()
            session.run()
            return session.end(pictures if able else None)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Session:
    """One call of ``compare``: what it has found so far."""

    def __init__(self, grid: Grid, folder: Path, pool: Pool, watch: Watch) -> None:
        self.grid, self.folder, self.pool, self.watch = grid, folder, pool, watch
        self.surveys: tuple[Survey, ...] = ()
        self.choices: dict[Case, Choice] = {}
        self.failed: list[Failed] = []
        self.rows: dict[Cell, Row] = {}

    def _work(self, phase: str, tasks: Sequence[Task], done: int = 0) -> Iterator[tuple[int, Any]]:
        self.watch.phase(phase, len(tasks) + done, done)
        for number, answer in self.pool.run(tasks):
            self.watch.step(tasks[number].words)
            yield number, answer

    def _summary(self, cell: Cell) -> dict[str, Any] | None:
        return summary_of(self.folder / self.grid.folder(cell))

    def check(self) -> None:
        """Load the data and decide everything that precedes any run; the first refusal is raised."""
        grid = self.grid
        tasks: list[Task] = [
            SurveyTask("the data", replace(grid.sample, data_seed=data_seed)) for data_seed in grid.data_seeds
        ]
        for case in grid.cases():
            unfinished = [cell for cell in grid.possible(case) if self._summary(cell) is None]
            if unfinished:
                cells = tuple((cell.words, grid.config(cell), cell.trial) for cell in unfinished)
                tasks.append(CheckTask(case.words, cells))
        answers = dict(self._work("checking", tasks))
        for number in range(len(tasks)):
            if isinstance(answers[number], Failure):
                raise answers[number].error()
        self.surveys = tuple(answers[number] for number in range(len(grid.data_seeds)))
        if grid.delta is None:
            surveys = self.surveys
            grid.choose_delta(min(found.smallest for found in surveys), min(found.train for found in surveys))

    def begin(self) -> None:
        """Claim the folder: compare.json is the first file in it."""
        earlier = read_agreeing(self.folder, settings_of(self.grid))  # again: now nobody else can write it
        known = {} if earlier is None else {data["data_seed"]: data for data in earlier["data"]}
        for survey in self.surveys:
            if known.get(survey.data_seed, {}).get("digest", survey.digest) != survey.digest:
                raise RequestError(
                    f"the records of {survey.name} are not those that {self.folder} was made with: name another "
                    "folder with -o"
                )
        self._note([] if earlier is None else earlier["tuning"])

    def _note(self, tuning: list[Any]) -> None:
        content = {
            "settings": settings_of(self.grid),
            "data": [asdict(survey) for survey in self.surveys],
            "tuning": tuning,
        }
        write_whole(self.folder / FILE, json.dumps(content, indent=2) + "\n")

    def _run(self, phase: str, cells: Sequence[Cell], done: int) -> None:
        """Run cells that have not finished; failures are kept for the end."""
        tasks: list[Task] = []
        for cell in cells:
            clear(self.folder / self.grid.folder(cell))
            place = self.folder / self.grid.folder(cell)
            tasks.append(RunTask(cell.words, self.grid.config(cell), place, cell.trial))
        for number, answer in self._work(phase, tasks, done):
            if isinstance(answer, Failure):
                self.failed.append(Failed(cells[number].words, answer.message, answer.trace))

    def tune(self) -> None:
        """Run the trials and choose; a case with a failed trial stays without a choice."""
        grid = self.grid
        tuned = [case for case in grid.cases() if grid.tuned(case.entry)]
        trials = [cell for case in tuned for cell in grid.trials(case)]
        missing = [cell for cell in trials if self._summary(cell) is None]
        if missing:
            self._run("trials", missing, len(trials) - len(missing))
        for case in tuned:
            errors: dict[Values, list[float]] = {values: [] for values in grid.candidates[case.entry]}
            for cell in grid.trials(case):
                if (summary := self._summary(cell)) is not None:
                    errors[cell.values].append(summary["test_error"]["consensus"])
            if all(len(found) == grid.comparison.tune_seeds for found in errors.values()):
                self.choices[case] = choose(case, errors)
        self._price()
        if tuned:
            self._note([choice.as_dict() for choice in self.choices.values()])

    def _price(self) -> None:
        grid = self.grid
        priced = [choice for choice in self.choices.values() if choice.case.entry.private]
        tasks = [
            CostTask(
                choice.case.words,
                tuple(grid.config(cell) for cell in grid.trials(choice.case)),
                tuple(grid.config(cell) for cell in grid.runs(choice.case, choice.values)),
            )
            for choice in priced
        ]
        if not tasks:
            return
        for number, answer in self._work("cost of tuning", tasks):
            if isinstance(answer, Failure):
                raise answer.error()
            case = priced[number].case
            self.choices[case] = replace(priced[number], cost_proven=answer[0], cost_published=answer[1])

    def _cells(self) -> list[Cell]:
        """All runs, seeds outermost: an interrupted grid has all methods at its first seeds."""
        cells = []
        for case in self.grid.cases():
            if not self.grid.tuned(case.entry):
                cells += self.grid.runs(case, self.grid.candidates[case.entry][0])
            elif case in self.choices:
                cells += self.grid.runs(case, self.choices[case].values)
            else:
                self.failed.append(Failed(case.words, "not run, because trials of it failed"))
        return sorted(cells, key=lambda cell: cell.seed)

    def run(self) -> None:
        """Run what is missing."""
        cells = self._cells()
        missing = [cell for cell in cells if self._summary(cell) is None]
        try:
            self._run("runs", missing, len(cells) - len(missing))
        finally:  # an interrupted grid has its table, too: of every run that finished, heard of or not
            for cell in cells:
                if (summary := self._summary(cell)) is not None:
                    self.rows[cell] = row_of(cell, summary)
            write_whole(self.folder / "compare.csv", to_csv(self._sorted()))

    def _sorted(self) -> list[Row]:
        order = {entry: number for number, entry in enumerate(self.grid.entries)}
        cells = sorted(self.rows, key=lambda c: (order[c.case.entry], c.case.epsilon or 0.0, c.seed))
        return [self.rows[cell] for cell in cells]

    def lines(self) -> tuple[Line, ...]:
        """A line for each method and epsilon that has runs."""
        found = []
        for entry in self.grid.entries:
            for epsilon in self.grid.epsilons if entry.private else (None,):
                rows = [
                    row for c, row in self.rows.items() if (c.case.entry, c.case.epsilon) == (entry, epsilon)
                ]
                if rows:
                    found.append(line_of(entry, epsilon, rows))
        return tuple(found)

    def _relations(self) -> tuple[str, ...]:
        """Say which epsilons are not for replace-one, the relation of the network."""
        weaker = [
            cell.case.entry.text
            for cell, row in self.rows.items()
            if cell.case.entry.private and row.adjacency == "zero-out"
        ]
        if not weaker:
            return ()
        names = ", ".join(entry.text for entry in self.grid.entries if entry.text in weaker)
        return (
            f"the epsilons of {names} are for zero-out, a record against none; for replace-one, the relation of the "
            "network methods, double epsilon and multiply delta by 1 + e^epsilon",
        )

    def end(self, pictures: list[Path] | None) -> CompareResult:
        """Sum up and draw."""
        grid = self.grid
        notes = [note for survey in self.surveys for note in survey.notes]
        notes += [
            f"{entry.text} runs with {said(grid.candidates[entry][0])}"
            for entry in grid.entries
            if grid.candidates[entry] != ((),) and not grid.tuned(entry)
        ]
        assert grid.delta is not None  # check came first
        result = CompareResult(
            self.folder,
            grid.delta,
            self.surveys,
            tuple(self._sorted()),
            self.lines(),
            tuple(self.choices.values()),
            tuple(self.failed),
            tuple(dict.fromkeys((*notes, *self._relations(), SIMULATION))),
            (),
            None,
        )
        if pictures is None:
            again = "and make the same call again: finished runs are not repeated"
            return replace(result, undrawn=f"no picture was drawn: {REMEDY}, {again}")
        picture = picture_of(result, grid)
        if picture is None:
            return replace(result, undrawn="no picture was drawn: nothing that has an epsilon has finished")
        try:
            for path in pictures:
                save(path, picture)
        except AdmmnetError as error:  # the table is worth having without it
            return replace(result, failed=(*result.failed, Failed("the picture", str(error))))
        return replace(result, pictures=tuple(pictures))
