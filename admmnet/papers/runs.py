"""Seeded runs as measurements: the run that `admmnet run` makes with the same settings, and the figures of it."""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from admmnet.config.run_config import RunConfig
from admmnet.experiments.grid import TRIAL_SEEDS
from admmnet.experiments.parsing import parse_entry
from admmnet.papers.sources import Source, load, loader
from admmnet.papers.store import Lab, Result, plain
from admmnet.running.loop import run
from admmnet.running.observer import test_error
from admmnet.transport.local import LocalWorld


@dataclass(frozen=True)
class RunJob:
    """One seeded run.

    Attributes
    ----------
    method : str
        NAME[:METHOD[:ACCOUNTANT]], as `compare` writes it.
    source : Source
        Records.
    settings : tuple of (str, value)
        Further settings of ``RunConfig``.
    seed : int
        Of the noise, and of a random graph.
    trial : bool
        Whether it runs without the held-out quarter of the training records, and is measured on it.
    """

    method: str
    source: Source
    settings: tuple[tuple[str, Any], ...]
    seed: int
    trial: bool = False

    @property
    def words(self) -> str:
        """What it is."""
        own = ", ".join(f"{name} = {value}" for name, value in self.settings)
        return f"{self.method}, {own}, {'trial' if self.trial else 'seed'} {self.seed}"

    def key(self) -> dict[str, Any]:
        """What the result depends on."""
        return {
            "method": self.method,
            "source": self.source.key(),
            "settings": dict(self.settings),
            "seed": self.seed,
            "trial": self.trial,
        }

    def config(self) -> RunConfig:
        """Settings of the run, without a run folder."""
        entry = parse_entry(self.method)
        own = dict(self.settings)
        if entry.private:
            own |= {"method": entry.method, "accountant": entry.accountant}
        else:
            own.pop("epsilon", None)
        places = {} if self.source.made or self.source.most else dict(self.source.settings)
        # a computed problem is handed over by the loader: what the data layer would read is never asked for
        return RunConfig(
            algorithm=entry.algorithm,
            seed=self.seed,
            **{**places, "data_dir": self.source.data_dir, **own},
        )

    def __call__(self, shelf: Any) -> Result:
        """Run it and return its figures."""
        config = self.config()
        with tempfile.TemporaryDirectory() as folder:
            ended = run(
                replace(config, out=f"{folder}/run"),
                world=LocalWorld(),
                loader=loader(self.source, held=self.trial),
            )
            curves = _curves(ended.folder / "metrics.csv", baseline=config.baseline)
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


def _curves(path: Path, *, baseline: bool) -> dict[str, list[float]]:
    """Figures by round: error of the consensus; loss and objective, means over the agents' own vectors."""
    by_round: dict[int, dict[str, list[float]]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            own = by_round.setdefault(int(row["round"]), {"error": [], "loss": [], "objective": []})
            if row["agent"] == "-1":
                own["error"].append(float(row["test_error"]))
            else:
                own["loss"].append(float(row["train_loss"]))
                own["objective"].append(float(row["objective"]))
    rounds = [by_round[number] for number in sorted(by_round)]
    names = ("error", "loss", "objective") if baseline else ("error", "loss")
    return {f"{name}_by_round": [fmean(one[name]) for one in rounds] for name in names}


@dataclass(frozen=True)
class Chosen:
    """Settings that did best on the held-out quarter of the training records.

    Attributes
    ----------
    settings : tuple of (str, value)
        The best of the candidates; of equals, the first.
    error : float
        Its mean error there.
    tried, refused : int
        Combinations that were tried, and that the method refused.
    trials : tuple of RunJob
        All runs that this took.
    """

    settings: tuple[tuple[str, Any], ...]
    error: float
    tried: int
    refused: int
    trials: tuple[RunJob, ...]


@dataclass(frozen=True)
class Case:
    """A method with the settings that are not chosen, and the candidates for those that are."""

    method: str
    source: Source
    fixed: tuple[tuple[str, Any], ...]
    candidates: tuple[tuple[tuple[str, Any], ...], ...]

    def trials(self, count: int) -> dict[tuple[tuple[str, Any], ...], list[RunJob]]:
        """Trial runs of each candidate."""
        seeds = range(TRIAL_SEEDS, TRIAL_SEEDS + count)
        return {
            own: [RunJob(self.method, self.source, self.fixed + own, seed, trial=True) for seed in seeds]
            for own in self.candidates
        }

    def finals(self, own: tuple[tuple[str, Any], ...], seeds: Iterable[int]) -> list[RunJob]:
        """Runs of the comparison itself."""
        return [RunJob(self.method, self.source, self.fixed + own, seed) for seed in seeds]


def choose(lab: Lab, phase: str, cases: Sequence[Case], trials: int) -> dict[Case, Chosen | None]:
    """Choose each case's settings; None where every candidate is refused. A single candidate is taken untried."""
    jobs = [
        job
        for case in cases
        if len(case.candidates) > 1
        for own in case.trials(trials).values()
        for job in own
    ]
    results = lab.measure(phase, jobs) if jobs else {}
    return {case: _best(case, results, trials) for case in cases}


def _best(case: Case, results: dict[RunJob, Result], trials: int) -> Chosen | None:
    if len(case.candidates) == 1:
        return Chosen(case.candidates[0], float("nan"), 1, 0, ())
    found = case.trials(trials)
    errors = {
        own: fmean(results[job]["test_error"] for job in jobs)
        for own, jobs in found.items()
        if not any("refused" in results[job] for job in jobs)
    }
    if not errors:
        return None
    # a trial that ended at infinity has no error: it is the last to be taken
    best = min(errors, key=lambda own: math.inf if math.isnan(errors[own]) else errors[own])
    every = tuple(job for jobs in found.values() for job in jobs)
    return Chosen(best, errors[best], len(found), len(found) - len(errors), every)


@dataclass(frozen=True)
class CostJob:
    """What choosing would have cost on private records: all trials and one final run, composed."""

    trials: tuple[RunJob, ...]
    final: RunJob

    @property
    def words(self) -> str:
        """What it is."""
        return f"cost of choosing for {self.final.words}"

    def key(self) -> dict[str, Any]:
        """What the result depends on."""
        return {"trials": [job.key() for job in self.trials], "final": self.final.key()}

    def __call__(self, shelf: Any) -> Result:
        """Compose the worst cases (docs/privacy.md, Theorem 5)."""
        from admmnet.experiments.cost import tuning_cost
        from admmnet.privacy.ledger.form import finite

        final = self.final.config()
        worst = [_worst(job) for job in self.trials]
        proven, published = tuning_cost(worst, [_worst(self.final)], float(final.delta))
        return {"epsilon_proven": finite(proven), "epsilon_published": finite(published)}


def _worst(job: RunJob) -> Any:
    config = job.config()
    from admmnet.running.plan import prepare

    return prepare(config, LocalWorld(), loader(job.source, held=job.trial)).worst_cases


def settings(**values: Any) -> tuple[tuple[str, Any], ...]:
    """Settings of a run."""
    return plain(values)
