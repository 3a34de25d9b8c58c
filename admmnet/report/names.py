"""Names of runs: headings, and the folders that tell runs beside each other apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from admmnet.record.format import count, epsilon
from admmnet.record.values import at
from admmnet.report.series import RunSeries, gate_line


def folder_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders; of several with the same name, their paths."""
    names = [path.resolve().name for path in paths]
    return [str(path) if names.count(name) > 1 or not name else name for path, name in zip(paths, names, strict=True)]


def data_of(run: RunSeries) -> str:
    """Name of the records that were used, where the summary tells it; the settings only say what was asked for."""
    told = at(run.summary, "data", "name")
    return told if isinstance(told, str) else str(run.settings.get("data", "unknown data")).rpartition("/")[2]


def heading(runs: Sequence[RunSeries]) -> str:
    """What a run is, or what several have in common, in one line."""
    run, several = runs[0], len(runs) > 1
    methods = {f"{run.algorithm}{', published' * _published(run)}" for run in runs}
    data, sizes = {data_of(run) for run in runs}, {run.size for run in runs}
    parts = [" on ".join(next(iter(own)) for own in (methods, data) if len(own) == 1) or "runs"]
    if len(sizes) == 1 and not run.baseline:
        parts.append(f"{count(run.size)}\u00a0agents")
    if several:
        return f"{len(runs)} runs: {', '.join(parts)}"
    if run.private:
        parts.append(_budget(run))
    if run.part is not None:
        parts.append(f"agent {run.part}'s part")
    if run.summary is not None and run.summary.gate is not None and run.summary.gate.asked:
        parts.append(f"gate {gate_line(run.summary)}".replace(" ", "\u00a0"))
    if run.summary is None:
        parts.append(f"unfinished: {int(np.isfinite(run.network['releases']).sum())} {run.unit}s are recorded")
    return ", ".join(parts)


def _published(run: RunSeries) -> bool:
    return run.private and run.settings.get("method") == "published"


def _budget(run: RunSeries) -> str:
    targets = run.targets[np.isfinite(run.targets)]
    deltas = {*run.deltas[np.isfinite(run.deltas)].tolist()}
    ends = "\u00a0to\u00a0".join(dict.fromkeys((epsilon(float(targets.min())), epsilon(float(targets.max())))))
    return f"epsilon\u00a0{ends}" + (f", delta\u00a0{epsilon(*deltas)}" if len(deltas) == 1 else "")
