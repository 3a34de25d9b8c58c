"""Raw records of three agents, and runs on them whose stages are asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig
from admmnet.data import DataSettings, Records
from admmnet.holder.encoding import Encoding, Number, RawRows, Words
from admmnet.types import Vector

N, EACH = 3, 800
EDGES = tuple(k / 32 for k in range(33))
ENCODING = Encoding((Number(1.0, 0.0, 1.0), Words(3, 1.0), Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0, EDGES)))


def raw(agent: int, n: int = EACH) -> tuple[RawRows, Vector]:
    """Records whose label follows from the logarithm of a number of any size."""
    rng = np.random.default_rng(agent)
    size = rng.normal(0.0, 1.0, n)
    numbers = np.column_stack([1e3 * np.exp(2.0 * size), rng.normal(-5.0, 2.0, n), rng.random(n)])
    numbers[rng.random((n, 3)) < 0.02] = np.nan
    y = np.where(size + rng.normal(0.0, 0.4, n) > 0.0, 1.0, -1.0)
    return RawRows(numbers, rng.integers(0, 3, (n, 1)), ENCODING.width), y


def loader(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    test, labels = raw(99)
    if settings.no_test:
        test, labels = RawRows(test.numbers[:0], test.codes[:0], test.width), labels[:0]
    names = tuple(f"x{k}" for k in range(ENCODING.width))
    shards: dict[int, Any] = {i: raw(i) for i in mine}
    counts = dict.fromkeys(range(agents), EACH)
    return Records("raw", shards, counts, test, labels, names, "public-bounds", raw=ENCODING)  # type: ignore[arg-type]


def raw_config(out: Path, **others: Any) -> RunConfig:
    settings: dict[str, Any] = {"algorithm": "noisy-gd", "epsilon": 4.0, "delta": 1e-4, "seed": 3, "agents": N}
    settings |= {"topology": f"ring:{N}", "encode": "private", "whiten": "on"}
    return RunConfig(out=str(out), **settings | others)
