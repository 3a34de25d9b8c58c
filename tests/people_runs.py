"""Small runs on a file of made people, and what their summaries say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run
from admmnet.forms import encode
from admmnet.record.folder import make_manifest
from admmnet.record.forms import Summary
from admmnet.running.events import OnRound, RoundEvent

AGENTS, ROUNDS = 4, 3
PRIVATE: dict[str, Any] = {"no_test": True, "no_account": True}


def write_people(path: Path, rows: int = 120, seed: int = 2, width: int = 4, noise: float = 0.3) -> str:
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((rows, width))
    np.savez(path, X=X, y=np.where(X[:, 0] + noise * stream.standard_normal(rows) > 0, 1, -1))
    return str(path)


def small(people: str, out: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": f"ring:{AGENTS}", "rounds": ROUNDS}
    return RunConfig(data=people, out=str(out), **values | {"epsilon": 20.0} | others)


class Stop(Exception):
    """Ends a run from outside, as an interrupt does."""


def stopping(after: int, error: type[BaseException] = Stop) -> OnRound:
    """What ends a run with an error after a round."""

    def stop(event: RoundEvent) -> None:
        if event.round == after:
            raise error

    return stop


def finished_run(folder: Path) -> Path:
    """Folder of a published run on a star, below the one given."""
    people = write_people(folder / "people.npz", 90, width=3)
    given = {"method": "published", "topology": f"star:{AGENTS}", "epsilon": 1.0, "seed": 5}
    return run(small(people, folder / "run", **given)).folder


def summary_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return value


def theta_of(folder: Path) -> Any:
    """Models in model.npz."""
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        return model["theta"]


def rows(folder: Path) -> list[dict[str, str]]:
    """Lines of metrics.csv."""
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def seal(folder: Path) -> None:
    """Write the manifest anew, as somebody would who changes files and covers it up."""
    (folder / "manifest.json").write_bytes(make_manifest(folder, {}))


def put_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write another summary, as admmnet spells it, and the manifest with it."""
    order = {name: place for place, name in enumerate(Summary.__struct_fields__)}
    placed = dict(sorted(summary.items(), key=lambda item: order.get(item[0], len(order))))
    (folder / "summary.json").write_bytes(encode(placed, indent=2))
    seal(folder)
