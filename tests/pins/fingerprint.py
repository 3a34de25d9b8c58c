"""Run a setting and say what it gave, through the public surface alone: `run`, the command line, the run folder."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.rng import AgentStreams
from admmnet.running import loop

from .settings import FILES, PLACES, Setting

STORED = Path(__file__).parent / "pins.json"
DIGITS = 12
"""Significant digits of a mechanism's parameters."""


class Fingerprint(NamedTuple):
    """What a run gave."""

    model: str  # sha256 of the bytes of theta and consensus
    charges: str  # sha256 of all events of all ledgers: agent, round, mechanism, parameters to 12 digits
    events: int  # of all agents
    releases: int
    numbers: list[float]  # norm of the vectors, and their projections on fixed directions of norm 1


def placed(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings whose files and folders lie in a test's folder."""
    return {name: str(folder / value) if value in PLACES else value for name, value in values.items()}


def run_setting(setting: Setting, folder: Path) -> Fingerprint:
    """Run a setting in an empty folder, in this process."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    if setting.before is not None:
        with seeded_by_hand(setting.before) as before:
            run(RunConfig(**placed(before, folder), out=str(folder / "before")))
        with seeded_by_hand(setting.values) as values:
            run(RunConfig(**placed(values, folder), out=str(folder / "run")))
        return fingerprint(folder / "run")
    values = placed(setting.values, folder) | {"out": str(folder / "run")}
    if setting.interrupt is not None:
        _interrupt(RunConfig(**values), setting.interrupt)
        values["resume"] = values["out"]
    run(RunConfig(**values))
    return fingerprint(folder / "run")


@contextmanager
def seeded_by_hand(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings of a simulation without a seed, as an account needs it, whose noise is that of the seed all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "AgentStreams", lambda agent, seed: AgentStreams(agent, values["seed"]))
        yield {**values, "seed": None, "simulate": True}


def _interrupt(config: RunConfig, after: int) -> None:
    rounds = iter(range(1, after + 1))

    def stop(*event: object) -> None:
        if next(rounds) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, on_round=stop)


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
        numbers=[math.sqrt(math.fsum(vectors * vectors)), *(_projection(vectors, k) for k in (2, 3, 5))],
    )


def _events(ledger: Path) -> list[list[Any]]:
    header, *lines = map(json.loads, ledger.read_text(encoding="utf-8").splitlines())
    return [
        [header["agent"], line["round"], line["mechanism"], _rounded(line["parameters"])]
        for line in lines
        if line["kind"] == "event"
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return f"{value:.{DIGITS - 1}e}" if isinstance(value, float) else value


def _projection(vectors: Any, prime: int) -> float:
    """Inner product with a fixed direction whose coordinates are spread evenly over [-1, 1], then scaled."""
    weights = np.arange(1, len(vectors) + 1) * math.sqrt(prime) % 2.0 - 1.0
    return math.fsum(weights * vectors) / math.sqrt(math.fsum(weights * weights))


def changes(stored: Mapping[str, Any], found: Fingerprint, tolerance: float = 0.0) -> list[str]:
    """Name what differs between a stored fingerprint and a new one, numbers only beyond a relative tolerance."""
    names = [name for name in Fingerprint._fields[:-1] if stored[name] != getattr(found, name)]
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
