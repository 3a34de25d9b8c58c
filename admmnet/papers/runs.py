"""Seeded runs as measurements: the run that `admmnet run` makes with the same settings, and the figures of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.data.figures import test_error
from admmnet.experiments.driver import best_of
from admmnet.experiments.grid import TRIAL_SEEDS
from admmnet.experiments.parsing import Values, parse_entry
from admmnet.experiments.tasks import tuning_cost, worst_case
from admmnet.library import run
from admmnet.methods import METHODS
from admmnet.papers.sources import DataSource, load, loader
from admmnet.papers.store import Job, Lab, Result
from admmnet.privacy.ledger.form import finite
from admmnet.transport.local import LocalWorld

SELDOM = 10**9
"""Rounds between measurements where only the end counts."""


def settings(**values: Any) -> Values:
    """Settings of ``RunConfig`` by name."""
    return tuple(values.items())


@dataclass(frozen=True)
class RunJob(Job):
    """One seeded run of a method as `compare` writes it; a trial runs without the held-out quarter, measured on it.

    With ``course`` it is measured in every round, else at its end alone.
    """

    method: str
    source: DataSource
    settings: Values
    seed: int
    trial: bool = False
    course: bool = False

    @property
    def words(self) -> str:
        """What it is."""
        own = ", ".join(f"{name} = {value}" for name, value in self.settings)
        return f"{self.method}, {own}, {'trial' if self.trial else 'seed'} {self.seed}"

    def key(self) -> dict[str, Any]:
        """Everything that its result depends on."""
        return super().key() | {"settings": dict(self.settings)}

    def config(self) -> RunConfig:
        """Settings of the run, without a run folder."""
        entry = parse_entry(self.method)
        own = dict(self.settings)
        if entry.private:
            own |= {"method": entry.method, "accountant": entry.accountant}
        else:
            own.pop("epsilon", None)
        # a computed problem is handed over by the loader: what the data layer would read is never asked for
        own |= {} if self.source.computed else dict(self.source.settings)
        if METHODS[entry.algorithm].verb == "exchange":
            own = {"answer": "last"} | own  # the papers' agents keep their own vectors
        own["measure_every"] = 1 if self.course else SELDOM
        return RunConfig(algorithm=entry.algorithm, seed=self.seed, data_dir=self.source.data_dir, **own)

    def worst(self) -> Any:
        """Everything that every agent can be charged."""
        return worst_case(self.config(), loader(self.source, held=self.trial))

    def __call__(self, shelf: Any) -> Result:
        """Run it and return its figures."""
        config = self.config()
        with tempfile.TemporaryDirectory() as folder:
            ended = run(
                replace(config, out=f"{folder}/run"), world=LocalWorld(), loader=loader(self.source, held=self.trial)
            )
            curves = _curves(ended.folder / "metrics.csv") if self.course else {}
        summary, privacy = ended.summary, ended.summary["privacy"]
        return {
            "test_error": summary["test_error"]["consensus"],
            "train_loss": summary["train_loss"],
            "train_error": self._train_error(ended.theta.mean(axis=0), summary["agents"]),
            "epsilon_proven": privacy["epsilon_proven"],
            "epsilon_published": privacy["epsilon_published"],
            "releases": sum(entry["releases"] for entry in summary["per_agent"]),
            "seconds": summary["seconds"]["total"],
            **curves,
        }

    def _train_error(self, theta: Any, agents: int) -> float | None:
        records = load(self.source, agents, held=self.trial)
        if records.target is not None:
            return None
        wrong = [test_error(X, y, theta) * len(y) for X, y in records.shards.values()]
        return float(sum(wrong) / sum(len(y) for _, y in records.shards.values()))


def _curves(path: Path) -> dict[str, list[float]]:
    """Loss and objective by round, means over the agents' own vectors."""
    rows = np.genfromtxt(path, delimiter=",", names=True)
    agents, rounds = rows[rows["agent"] >= 0], np.count_nonzero(rows["agent"] == -1)
    columns = {"loss": "train_loss", "objective": "objective"}
    return {
        f"{name}_by_round": [*map(fmean, agents[column].reshape(rounds, -1).tolist())]
        for name, column in columns.items()
    }


@dataclass(frozen=True, eq=False)
class Contender:
    """A method of a comparison: facts of its rows, settings that are fixed, candidates for those that are chosen.

    With ``course`` its runs with the chosen ones are measured in every round.
    """

    facts: dict[str, Any]
    method: str
    source: DataSource
    fixed: Values
    candidates: tuple[Values, ...] = ((),)
    course: bool = False

    def jobs(self, values: Values, seeds: Iterable[int], *, trial: bool = False) -> list[RunJob]:
        """Runs with one candidate."""
        how = trial, self.course and not trial
        return [RunJob(self.method, self.source, self.fixed + values, seed, *how) for seed in seeds]

    def trials(self, count: int) -> dict[Values, list[RunJob]]:
        """Trial runs of each candidate; none where there is nothing to choose."""
        seeds = range(TRIAL_SEEDS, TRIAL_SEEDS + count)
        if len(self.candidates) == 1:
            return {}
        return {values: self.jobs(values, seeds, trial=True) for values in self.candidates}


class Final(NamedTuple):
    """A run with the chosen settings."""

    contender: Contender
    values: Values
    job: RunJob
    result: Result


def compared(lab: Lab, phase: str, contenders: Sequence[Contender], *, trials: int, seeds: int) -> list[Final]:
    """Choose each contender's settings on the held-out quarter of the training records, and run those on all seeds.

    A single candidate is taken untried; a contender of whom every candidate is refused has no run.
    """
    tried = [contender.trials(trials) for contender in contenders]
    jobs = [job for own in tried for found in own.values() for job in found]
    results = lab.measure("choosing settings", jobs) if jobs else {}
    finals = []
    for contender, own in zip(contenders, tried, strict=True):
        errors = {
            values: [results[job]["test_error"] for job in found]
            for values, found in own.items()
            if not any("refused" in results[job] for job in found)
        }
        if errors or not own:
            values = best_of(errors)[0] if own else contender.candidates[0]
            finals += [(contender, values, job) for job in contender.jobs(values, range(seeds))]
    measured = lab.measure(phase, [job for _, _, job in finals])
    return [Final(*one, measured[one[2]]) for one in finals]


@dataclass(frozen=True)
class CostJob(Job):
    """What choosing would have cost on private records: all trials and one final run, composed."""

    trials: tuple[RunJob, ...]
    final: RunJob

    @property
    def words(self) -> str:
        """What it is."""
        return f"cost of choosing for {self.final.words}"

    def __call__(self, shelf: Any) -> Result:
        """Compose the worst cases (docs/proofs.md, Theorem 5)."""
        worst = [job.worst() for job in self.trials]
        proven, published = tuning_cost(worst, [self.final.worst()], float(self.final.config().delta))
        return {"epsilon_proven": finite(proven), "epsilon_published": finite(published)}
