"""An audit of a method from its words to its files: trials in parts over processes, and a bound; resumable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from admmnet.auditing.audit import LEAST_TRIALS, Audit, Drawn, draw, judge, readable
from admmnet.auditing.evidence import World
from admmnet.auditing.methods import Canary, MethodTrials, settings_for
from admmnet.auditing.steps import StepTrials
from admmnet.errors import RequestError
from admmnet.experiments.folder import opened, refuse_others
from admmnet.experiments.parsing import parse_entry
from admmnet.experiments.pool import Call, Pool
from admmnet.experiments.progress import Watch
from admmnet.files import write_whole
from admmnet.methods import METHODS
from admmnet.version import __version__

FILE, TRIALS = "audit.json", "trials"
PART = 250
"""Trials of one task: a call that was ended has lost no more than these."""
WORLDS: tuple[World, World] = (0, 1)


@dataclass(frozen=True)
class AuditRequest:
    """What is to be audited."""

    name: str  # NAME[:METHOD[:ACCOUNTANT]]
    out: str  # folder; the same call goes on with it, also with more trials
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # of the method
    trials: int = 2000  # in each world
    seed: int = 0  # of all trials
    confidence: float = 0.99  # of either bound
    canary: Canary | None = None  # what is in its place in world 0; None for what the proof is about
    records: int = 1000  # n of the agent


class Subject(NamedTuple):
    """What is run in a trial, as a process is told."""

    algorithm: str
    settings: tuple[tuple[str, Any], ...]
    canary: Canary | None
    records: int


@lru_cache(maxsize=4)
def runs_of(subject: Subject) -> MethodTrials | StepTrials:
    """The method's trials, which all parts of a process share: a plan takes longer than a trial."""
    config = settings_for({"algorithm": subject.algorithm, **dict(subject.settings)})
    if METHODS[subject.algorithm].verb == "none":
        return StepTrials(config, subject.canary, subject.records)
    return MethodTrials(config, subject.canary, subject.records)


def trials_of(subject: Subject, seed: int, world: World, first: int, count: int) -> dict[str, Any]:
    """Trials of one world, from ``first`` on."""
    runs = runs_of(subject)
    found = draw(runs, world, seed, range(first, first + count), float(runs.config.delta))
    return {"scores": found.scores.tolist(), "proven": found.proven, "published": found.published}


@dataclass(frozen=True)
class Audited:
    """What came out: ``adjacency`` is the relation of the proven figure, ``target`` the epsilon that was asked for."""

    request: AuditRequest
    audit: Audit
    adjacency: str
    target: float

    @property
    def title(self) -> str:
        """The name that was given, and its rounds or steps."""
        return f"{self.request.name},{self.audit.mechanism.rpartition(',')[2]}"

    def as_dict(self) -> dict[str, Any]:
        """Figures for ``audit.json`` and ``--json``."""
        own = asdict(self.audit)
        best = max(self.audit.lower, self.audit.lower_gaussian or 0.0)
        published = self.audit.published
        return own | {
            "name": self.request.name,
            "canary": self.request.canary or ("mirror" if self.adjacency == "replace-one" else "zeros"),
            "adjacency": self.adjacency,
            "epsilon_target": self.target,
            "holds": self.audit.holds,
            "exceeds_published": None if published is None else best > published,
        }


def run_audit(
    request: AuditRequest, *, jobs: int | None = None, watch: Watch | None = None, executor: Executor | None = None
) -> Audited:
    """Make the trials that are missing, and read them, also where a bound exceeds what is proven.

    What comes out does not depend on ``jobs``, the number of processes (by default as many as there are processors).
    With more than one, a script must call this under ``if __name__ == "__main__"``. ``watch`` is told of progress.

    Raises
    ------
    RequestError
        If the words are wrong, the method has no privacy, or the folder holds another audit.
    BudgetError
        If the budget affords no release.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    subject, folder = subject_of(request), Path(request.out)
    trials = runs_of(subject)
    settings = json.loads(json.dumps({**subject._asdict(), **dict(subject.settings), "seed": request.seed}))
    del settings["settings"]

    def agree(about: dict[str, Any]) -> None:
        before = about["settings"]
        refuse_others(folder, ((word, before.get(word), settings.get(word)) for word in sorted(before | settings)))

    trials_of(subject, request.seed, 1, 0, 1)  # what cannot be audited is refused before anything is written
    with Pool(jobs, watch, executor) as pool, opened(folder / FILE, agree):
        about = {"admmnet": __version__, "settings": settings, "result": None}
        write_whole({folder / FILE: (json.dumps(about, indent=2) + "\n").encode()})
        both = _all(pool, folder, subject, request)
        audit = judge(trials.name, trials.reading, *both, float(trials.config.delta), request.confidence)
        found = Audited(request, audit, trials.adjacency, float(trials.config.epsilon))
        write_whole({folder / FILE: (json.dumps(about | {"result": found.as_dict()}, indent=2) + "\n").encode()})
        return found


def subject_of(request: AuditRequest) -> Subject:
    """What the words mean; RequestError if they are wrong."""
    if request.trials < LEAST_TRIALS:
        raise RequestError(f"trials = {request.trials} is too few: at least {LEAST_TRIALS} a world")
    if not 0.0 < request.confidence < 1.0:
        raise RequestError(f"confidence = {request.confidence!r} is not allowed: it must lie between 0 and 1")
    if not 20 <= request.records <= 10**6:
        raise RequestError(f"records = {request.records} is not allowed: it must lie in [20, 1e+06]")
    entry = parse_entry(request.name, "NAME")
    if not (entry.private and METHODS[entry.algorithm].covered):
        raise RequestError(f"{entry.algorithm} has no proven privacy, and so nothing to audit: name a method that has")
    forms = {"method": entry.method, "accountant": entry.accountant}
    settings = tuple(sorted((dict(request.settings) | forms).items()))
    return Subject(entry.algorithm, settings, request.canary, request.records)


def _all(pool: Pool, folder: Path, subject: Subject, request: AuditRequest) -> tuple[Drawn, Drawn]:
    calls = {}
    for first in range(0, request.trials, PART):
        count = min(PART, request.trials - first)
        for world in WORLDS:
            words = f"world {world}, trials {first} to {first + count - 1}"
            calls[f"{world}-{first}-{count}"] = Call(words, trials_of, (subject, request.seed, world, first, count))
    found = pool.kept(folder / TRIALS, "trials", calls)

    def joined(world: World) -> Drawn:
        parts = (part for name, part in found.items() if name.startswith(f"{world}-"))
        return Drawn.joined(
            [
                Drawn(readable(subject.algorithm, np.array(part["scores"])), part["proven"], part["published"])
                for part in parts
            ]
        )

    return joined(0), joined(1)
