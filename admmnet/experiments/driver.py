"""A comparison from its words to its files: check all, choose settings, run what is missing, sum up."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.experiments.figures import CompareResult, Failed, Line, Refused, Row, line_of, row_of, to_csv
from admmnet.experiments.folder import locked, read_about
from admmnet.experiments.grid import Case, Cell, Comparison, Grid
from admmnet.experiments.parsing import Entry, Values, said
from admmnet.experiments.picture import drawable, picture_of
from admmnet.experiments.pool import Call, Failure, Pool
from admmnet.experiments.progress import Watch
from admmnet.experiments.tasks import Survey, check, cost, run_cell, survey
from admmnet.experiments.tuning import Choice, best_of
from admmnet.files import load_json, refusing, write_whole
from admmnet.record.manifest import FILES, MANIFEST
from admmnet.report.figure import REMEDY, save

FILE = "compare.json"
SIMULATION = "the seeds can regenerate the noise: a comparison is a simulation, not a private release"


def compare(
    comparison: Comparison,
    *,
    jobs: int | None = None,
    plot: Path | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
) -> CompareResult:
    """Run what is missing of a grid of seeded runs, write the table and the picture, and say what failed.

    With more than one process (``jobs``, by default as many as there are processors), a script must call this under
    ``if __name__ == "__main__"``. ``plot`` is a further file for the picture: .png, .svg or .pdf; ``watch`` is told of
    progress. Runs go over an ``executor`` of ``concurrent.futures`` where one is given, as mpi4py's and dask's are.

    Raises
    ------
    RequestError
        If the words, the data or the folder are wrong, or anything was different in an earlier call.
    BudgetError
        If no method affords a round at any epsilon, naming the first of both; nothing has been run then.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    grid, folder = Grid(comparison), Path(comparison.out)
    pictures = [folder / "compare.png", *([plot] if plot else [])]
    able = drawable(folder, plot)
    with Pool(jobs, watch, executor) as pool:
        session = _Session(grid, folder, pool)
        session.earlier()
        if able and pool.jobs > 1:  # imported while the processes work
            threading.Thread(target=import_module, args=("matplotlib.figure",), daemon=True).start()
        session.check()
        with locked(folder):
            session.begin()
            session.tune()
            session.run()
            return session.end(pictures if able else None)


