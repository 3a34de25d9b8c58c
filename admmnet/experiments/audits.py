"""An audit of a method from its words to its files: trials in parts over processes, and a bound; resumable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from admmnet.auditing.audit import LEAST_TRIALS, Drawn, World, draw, judge
from admmnet.auditing.methods import Canary, MethodTrials
from admmnet.auditing.steps import StepTrials
from admmnet.errors import RequestError
from admmnet.experiments import Watch
from admmnet.experiments.parsing import parse_entry
from admmnet.experiments.pool import Call, Pool, begin, refuse_others
from admmnet.files import write_whole
from admmnet.methods import METHODS
from admmnet.version import __version__

FILE, TRIALS = "audit.json", "trials"
PART = 250
"""Trials of one task: a call that was ended has lost no more than these."""
WORLDS: tuple[World, World] = (0, 1)
Runs = MethodTrials | StepTrials


@lru_cache(maxsize=4)
def shared(runs: Runs) -> Runs:
    """The same object for all parts of a process: a plan takes longer than a trial, and is never sent."""
    return replace(runs)


def trials_of(runs: Runs, seed: int, world: World, first: int, count: int) -> dict[str, Any]:
    """Trials of one world, from ``first`` on."""
    own = shared(runs)
    found = draw(own, world, seed, range(first, first + count), float(own.config.delta))
    return found._asdict() | {"scores": found.scores.tolist()}


def run_audit(
    name: str,
    out: str,
    settings: Mapping[str, Any] = MappingProxyType({}),
    *,
    trials: int = 2000,
    seed: int = 0,
    confidence: float = 0.99,
    canary: Canary | None = None,
    records: int = 1000,
    jobs: int | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Make the trials that are missing, and read them, also where a bound exceeds what is proven.

    ``name`` is NAME[:METHOD[:ACCOUNTANT]], with its ``settings``. The same call goes on with the folder ``out``, also
    with more ``trials``, which are those in each world; ``seed`` is of all trials. ``confidence`` is that of either
    bound. ``canary`` is what stands in its place in world 0, by default what the proof is about; the agent has so many
    ``records``. ``jobs``, ``watch`` and ``executor`` are as in ``compare``, and change nothing of what comes out.
    Returned are the figures that ``audit.json`` has: those of ``Audit``, the relation of the proven one, what was asked
    for.

    Raises
    ------
    RequestError
        If the words are wrong, the method has no privacy, or the folder holds another audit.
    BudgetError
        If the budget affords no release.
    RunError
        If a process was ended from outside; what has finished is kept.
    """
    if trials < LEAST_TRIALS:
        raise RequestError(f"trials = {trials} is too few: at least {LEAST_TRIALS} a world")
    if not 0.0 < confidence < 1.0:
        raise RequestError(f"confidence = {confidence!r} is not allowed: it must lie between 0 and 1")
    asked, folder = runs_of(name, settings, canary, records), Path(out)
    words = {"algorithm": asked.algorithm, "canary": canary, "records": records, **dict(asked.settings), "seed": seed}
    words, runs = json.loads(json.dumps(words)), shared(asked)
    trials_of(asked, seed, 1, 0, 1)  # what cannot be audited is refused before anything is written
    with Pool(jobs, watch, executor) as pool:
        begin(folder / FILE, lambda about: refuse_others(folder, about["settings"], words))
        about = {"admmnet": __version__, "settings": words, "result": None}
        write_whole({folder / FILE: (json.dumps(about, indent=2) + "\n").encode()})
        first, second = _all(pool, folder / TRIALS, asked, seed, trials)
        audit = judge(runs.name, runs.reading, first, second, float(runs.config.delta), confidence)
        best = max(audit.lower, audit.lower_gaussian or 0.0)
        result = asdict(audit) | {
            "name": name,
            "canary": canary or ("mirror" if runs.adjacency == "replace-one" else "zeros"),
            "adjacency": runs.adjacency,
            "epsilon_target": float(runs.config.epsilon),
            "holds": audit.holds,
            "exceeds_published": None if audit.published is None else best > audit.published,
        }
        write_whole({folder / FILE: (json.dumps(about | {"result": result}, indent=2) + "\n").encode()})
        return result


def runs_of(name: str, settings: Mapping[str, Any], canary: Canary | None, records: int) -> Runs:
    """What the words mean; RequestError if they are wrong."""
    if not 20 <= records <= 10**6:
        raise RequestError(f"records = {records} is not allowed: it must lie in [20, 1e+06]")
    entry = parse_entry(name, "NAME")
    method = METHODS[entry.algorithm]
    if not (entry.private and method.covered):
        raise RequestError(f"{entry.algorithm} has no proven privacy, and so nothing to audit: name a method that has")
    forms = {"method": entry.method, "accountant": entry.accountant}
    kind = StepTrials if method.verb == "none" else MethodTrials
    return kind(entry.algorithm, tuple(sorted((dict(settings) | forms).items())), canary, records)


def _all(pool: Pool, folder: Path, runs: Runs, seed: int, trials: int) -> list[Drawn]:
    calls = {}
    for first, world in product(range(0, trials, PART), WORLDS):
        count = min(PART, trials - first)
        words = f"world {world}, trials {first} to {first + count - 1}"
        calls[f"{world}-{first}-{count}"] = Call(words, trials_of, (runs, seed, world, first, count))
    parts = [Drawn(**own | {"scores": np.array(own["scores"])}) for own in pool.answers_in(folder, calls).values()]
    return [Drawn.joined(parts[world :: len(WORLDS)]) for world in WORLDS]
