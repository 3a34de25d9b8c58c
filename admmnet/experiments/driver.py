"""A comparison from its words to its files: choose settings, run what is missing, sum up what is there."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from admmnet.config.run_config import with_delta
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.experiments import Watch
from admmnet.experiments.figures import COLUMNS, UNCOVERED, CompareResult, Row, guess, line_of, over, picture_of, row_of
from admmnet.experiments.grid import Case, Cell, Comparison, Grid
from admmnet.experiments.parsing import Values, said
from admmnet.experiments.pool import Call, Pool, at, begin
from admmnet.experiments.tasks import Reader, cost, counted, run_cell
from admmnet.files import csv_text, load_json, refusing, write_whole
from admmnet.record.folder import FILES, MANIFEST, SUMMARY, is_held
from admmnet.report.figure import check_file, drawn

FILE = "compare.json"
WHOLE = (1, 1)


def compare(
    comparison: Comparison | Path | str,
    *,
    jobs: int | None = None,
    plot: Path | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
    part: tuple[int, int] = WHOLE,
) -> CompareResult:
    """Run what is missing of a grid of seeded runs, write the table and the picture, and say what failed.

    With more than one process (``jobs``, by default as many as there are processors), a script must call this under
    ``if __name__ == "__main__"``. Runs go over an ``executor`` of ``concurrent.futures`` where one is given, as
    mpi4py's and dask's are. ``part`` (I, N) makes one of N parts of the runs alone, which write into one folder.
    Of a comparison's folder the runs that are there are summed up. ``plot`` is a further file for the picture: .png,
    .svg or .pdf; ``watch`` is told of progress.

    Raises
    ------
    RequestError
        If the words, the data or the folder are wrong, or anything was different in an earlier call.
    BudgetError
        If no method affords a round at any epsilon, naming the first of both; nothing has been run then.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    if not isinstance(comparison, Comparison):
        comparison = Path(comparison)
    if not 1 <= part[0] <= part[1] or (part != WHOLE and isinstance(comparison, Path)):
        raise RequestError(f"part {part[0]}/{part[1]} is not allowed: I from 1 to N, and of a grid, not of its folder")
    if plot is not None:
        check_file(plot, made=comparison if isinstance(comparison, Path) else Path(comparison.out))
    with Pool(jobs, watch, executor) as pool:
        session = found(pool, comparison) if isinstance(comparison, Path) else made(pool, comparison, part)
        session.price()
        return session.end(part, plot)


def made(pool: Pool, comparison: Comparison, part: tuple[int, int] = WHOLE, read: Reader | None = None) -> Session:
    """Run what is missing of a comparison; ``read`` brings records in place of the settings', and is picklable."""
    session = Session(comparison, pool, read)
    splits = session.data_seeds if session.delta is None else session.data_seeds[:1]
    samples = [session.sample.changed(data_seed=seed) for seed in splits]
    counts = session.answers([Call("the data", counted, (read, one)) for one in samples])
    if session.delta is None:  # one for all methods, by the smallest agent's records
        every = [sum(own) if session.pooled else min(own) for own in counts]
        session.delta = float(with_delta(session.sample.sections.method, every).delta)
    begin(session.folder / FILE, lambda then: session.agree(then["settings"]))
    session.note()
    pieces = session.pieces(part)
    cases = dict.fromkeys(case for case, _ in pieces)
    try:
        if trials := [cell for case in cases if session.tuned(case.entry) for cell in session.trials(case)]:
            session.complete("trials", trials)
            session.choose()
        for case in cases:
            if session.tried(case) and not session.chosen(case):
                session.failed[case.words] = RunError("not run, because trials of it failed")
        session.complete("runs", sorted(session.runs(pieces), key=lambda cell: cell.seed))
    finally:  # an interrupted grid has its table, too: of every run that finished, heard of or not
        session.table()
    return session


def found(pool: Pool, folder: Path) -> Session:
    """A comparison whose folder has runs, such as its parts have left; RequestError if it is no such folder."""
    if not (folder / FILE).exists():
        raise RequestError(f"{folder} holds no {FILE}: name the folder of a comparison, or a file with a grid")
    words: dict[str, Any] = {}
    begin(folder / FILE, lambda said: words.update(said["settings"], delta=said["delta"]))
    delta, *_ = words.pop("delta"), words.pop("admmnet"), words.pop("files")
    session = Session(Comparison(**words, out=str(folder)), pool)
    session.delta = delta
    session.choose()
    return session