class _Session:
    """One call of ``compare``: what it has found so far."""

    def __init__(self, grid: Grid, folder: Path, pool: Pool) -> None:
        self.grid, self.folder, self.pool = grid, folder, pool
        self.surveys: tuple[Survey, ...] = ()
        self.choices: dict[Case, Choice] = {}
        self.failed: list[Failed] = []
        self.rows: dict[Cell, Row] = {}

    def earlier(self) -> dict[str, Any] | None:
        """Content of an earlier call's compare.json; refused where its settings were others."""

        def agree(content: dict[str, Any]) -> None:
            self.grid.agree(content["settings"], str(self.folder))

        return read_about(self.folder / FILE, agree)

    def _answers(self, phase: str, tasks: Sequence[Call]) -> list[Any]:
        """Answers of all tasks in their order; the first refusal is raised."""
        answers = dict(self.pool.run(tasks, phase))
        for number in range(len(tasks)):
            if isinstance(answers[number], Failure):
                raise answers[number].error()
        return [answers[number] for number in range(len(tasks))]

    def check(self) -> None:
        """Load the data and decide everything that precedes any run; what cannot run is left out."""
        grid, tasks = self.grid, dict[tuple[Case, Values], Call]()
        for case in grid.cases():
            for values, cells in grid.possible(case).items():
                missing = [cell for cell in cells if self._summary(cell) is None]
                if missing:
                    settings = tuple((cell.words, grid.config(cell), cell.trial) for cell in missing)
                    tasks[case, values] = Call(case.words, check, (settings,))
        answers = dict(self.pool.run([*tasks.values()], "checking"))
        for number, place in enumerate(tasks):
            if isinstance(failure := answers[number], Failure):
                error = failure.error()
                if isinstance(error, RunError):
                    raise error
                grid.refuse(*place, error)
        splits = [Call("the data", survey, (replace(grid.sample, data_seed=seed),)) for seed in grid.data_seeds]
        self.surveys = tuple(self._answers("the data", splits))
        if grid.delta is None:
            surveys = self.surveys
            grid.choose_delta(min(found.smallest for found in surveys), min(found.train for found in surveys))

    def begin(self) -> None:
        """Claim the folder: compare.json is the first file in it."""
        earlier = self.earlier()  # again: now nobody else can write it
        known = {} if earlier is None else {data["data_seed"]: data for data in earlier["data"]}
        for found in self.surveys:
            if known.get(found.data_seed, {}).get("digest", found.digest) != found.digest:
                raise RequestError(
                    f"the records of {found.name} are not those that {self.folder} was made with: name another "
                    "folder with -o"
                )
        self._note([] if earlier is None else earlier["tuning"])

    def _note(self, tuning: list[Any]) -> None:
        content = {"settings": self.grid.settings, "data": [asdict(found) for found in self.surveys], "tuning": tuning}
        write_whole({self.folder / FILE: (json.dumps(content, indent=2) + "\n").encode()})

    def _summary(self, cell: Cell) -> dict[str, Any] | None:
        """Summary of a finished run, None if it has not finished."""
        try:
            summary = load_json((self.folder / self.grid.folder(cell) / "summary.json").read_bytes())
        except (OSError, ValueError):
            return None
        return summary if isinstance(summary, dict) and "test_error" in summary else None

    def _complete(self, phase: str, cells: Sequence[Cell]) -> None:
        """Run cells that have not finished, in place of what they have left; failures are kept for the end."""
        missing = [cell for cell in cells if self._summary(cell) is None]
        places = [self.folder / self.grid.folder(cell) for cell in missing]
        for place in places:
            _clear(place)
        tasks = [
            Call(cell.words, run_cell, (self.grid.config(cell), place, cell.trial))
            for cell, place in zip(missing, places, strict=True)
        ]
        for number, answer in self.pool.run(tasks, phase, len(cells) - len(missing)):
            if isinstance(answer, Failure):
                self.failed.append(Failed(missing[number].words, answer.message, answer.trace))

    def tune(self) -> None:
        """Run the trials and choose; a case with a failed trial stays without a choice."""
        grid = self.grid
        tuned = [case for case in grid.cases() if grid.tuned(case.entry)]
        if not tuned:
            return
        self._complete("trials", [cell for case in tuned for cell in grid.trials(case)])
        for case in tuned:
            errors: dict[Values, list[float]] = {values: [] for values in grid.tried(case)}
            for cell in grid.trials(case):
                if (summary := self._summary(cell)) is not None:
                    errors[cell.values].append(summary["test_error"]["consensus"])
            if all(len(found) == grid.comparison.tune_seeds for found in errors.values()):
                values, means = best_of(errors)
                self.choices[case] = Choice(case, values, tuple(means.items()), len(grid.trials(case)))
        priced = [choice for choice in self.choices.values() if choice.case.entry.private]
        tasks = [
            Call(
                choice.case.words,
                cost,
                (
                    tuple(grid.config(cell) for cell in grid.trials(choice.case)),
                    tuple(grid.config(cell) for cell in grid.runs(choice.case, choice.values)),
                ),
            )
            for choice in priced
        ]
        for choice, costs in zip(priced, self._answers("cost of tuning", tasks) if tasks else (), strict=True):
            self.choices[choice.case] = replace(choice, cost_proven=costs[0], cost_published=costs[1])
        self._note([choice.as_dict() for choice in self.choices.values()])

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
        try:
            self._complete("runs", cells)
        finally:  # an interrupted grid has its table, too: of every run that finished, heard of or not
            for cell in cells:
                if (summary := self._summary(cell)) is not None:
                    self.rows[cell] = row_of(cell, summary)
            write_whole({self.folder / "compare.csv": to_csv(self._sorted().values()).encode()})

    def _sorted(self) -> dict[Cell, Row]:
        order = {entry: number for number, entry in enumerate(self.grid.entries)}
        cells = sorted(self.rows, key=lambda c: (order[c.case.entry], c.case.epsilon or 0.0, c.seed))
        return {cell: self.rows[cell] for cell in cells}

    def lines(self) -> tuple[Line, ...]:
        """A line for each method and epsilon that has runs."""
        found: dict[tuple[Entry, float | None], list[Row]] = {}
        for cell, row in self._sorted().items():
            found.setdefault((cell.case.entry, cell.case.epsilon), []).append(row)
        return tuple(line_of(*place, rows) for place, rows in found.items())

    def _relations(self) -> list[str]:
        """Say which epsilons are not for replace-one, the relation of the network."""
        rows = self.rows.items()
        weaker = {cell.case.entry for cell, row in rows if cell.case.entry.private and row.adjacency == "zero-out"}
        names = ", ".join(entry.text for entry in self.grid.entries if entry in weaker)
        return [
            f"the epsilons of {names} are for zero-out, a record against none; for replace-one, the relation of the "
            "network methods, double epsilon and multiply delta by 1 + e^epsilon"
        ] * bool(weaker)

    def end(self, pictures: list[Path] | None) -> CompareResult:
        """Sum up and draw."""
        grid = self.grid
        notes = [note for found in self.surveys for note in found.notes]
        notes += [
            f"{entry.text} runs with {said(grid.candidates[entry][0])}"
            for entry in grid.entries
            if grid.candidates[entry] != ((),) and not grid.tuned(entry)
        ]
        if grid.fixed:
            notes.append(
                f"all methods see the same rows: {said(tuple(grid.fixed.items()))}, which `admmnet run` chooses by "
                "auto; a flag says otherwise"
            )
        assert grid.delta is not None  # check came first
        notes += [
            f"not tried: {reason}"
            for place, reasons in grid.impossible.items()
            if place not in grid.refused
            for reason in reasons.values()
        ]
        result = CompareResult(
            folder=self.folder,
            delta=grid.delta,
            surveys=self.surveys,
            rows=tuple(self._sorted().values()),
            lines=self.lines(),
            choices=tuple(self.choices.values()),
            failed=tuple(self.failed),
            refused=tuple(Refused(*place, str(error)) for place, error in grid.refused.items()),
            notes=tuple(dict.fromkeys((*notes, *self._relations(), SIMULATION))),
            pictures=(),
            undrawn=None,
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


OF_A_RUN = {*FILES, MANIFEST}
"""What a run writes: an unfinished run's folder is removed only if it holds nothing else."""


def _clear(run: Path) -> None:
    with refusing(f"remove the unfinished run {run}"), suppress(FileNotFoundError):
        names = sorted(path.name for path in run.iterdir())
        strange = [name for name in names if name.removesuffix(".new").lstrip(".") not in OF_A_RUN]
        if strange:
            raise RequestError(f"{run} holds {strange[0]}, which no run writes: move it elsewhere and call again")
        shutil.rmtree(run)
