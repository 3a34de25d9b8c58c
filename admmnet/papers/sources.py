"""Where the records of a figure come from: a set of the data folder, or a stand-in that says so (sources.toml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records
from admmnet.data.records import TargetRange
from admmnet.errors import MissingDataError
from admmnet.experiments.holdout import load_for
from admmnet.files import read_toml
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class DataSource:
    """Records of a figure; as a reader it brings them to the runs of a comparison.

    ``settings`` are fields of ``DataSettings``, or the numbers of a problem that is computed, whose name in ``MADE``
    is ``made``. ``stands_for`` is the paper's set, where this one stands in for it; of ``most`` training records the
    first of a draw are taken.
    """

    title: str
    settings: tuple[tuple[str, Any], ...] = ()
    made: str | None = None
    most: int | None = None
    stands_for: str | None = None
    data_dir: str | None = None

    @property
    def words(self) -> str:
        """Title, and what it stands for."""
        return self.title if self.stands_for is None else f"{self.title} (in place of {self.stands_for})"

    @property
    def run_settings(self) -> dict[str, Any]:
        """Settings of runs on it: what is made or cut here is handed over, and the data layer is never asked for it."""
        return {} if self.made or self.most else {**dict(self.settings), "data_dir": self.data_dir, "simulate": True}

    def __call__(self, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        """Records for so many holders, whatever the settings name."""
        return load(self, agents)


def source(name: str, data_dir: str | None, **numbers: Any) -> DataSource:
    """Source of a name in sources.toml whose records are there: the first of the set itself and its stand-ins.

    ``numbers`` take the place of those of a computed problem. A set that is there and not sound is refused.
    MissingDataError is that of the set itself, if nothing can stand in.
    """
    known = read_toml(Path(__file__).with_name("sources.toml"))
    own, first, refusal = known[name], known[name]["title"], None
    while True:
        about = dict(own)
        title, made, most = about.pop("title"), about.pop("made", None), about.pop("most", None)
        stand_in = about.pop("stand_in", None)
        about |= {key: value for key, value in numbers.items() if made is not None and key != "most"}
        most = numbers.get("most", most) if most is not None else None
        found = DataSource(title, tuple(about.items()), made, most, None if title == first else first, data_dir)
        try:
            load(found)
            return found
        except MissingDataError as error:
            refusal = refusal or error
        if stand_in is None:
            raise refusal or MissingDataError(f"{first} is not there")
        own = known[stand_in]


def load(source: DataSource, agents: int = 1) -> Records:
    """Records for so many holders."""
    return _load(replace(source, title="", stands_for=None), agents)


@lru_cache(maxsize=6)
def _load(source: DataSource, agents: int) -> Records:
    own = dict(source.settings)
    if (source.made or source.most) and agents > 1:
        whole = _load(source, 1)
        X, y = whole.shards[0]
        parts = dict(enumerate(np.array_split(np.arange(len(y)), agents)))
        shards = {agent: (X[part], y[part]) for agent, part in parts.items()}
        return replace(whole, shards=shards, counts={agent: len(part) for agent, part in parts.items()})
    if source.made is not None:
        made: Records = MADE[source.made](**own)
        return made
    records = load_for(DataSettings(data_dir=source.data_dir, **own), agents, range(agents))
    if source.most is None:
        return records
    X, y = records.shards[0]
    taken = np.random.default_rng(0).permutation(len(y))[: source.most]
    return replace(records, shards={0: (X[taken], y[taken])}, counts={0: len(taken)})


def rows(source: DataSource, part: str = "train") -> tuple[Matrix, Vector]:
    """All training records together, or the test records: X (n, d) and y (n,), dense."""
    records = load(source)
    X, y = records.shards[0] if part == "train" else (records.X_test, records.y_test)
    return (X.toarray() if hasattr(X, "toarray") else X), y


def _unit(X: Matrix) -> Matrix:
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _records(name: str, X: Matrix, y: Vector, test: int, target: TargetRange | None = None) -> Records:
    n = len(y) - test
    features = tuple(f"x{number + 1}" for number in range(X.shape[1]))
    return Records(name, {0: (X[:n], y[:n])}, {0: n}, X[n:], y[n:], features, "public-bounds", target=target)


def _ridge(records: int, test: int, draw: int = 7) -> Records:
    """YearPredictionMSD's shape: 90 correlated features of falling scale, bounded targets with noise, a constant."""
    n, d = records + test, 90
    rng = np.random.default_rng(draw)
    Z = rng.standard_normal((n, 12)) @ (0.6 * rng.standard_normal((12, d)))
    Z += rng.standard_normal((n, d))
    scale = np.geomspace(3.0, 0.2, d)
    Z *= scale
    score = Z @ (rng.standard_normal(d) / scale)
    y = np.tanh(0.45 * score / score.std() + 0.35 * rng.standard_normal(n))
    X = _unit(np.hstack([Z, np.ones((n, 1))]))
    return _records("synthetic ridge", X, y, test, TargetRange(-1.0, 1.0, 0.0))


def _sphere(records: int, test: int = 1000) -> Records:
    """Song et al.'s synthetic set: uniform on the sphere in 5 dimensions, separable with a margin of 0.001."""
    n, d = records + test, 5
    rng = np.random.default_rng(11)
    normal = rng.standard_normal(d)
    normal /= np.linalg.norm(normal)
    X = np.empty((0, d))
    while len(X) < n:
        drawn = _unit(rng.standard_normal((n, d)))
        X = np.vstack([X, drawn[np.abs(drawn @ normal) >= 0.001]])
    X = np.ascontiguousarray(X[:n])
    return _records("synthetic sphere", X, np.where(X @ normal > 0.0, 1.0, -1.0), test)


def _logistic(records: int, features: int, test: int, norm: float) -> Records:
    """Unit rows uniform on the sphere, labels from a logistic model of norm ``norm``: the optimum of R is known."""
    n = records + test
    rng = np.random.default_rng(13)
    X = _unit(rng.standard_normal((n, features)))
    chance = 1.0 / (1.0 + np.exp(-X[:, 0] * norm))
    y = np.where(rng.random(n) < chance, 1.0, -1.0)
    return _records("synthetic logistic", X, y, test)


MADE: dict[str, Any] = {"ridge": _ridge, "sphere": _sphere, "logistic": _logistic}
"""Problems that are computed, the same on every machine."""