class Session(Grid):
    """One call of ``compare``: a grid, and what was found of it so far."""

    def __init__(self, comparison: Comparison, pool: Pool, read: Reader | None = None) -> None:
        super().__init__(comparison)
        self.pool, self.read = pool, read
        self.choices: dict[Case, dict[str, Any]] = {}
        self.failed: dict[str, AdmmnetError] = {}

    def answers(self, tasks: Sequence[Call]) -> list[Any]:
        """Answers of all tasks in their order; the first refusal is raised."""
        answers = [answer for _, answer in sorted(self.pool.run(tasks), key=lambda found: found[0])]
        for answer in answers:
            if isinstance(answer, AdmmnetError):
                raise answer
        return answers

    def note(self, **found: Any) -> None:
        """Write compare.json: it is the first file in the folder."""
        content = {"settings": self.words, "delta": self.delta, **found}
        write_whole({self.folder / FILE: (json.dumps(content, indent=2, default=str) + "\n").encode()})

    def summary(self, cell: Cell) -> dict[str, Any] | None:
        """Summary of a finished run, None if it has not finished."""
        try:
            summary = load_json((self.folder / cell.folder / SUMMARY).read_bytes())
        except (OSError, ValueError):
            return None
        return summary if isinstance(summary, dict) and "test_error" in summary else None

    def complete(self, phase: str, cells: Sequence[Cell]) -> None:
        """Run cells that have not finished; what is refused is left out from then."""
        missing, calls = [cell for cell in cells if self.summary(cell) is None], []
        for cell in missing:
            place = self.folder / cell.folder
            _clear(place)
            calls.append(Call(cell.words, run_cell, (self.read, self.config(cell), place, cell.trial)))
        for number, answer in self.pool.run(calls, phase, len(cells) - len(missing)):
            cell = missing[number]
            if isinstance(answer, RunError):
                self.failed[cell.words] = answer
            elif isinstance(answer, AdmmnetError):
                self.refuse(cell.case, cell.values, at(cell.words, answer))

    def chosen(self, case: Case) -> list[Values]:
        """Settings that the runs of a case have; none while they are not known, or where none is possible."""
        if not self.tuned(case.entry):
            return self.tried(case)
        return [tuple(self.choices[case]["chosen"].items())] if case in self.choices else []

    def runs(self, pieces: Sequence[tuple[Case, list[int]]]) -> list[Cell]:
        """Runs of these pieces whose settings are known."""
        known = ((case, seeds, values) for case, seeds in pieces for values in self.chosen(case))
        return [Cell(case, seed, values) for case, seeds, values in known for seed in seeds]

    def choose(self) -> None:
        """Choose for each tuned case what has the least mean validation error; of equals the first.

        The costs are epsilons of all trials and one final run on the same records, None where undefined.
        """
        for case in self.cases():
            if not self.tuned(case.entry):
                continue
            errors: dict[Values, list[float]] = {values: [] for values in self.tried(case)}
            for cell in self.trials(case):
                if (summary := self.summary(cell)) is not None:
                    errors[cell.values].append(summary["test_error"]["consensus"])
            if errors and all(len(found) == self.comparison.tune_seeds for found in errors.values()):
                values, means = best_of(errors)
                self.choices[case] = {
                    **asdict(case.entry),
                    "epsilon": case.epsilon,
                    "data_seed": case.data_seed,
                    "chosen": dict(values),
                    "validation_error": [{"settings": dict(own), "error": error} for own, error in means.items()],
                    "trials": len(self.trials(case)),
                    "epsilon_proven_with_trials": None,
                    "epsilon_published_with_trials": None,
                    "uncovered": UNCOVERED,
                }

    def price(self) -> None:
        """Find what all trials of a choice and a final run would cost together."""
        costly, tasks = [case for case in self.choices if case.entry.private], []
        for case in costly:
            seeds = [seed for seed in self.seeds if self.data_seed(seed) == case.data_seed]
            finals = tuple(map(self.config, self.runs([(case, seeds)])))
            tasks.append(Call(case.words, cost, (self.read, tuple(map(self.config, self.trials(case))), finals)))
        for case, costs in zip(costly, self.answers(tasks), strict=True):
            names = ("epsilon_proven_with_trials", "epsilon_published_with_trials")
            self.choices[case] |= zip(names, costs, strict=True)

    def table(self) -> dict[Cell, tuple[Row, dict[str, Any]]]:
        """Rows and summaries of all runs that are there, in the order of the words; compare.csv has the rows, too."""
        cells = sorted(
            self.runs(self.pieces()),
            key=lambda cell: (self.entries.index(cell.case.entry), cell.case.epsilon or 0.0, cell.seed),
        )
        found = {cell: (row_of(cell, own), own) for cell in cells if (own := self.summary(cell)) is not None}
        rows = (row.values() for row, _ in found.values())
        write_whole({self.folder / "compare.csv": csv_text(COLUMNS, rows).encode()})
        return found

    def end(self, part: tuple[int, int], plot: Path | None) -> CompareResult:
        """Sum up and draw."""
        found = self.table()
        wanted = sum(len(seeds) for _, seeds in self.pieces())
        if not found and part == WHOLE and not self.failed:
            raise (self.first_refusal() if self.refused else RequestError(f"no run in {self.folder} has finished"))
        places = dict.fromkeys(cell.case[:2] for cell in found)
        data = []
        for seed in sorted({cell.case.data_seed for cell in found}):  # of a split by a run on the network, if any is
            own = [summary for cell, (_, summary) in found.items() if cell.case.data_seed == seed]
            first = max(own, key=lambda summary: summary["agents"] > 1)
            held = {"larger_class": guess(first), "pooled": first["references"]["pooled"]}
            data.append({"data_seed": seed, "agents": first["agents"], **first["data"], **held})
        refused = [
            {"name": str(entry), "epsilon": epsilon, "reason": str(next(iter(reasons.values())))}
            for (entry, epsilon), reasons in self.refused.items()
            if len(reasons) == len(self.candidates[entry])
        ]
        told = {
            "folder": str(self.folder),
            "delta": self.delta,
            "data": data,
            "metric": "mean-squared-error" if data and data[0]["task"] == "real" else "error",
            "references": {name: over(data, name) for name in ("larger_class", "pooled")} if data else {},
            "lines": [line_of(*at, [row for cell, (row, _) in found.items() if cell.case[:2] == at]) for at in places],
            "tuning": [*self.choices.values()],
            "failed": [{"run": words, "reason": str(error)} for words, error in self.failed.items()],
            "refused": refused,
            "missing": wanted - len(found),
            "notes": [*self._notes([summary for _, summary in found.values()])],
            "csv": str(self.folder / "compare.csv"),
        }
        picture, pictures = picture_of(told), (self.folder / "compare.png", *([plot] if plot else []))
        undrawn: str | None = "no picture was drawn: nothing that has an epsilon has finished"
        if picture is not None:
            undrawn = drawn(picture, *pictures)
        told["pictures"] = [str(path) for path in pictures if undrawn is None]
        self.note(**{name: value for name, value in told.items() if name != "delta"})
        return CompareResult(self.folder, told, {cell: row for cell, (row, _) in found.items()}, self.failed, undrawn)

    def _notes(self, summaries: Sequence[dict[str, Any]]) -> Iterable[str]:
        for note in summaries[0]["notes"] if summaries else ():
            if all(note in summary["notes"] for summary in summaries):
                yield note
        for entry in self.entries:
            if self.candidates[entry] != ((),) and not self.tuned(entry):
                yield f"{entry} runs with {said(self.candidates[entry][0])}"
        if self.fixed:
            yield (
                f"all methods see the same rows: {said(tuple(self.fixed.items()))}, which `admmnet run` chooses by "
                "auto; a flag says otherwise"
            )
        for (entry, _), reasons in self.refused.items():
            if len(reasons) < len(self.candidates[entry]):
                yield from (f"not tried: {error}" for error in reasons.values())
        weaker = {s["algorithm"] for s in summaries if s["privacy"]["adjacency"] == "zero-out"}
        names = ", ".join(str(entry) for entry in self.entries if entry.private and entry.algorithm in weaker)
        if names:
            yield (
                f"the epsilons of {names} are for zero-out, a record against none; for replace-one, the relation of "
                "the network methods, double epsilon and multiply delta by 1 + e^epsilon"
            )
        yield "the seeds can regenerate the noise: a comparison is a simulation, not a private release"


def best_of(errors: dict[Values, list[float]]) -> tuple[Values, dict[Values, float]]:
    """Combination of the least mean validation error, and all means; of equals the first, what is no number last."""
    means = {values: fmean(found) for values, found in errors.items()}
    return min(means, key=lambda values: math.inf if math.isnan(means[values]) else means[values]), means


OF_A_RUN = {*FILES, MANIFEST}
"""What a run writes: an unfinished run's folder is removed only if it holds nothing else."""


def _clear(run: Path) -> None:
    """Remove an unfinished run, which is seeded: going on it would be begun again, and not under another delta."""
    if is_held(run):
        raise RequestError(f"{run} is at work in another call: wait for its end")
    with refusing(f"remove the unfinished run {run}"), suppress(FileNotFoundError):
        names = sorted(path.name for path in run.iterdir())
        strange = [name for name in names if name.removesuffix(".new").lstrip(".") not in OF_A_RUN]
        if strange:
            raise RequestError(f"{run} holds {strange[0]}, which no run writes: move it elsewhere and call again")
        shutil.rmtree(run)
