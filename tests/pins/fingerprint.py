"""Run a setting and say what it gave, through the public surface alone: `run`, the command line, the run folder."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from admmnet import RunConfig, run

from .settings import FILES, PLACES, Setting

STORED = Path(__file__).parent / "pins.json"
PROJECTIONS = 3
DIGITS = 12
"""Significant digits of a mechanism's parameters."""


class Fingerprint(NamedTuple):
    """What a run gave.

    Attributes
    ----------
    model : str
        sha256 of the bytes of theta and consensus.
    charges : str
        sha256 of all events of all ledgers: agent, round, mechanism, parameters to 12 digits.
    events, releases : int
        Over all agents.
    numbers : list of float
        Norm of the vectors, and their projections on fixed directions of norm 1.
    """

    model: str
    charges: str
    events: int
    releases: int
    numbers: list[float]


def write_files(folder: Path) -> None:
    """Write the files that settings name."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def placed(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings whose files and folders lie in a test's folder."""
    return {name: str(folder / value) if value in PLACES else value for name, value in values.items()}


def run_setting(setting: Setting, folder: Path) -> Fingerprint:
    """Run a setting in an empty folder, in this process."""
    write_files(folder)
    if setting.before is not None:
        run(RunConfig(**placed(setting.before, folder), out=str(folder / "before")))
    values, out = placed(setting.values, folder), str(folder / "run")
    if setting.interrupt is None:
        run(RunConfig(**values, out=out))
    else:
        _interrupted(RunConfig(**values, out=out), setting.interrupt)
        run(RunConfig(**values, out=out, resume=out))
    return fingerprint(folder / "run")


def _interrupted(config: RunConfig, after: int) -> None:
    done: list[int] = []

    def stop(*event: object) -> None:
        done.append(1)
        if len(done) == after:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        run(config, on_round=stop)
    if len(done) != after:
        raise AssertionError(f"the run did not stop after {after} rounds, but after {len(done)}")


def fingerprint(folder: Path) -> Fingerprint:
    """Fingerprint of a finished run folder."""
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        theta, consensus = model["theta"], model["consensus"]
    events = [event for path in sorted((folder / "ledger").glob("*.jsonl")) for event in _events(path)]
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    vectors = np.concatenate([theta.ravel(), consensus.ravel()])
    return Fingerprint(
        model=hashlib.sha256(theta.tobytes() + consensus.tobytes()).hexdigest(),
        charges=hashlib.sha256(json.dumps(events, sort_keys=True).encode()).hexdigest(),
        events=len(events),
        releases=sum(entry["releases"] for entry in summary["per_agent"]),
        numbers=[math.sqrt(math.fsum(vectors * vectors)), *_projections(vectors)],
    )


def _events(ledger: Path) -> list[list[Any]]:
    lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    agent = lines[0]["agent"]
    return [
        [agent, line["round"], line["mechanism"], _rounded(line["parameters"])]
        for line in lines
        if line["kind"] == "event"
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return f"{value:.{DIGITS - 1}e}" if isinstance(value, float) else value


def _projections(vectors: Any) -> list[float]:
    """Inner products with fixed directions whose coordinates are spread evenly over [-1, 1], then scaled."""
    found = []
    for k in range(PROJECTIONS):
        weights = np.arange(1, len(vectors) + 1) * math.sqrt((2, 3, 5)[k]) % 2.0 - 1.0
        found.append(math.fsum(weights * vectors) / math.sqrt(math.fsum(weights * weights)))
    return found


def changes(stored: Mapping[str, Any], found: Fingerprint, tolerance: float = 0.0) -> list[str]:
    """Name what differs between a stored fingerprint and a new one, numbers only beyond a relative tolerance."""
    names = [
        name for name in ("model", "charges", "events", "releases") if stored[name] != getattr(found, name)
    ]
    pairs = zip(stored["numbers"], found.numbers, strict=True)
    moved = max(abs(before - now) for before, now in pairs) / stored["numbers"][0]
    return names if moved <= tolerance else [*names, f"numbers (by {moved:.1e})"]


def machine() -> dict[str, Any]:
    """What the last bits depend on: libraries, and the kernels they choose for this processor."""
    import scipy.linalg  # noqa: F401  # loads scipy's BLAS, which is not numpy's
    from threadpoolctl import threadpool_info

    kernels = {
        f"{library['internal_api']} {library['version']} {library['architecture']}"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    simd: Any = np.show_config(mode="dicts")
    return {
        **{name: version(name) for name in ("numpy", "scipy", "numba", "randomgen", "dp-accounting")},
        "blas": sorted(kernels),
        "simd": simd["SIMD Extensions"].get("found", []),
        "processor": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
    }
