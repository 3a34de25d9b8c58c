"""Runs on small files of people, and new rows for their models."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run
from admmnet.types import Vector

SCHEMA: dict[str, Any] = {
    "label": "sick",
    "labels": ["no", "yes"],
    "drop": ["id"],
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
    },
}


def people(path: Path, rows: int, seed: int, youngest: int, oldest: int, *, label: bool = True) -> Path:
    generator = np.random.default_rng(seed)
    ages = generator.integers(youngest, oldest, rows, endpoint=True)
    ages[:2] = youngest, oldest
    lines = ["id,age,ward" + ",sick" * label]
    for k, age in enumerate(ages.tolist()):
        sick = age + 30 * (k % 3 == 0) + generator.normal(0, 10) > 70
        lines.append(f"{k},{age},{'abc'[k % 3]}" + (",yes" if sick else ",no") * label)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(folder: Path, **settings: Any) -> Path:
    quick: dict[str, Any] = {"algorithm": "admm", "topology": "path:2", "rounds": 30, "seed": 0}
    run(RunConfig(**{**quick, **settings}, out=str(folder)))
    return folder


def trained_on_people(folder: Path, **settings: Any) -> Path:
    data = people(folder / "train.csv", 120, 0, 20, 90)
    return trained(folder / "run", data=str(data), **settings)


def table_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def by_hand(path: Path, low: float, high: float, theta: Vector) -> Vector:
    rows = table_of(path.read_text(encoding="utf-8"))
    age = np.clip([(float(row["age"]) - low) / (high - low) for row in rows], 0, 1)
    wards = np.array([[float(row["ward"] == ward) for ward in "abc"] for row in rows])
    X = np.column_stack([age, wards, np.ones(len(rows))])
    return np.asarray((X / np.linalg.norm(X, axis=1)[:, None]) @ theta)
