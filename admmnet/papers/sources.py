"""Where the records of a figure come from: a set of the data folder, or a stand-in that says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records
from admmnet.data.records import TargetRange, arrays_of
from admmnet.errors import MissingDataError
from admmnet.experiments.holdout import hold_out, load_for, stacked
from admmnet.running.loading import Loader
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class DataSource:
    """Records of a figure.

    ``settings`` are fields of ``DataSettings``, or the numbers of a problem that is computed, whose name in ``MADE``
    is ``made``. ``stands_for`` is the paper's set, where this one stands in for it; of ``most`` training records the
    first of a draw are taken. ``digest`` is the sha256 of the records as all runs see them, set by ``surveyed``.
    """

    title: str
    settings: tuple[tuple[str, Any], ...] = ()
    made: str | None = None
    data_dir: str | None = None
    stands_for: str | None = None
    most: int | None = None
    digest: str = ""

    @property
    def words(self) -> str:
        """Title, and what it stands for."""
        return self.title if self.stands_for is None else f"{self.title} (in place of {self.stands_for})"

    @property
    def computed(self) -> bool:
        """Whether its records are made or cut here, and dealt to any number of holders."""
        return self.made is not None or self.most is not None

    def key(self) -> dict[str, Any]:
        """What results depend on: never where the records lie."""
        plain = {name: value for name, value in self.settings if name != "data"}
        return {"made": self.made, "most": self.most, "digest": self.digest, **plain}


def named(title: str, data: str, data_dir: str | None, **settings: Any) -> DataSource:
    """Source of a set of the data folder."""
    return DataSource(title, tuple({"data": data, **settings}.items()), data_dir=data_dir)


def made(title: str, kind: str, **numbers: Any) -> DataSource:
    """Source of a computed problem."""
    return DataSource(title, tuple(numbers.items()), made=kind)


def first_found(*candidates: DataSource) -> DataSource:
    """Return the first source whose records are there, surveyed; a set that is there and not sound is refused.

    MissingDataError is that of the first candidate, if there is none.
    """
    refusal: MissingDataError | None = None
    for source in candidates:
        try:
            return surveyed(source)
        except MissingDataError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def surveyed(source: DataSource, agents: int = 5) -> DataSource:
    """Return the source with the digest of its records; shards of ``agents`` are what network runs see."""
    return replace(source, digest=digest(load(source, 1 if source.computed else agents)))


def load(source: DataSource, agents: int = 1, *, held: bool = False) -> Records:
    """Records for so many holders; with ``held``, the validation part in place of the test set."""
    return _load(replace(source, title="", stands_for=None, digest=""), agents, held)


@lru_cache(maxsize=6)
def _load(source: DataSource, agents: int, held: bool) -> Records:
    own = dict(source.settings)
    if held:
        return hold_out(_load(source, agents, False), own.get("data_seed", 0))
    if source.computed and agents > 1:
        whole = _load(source, 1, False)
        X, y = whole.shards[0]
        parts = dict(enumerate(np.array_split(np.arange(len(y)), agents)))
        shards = {agent: (X[part], y[part]) for agent, part in parts.items()}
        return replace(whole, shards=shards, counts={agent: len(part) for agent, part in parts.items()})
    if source.made is not None:
        return MADE[source.made](**own)
    records = load_for(DataSettings(data_dir=source.data_dir, **own), agents, range(agents))
    if source.most is None:
        return records
    X, y = records.shards[0]
    taken = np.random.default_rng(0).permutation(len(y))[: source.most]
    return replace(records, shards={0: (X[taken], y[taken])}, counts={0: len(taken)})


def guessing(source: DataSource) -> float:
    """Test figure of a model without features: the training records' mean, or their larger class."""
    y, records = rows(source)[1], load(source)
    if records.target is not None:
        return float(np.mean((records.y_test - y.mean()) ** 2))
    return float(np.mean(records.y_test != (1.0 if y.mean() > 0.0 else -1.0)))


def loader(source: DataSource, *, held: bool) -> Loader:
    """``load`` as ``admmnet.run`` takes it."""
    return lambda settings, agents, mine: load(source, agents, held=held)


def pooled_rows(records: Records) -> tuple[Any, Any]:
    """All training records together: X (n, d) and y (n,)."""
    parts = [records.shards[agent] for agent in sorted(records.shards)]
    return stacked([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def digest(records: Records) -> str:
    """sha256 over all shards and the test set."""
    found = hashlib.sha256(repr((records.feature_names, sorted(records.counts.items()))).encode())
    shards = [part for agent in sorted(records.shards) for part in records.shards[agent]]
    for part in (*shards, records.X_test, records.y_test):
        for array in arrays_of(part):
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def rows(source: DataSource, part: str = "train") -> tuple[Matrix, Vector]:
    """All training records together, or the test records: X (n, d) and y (n,), dense."""
    records = load(source)
    X, y = pooled_rows(records) if part == "train" else (records.X_test, records.y_test)
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


MADE: dict[str, Callable[..., Records]] = {"ridge": _ridge, "sphere": _sphere, "logistic": _logistic}
"""Problems that are computed, the same on every machine."""
