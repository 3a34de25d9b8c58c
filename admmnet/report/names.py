"""Names of runs: headings, and the folders that tell runs beside each other apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admmnet.record.values import at
from admmnet.report.series import RunSeries


def folder_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders; of several with the same name, their paths."""
    names = [path.resolve().name for path in paths]
    return [str(path) if names.count(name) > 1 or not name else name for path, name in zip(paths, names, strict=True)]


def data_of(run: RunSeries) -> str:
    """Name of the records that were used, where the summary tells it; the settings only say what was asked for."""
    told = at(run.summary, "data", "name")
    return told if isinstance(told, str) else str(run.settings.get("data", "unknown data")).rpartition("/")[2]


def heading(*runs: RunSeries) -> str:
    """Data and methods of runs, each once."""
    methods = (f"{run.algorithm} ({run.header['method']})" for run in runs)
    return ": ".join(", ".join(dict.fromkeys(words)) for words in (map(data_of, runs), methods))
