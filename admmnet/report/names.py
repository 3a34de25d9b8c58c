"""Names of runs: headings, and what tells runs that lie beside each other apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from admmnet.config.run_config import settings_of
from admmnet.config.toml import common_settings
from admmnet.errors import RequestError
from admmnet.record.format import count, epsilon, parameter
from admmnet.record.values import at
from admmnet.report.series import RunSeries, gate_line
from admmnet.settings import Setting

TABLES = ("data", "problem", "algorithm", "privacy", "network", "baseline", "run")
"""Tables of the settings in the order of a label."""
PRIVATE = ("method", "accountant", "epsilon", "delta")
"""Settings that mean nothing in a method without privacy, whatever its config.toml says."""
BARE = ("data", "loss", "algorithm", "method", "topology")
"""Settings whose value explains itself."""


_UNTOLD = {"drop": 0.0, "answer": "average"}
"""Values that say that something is not there."""


def labels(runs: Sequence[RunSeries]) -> list[str]:
    """Name every run by the settings in which the runs differ; by its folder, too, where none tells it apart."""
    known = {name: own for run in runs for name, own in _settings(run).items()}
    told = sorted(known.values(), key=lambda own: TABLES.index(own.about.table))
    differing = [own for own in told if (own.about.numbers or own.about.chosen) and _differs(own.name, runs)]
    chosen = [own.name for own in differing if own.about.chosen]
    if (
        "accountant" in chosen
        and "method" in chosen
        and all(run.settings.get("method") == run.settings.get("accountant") for run in runs)
    ):
        chosen.remove("accountant")
    if "agents" in chosen and "topology" in chosen and _follows("agents", "topology", runs):
        chosen.remove("agents")
    seeds = {run.settings.get("seed") for run in runs if run.seeded}
    mixed = len({run.algorithm for run in runs}) > 1
    found = [_label(chosen, run, mixed=mixed, seeds=len(seeds)) for run in runs]
    if len(set(found)) < len(runs):
        # these follow, unless somebody sets them
        chosen += [own.name for own in differing if not own.about.chosen]
        found = [_label(chosen, run, mixed=mixed, seeds=len(seeds)) for run in runs]
    if len(set(found)) < len(runs):
        found = [
            f"{words}, {run.path.name}" if words else run.path.name for words, run in zip(found, runs, strict=True)
        ]
    if len(set(found)) < len(runs):
        found = [f"{words} ({number})" for number, words in enumerate(found, start=1)]
    return found


def _differs(name: str, runs: Sequence[RunSeries]) -> bool:
    """Whether a setting has several values; that a method lacks a setting is no difference of that setting."""
    values = {_value(name, run) for run in runs if _has(name, run)}
    if len({run.algorithm for run in runs}) > 1:
        values -= {"auto"}  # methods leave different settings open
    return len(values) > 1


def _has(name: str, run: RunSeries) -> bool:
    return name in _settings(run) and (run.private or name not in PRIVATE)


def _settings(run: RunSeries) -> dict[str, Setting]:
    """Settings that a run's method has; of a method that is not installed here, those of all methods."""
    try:
        return settings_of(run.algorithm)
    except RequestError:
        return common_settings()


def _follows(name: str, other: str, runs: Sequence[RunSeries]) -> bool:
    """Whether runs with one value of the other setting have one value of this."""
    return len({(_value(other, run), _value(name, run)) for run in runs}) == len({_value(other, run) for run in runs})


def _value(name: str, run: RunSeries) -> Hashable:
    if not _has(name, run):
        return None
    value = run.settings.get(name)
    if name == "data":
        return data_of(run)
    if name == "seed":  # without one the noise is private
        return value if run.seeded else "private"
    return value if value is None or isinstance(value, int | float | str) else repr(value)


def _label(names: Sequence[str], run: RunSeries, *, mixed: bool, seeds: int) -> str:
    """Settings of a run in words; among several methods ``auto`` often stands for a setting that one lacks."""
    parts = []
    for name in names:
        value = _value(name, run)
        if value is None or (mixed and value == "auto") or (name == "seed" and run.seeded and seeds == 1):
            continue
        shown = parameter(value)
        if name == "seed" and not run.seeded:
            parts.append("private noise")
        elif _UNTOLD.get(name) != value:
            parts.append(shown if name in BARE else f"{name.replace('_', ' ')} {shown}")
    return ", ".join(part.replace(" ", "\u00a0") for part in parts)  # lines break between settings


def heading(run: RunSeries) -> str:
    """What a run is, in one line."""
    name = run.algorithm + (", published" if run.private and run.settings.get("method") == "published" else "")
    parts = [f"{name} on {data_of(run)}"]
    if not run.baseline:
        parts.append(f"{count(run.size)}\u00a0agents")
    if run.private:
        parts += [_budget(run)] if run.part is None else [_budget(run), f"agent {run.part}'s part"]
    if run.summary is not None and run.summary.gate is not None and run.summary.gate.asked:
        parts.append(f"gate {gate_line(run.summary)}".replace(" ", "\u00a0"))
    if run.summary is None:
        parts.append(f"unfinished: {_rounds(run)}")
    return ", ".join(parts)


def data_of(run: RunSeries) -> str:
    """Name of the records that were used, where the summary tells it; the settings only say what was asked for."""
    told = at(run.summary, "data", "name")
    return told if isinstance(told, str) else str(run.settings.get("data", "unknown data")).rpartition("/")[2]


def _budget(run: RunSeries) -> str:
    targets = run.targets[run.targets == run.targets]
    deltas = sorted(set(run.deltas[run.deltas == run.deltas].tolist()))
    low, high = float(targets.min()), float(targets.max())
    ends = "\u00a0to\u00a0".join(dict.fromkeys((epsilon(low), epsilon(high))))
    return f"epsilon\u00a0{ends}" + (f", delta\u00a0{epsilon(deltas[0])}" if len(deltas) == 1 else "")


def _rounds(run: RunSeries) -> str:
    done = int(np.isfinite(run.network["releases"]).sum())
    planned = run.settings.get("rounds")
    unit = "epochs" if run.baseline else "rounds"
    return f"{done} of {planned} {unit}" if isinstance(planned, int) and not run.baseline else f"{done} {unit}"


def common_heading(runs: Sequence[RunSeries]) -> str:
    """What runs beside each other have in common, in one line."""
    parts = []
    if len({data_of(run) for run in runs}) == 1:
        parts.append(data_of(runs[0]))
    if len({run.algorithm for run in runs}) == 1:
        parts.insert(0, f"{runs[0].algorithm} on")
    head = " ".join(parts) or "runs"
    if len({run.size for run in runs}) == 1 and runs[0].size > 1:
        head += f", {count(runs[0].size)} agents"
    return f"{len(runs)} runs: {head}"
