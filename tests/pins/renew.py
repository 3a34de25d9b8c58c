"""Fingerprints of runs; ``python -m tests.pins.renew [NAME ...]``, in the project's folder, renews stored ones.

It prints what changed; without names all settings are run. A change that is meant is committed with the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from admmnet import RunConfig, read_run, run

from .settings import SETTINGS

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


def fingerprint(values: Mapping[str, Any], folder: Path) -> Fingerprint:
    """Run settings in an empty folder, in this process; its ledgers verify."""
    result = run(RunConfig(**values, out=str(folder)))
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        theta, consensus = model["theta"], model["consensus"]
    vectors, books = np.concatenate([theta.ravel(), consensus.ravel()]), read_run(folder).ledgers.values()
    events = [
        [book.header["agent"], line["round"], line["mechanism"], _rounded(line["parameters"])]
        for book in books
        for _, _, line in book.events
    ]
    return Fingerprint(
        model=hashlib.sha256(theta.tobytes() + consensus.tobytes()).hexdigest(),
        charges=hashlib.sha256(json.dumps(events, sort_keys=True).encode()).hexdigest(),
        events=len(events),
        releases=sum(entry["releases"] for entry in result.summary["per_agent"]),
        numbers=[math.sqrt(math.fsum(vectors * vectors)), *(_projection(vectors, k) for k in (2, 3, 5))],
    )


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

    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    simd: Any = np.show_config(mode="dicts")
    return {
        **{name: version(name) for name in ("numpy", "scipy", "numba", "randomgen", "dp-accounting")},
        "blas": sorted({f"{one['internal_api']} {one['version']} {one['architecture']}" for one in blas}),
        "simd": simd["SIMD Extensions"].get("found", []),
        "processor": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
    }


def main(names: list[str]) -> int:
    """Run settings and write the file."""
    if strangers := [name for name in names if name not in SETTINGS]:
        print(f"no setting is called {strangers[0]!r}; there are: {'; '.join(SETTINGS)}", file=sys.stderr)
        return 2
    stored, here, changed = json.loads(STORED.read_text(encoding="utf-8")), machine(), 0
    if names and stored["machine"] != here:
        print("the file was made on another machine, or with other libraries: renew all", file=sys.stderr)
        return 2
    pins = {name: stored["pins"].get(name) for name in SETTINGS}
    for name in names or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            found = fingerprint(SETTINGS[name], Path(folder) / "run")
        if words := ["new"] if pins[name] is None else changes(pins[name], found):
            print(f"{name}: {', '.join(words)}", flush=True)
            changed += 1
        pins[name] = found._asdict()
    print(f"{len(names or SETTINGS)} settings were run, {changed} changed")
    kept = {name: pin for name, pin in pins.items() if pin is not None}
    STORED.write_text(json.dumps({"machine": here, "pins": kept}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
