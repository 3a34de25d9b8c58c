"""Where the records of a figure come from: a set of the data folder, or a stand-in that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records
from admmnet.data.records import Target
from admmnet.errors import MissingDataError
from admmnet.experiments.holdout import Shelf, hold_out
from admmnet.experiments.tasks import digest, pooled_rows
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class Source:
    """Records of a figure.

    Attributes
    ----------
    title : str
        What pictures call it.
    settings : tuple of (str, value)
        Fields of ``DataSettings`` but ``data_dir``; of a made problem its numbers.
    made : str or None
        Name in ``MADE`` of a problem that is computed; None for a set.
    data_dir : str or None
        Folder of the sets.
    stands_for : str or None
        The paper's set, where this one stands in for it.
    most : int or None
        Training records that are taken, the first of a draw; None for all.
    digest : str
        sha256 of the records as all runs see them; set by ``surveyed``.
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

    def key(self) -> dict[str, Any]:
        """What results depend on: never where the records lie."""
        plain = {name: value for name, value in self.settings if name != "data"}
        return {"made": self.made, "most": self.most, "digest": self.digest, **plain}

    def data_settings(self) -> DataSettings:
        """The request to the data layer."""
        return DataSettings(data_dir=self.data_dir, **dict(self.settings))


def named(title: str, data: str, data_dir: str | None, **settings: Any) -> Source:
    """Source of a set of the data folder."""
    return Source(title, tuple({"data": data, **settings}.items()), data_dir=data_dir)


def first_found(*candidates: Source) -> Source:
    """Return the first source whose records are there, surveyed.

    Raises
    ------
    MissingDataError
        Of the first candidate, if there is none.
    RequestError
        If a set is there and not sound: nothing stands in for it.
    """
    refusal: MissingDataError | None = None
    for source in candidates:
        try:
            return surveyed(source)
        except MissingDataError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def surveyed(source: Source, agents: int = 5) -> Source:
    """Return the source with the digest of its records; shards of ``agents`` are what network runs see."""
    records = load(source, 1 if source.made or source.most else agents)
    return replace(source, digest=digest(records))


_SHELF = Shelf(6)


def load(source: Source, agents: int = 1, *, held: bool = False) -> Records:
    """Records for so many holders; with ``held``, the validation part in place of the test set.

    Raises
    ------
    RequestError
        If the set is not there or not sound.
    """
    if source.made is not None or source.most is not None:
        return _held(source, agents) if held else _dealt(source, agents)
    get = _SHELF.validation if held else _SHELF.load
    return get(source.data_settings(), agents, tuple(range(agents)))


def guessing(source: Source) -> float:
    """Test figure of a model without features: the training records' mean, or their larger class."""
    y, records = rows(source)[1], load(source)
    if records.target is not None:
        return float(np.mean((records.y_test - y.mean()) ** 2))
    return float(np.mean(records.y_test != (1.0 if y.mean() > 0.0 else -1.0)))


def loader(source: Source, *, held: bool) -> Callable[..., Records]:
    """``load`` as ``admmnet.run`` takes it."""
    return lambda settings, agents, mine: load(source, agents, held=held)


def rows(source: Source) -> tuple[Matrix, Vector]:
    """All training records together: X (n, d) and y (n,), dense."""
    X, y = pooled_rows(load(source))
    return (X.toarray() if hasattr(X, "toarray") else X), y


@lru_cache(maxsize=3)
def _cut(source: Source) -> Records:
    if source.made is not None:
        return MADE[source.made](dict(source.settings))
    records = _SHELF.load(source.data_settings(), 1, (0,))
    X, y = records.shards[0]
    taken = np.random.default_rng(0).permutation(len(y))[: source.most]
    return replace(records, shards={0: (X[taken], y[taken])}, counts={0: len(taken)})


@lru_cache(maxsize=3)
def _dealt(source: Source, agents: int) -> Records:
    records = _cut(source)
    if agents == 1:
        return records
    X, y = records.shards[0]
    parts = np.array_split(np.arange(len(y)), agents)
    shards = {agent: (X[part], y[part]) for agent, part in enumerate(parts)}
    return replace(records, shards=shards, counts={agent: len(part) for agent, part in enumerate(parts)})


@lru_cache(maxsize=3)
def _held(source: Source, agents: int) -> Records:
    return hold_out(_dealt(source, agents), 0)


def _unit(X: Matrix) -> Matrix:
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _records(name: str, X: Matrix, y: Vector, test: int, target: Target | None = None) -> Records:
    n = len(y) - test
    features = tuple(f"x{number + 1}" for number in range(X.shape[1]))
    return Records(name, {0: (X[:n], y[:n])}, {0: n}, X[n:], y[n:], features, "public-bounds", target=target)


def _ridge(words: Mapping[str, Any]) -> Records:
    """YearPredictionMSD's shape: 90 correlated features of falling scale, bounded targets with noise, a constant."""
    n, d, test = int(words["records"]), 90, int(words["test"])
    rng = np.random.default_rng(7)
    Z = rng.standard_normal((n + test, 12)) @ (0.6 * rng.standard_normal((12, d)))
    Z += rng.standard_normal((n + test, d))
    scale = np.geomspace(3.0, 0.2, d)
    Z *= scale
    score = Z @ (rng.standard_normal(d) / scale)
    y = np.tanh(0.45 * score / score.std() + 0.35 * rng.standard_normal(n + test))
    X = _unit(np.hstack([Z, np.ones((n + test, 1))]))
    return _records("synthetic ridge", X, y, test, Target(-1.0, 1.0, 0.0))


def _sphere(words: Mapping[str, Any]) -> Records:
    """Song et al.'s synthetic set: uniform on the sphere in 5 dimensions, separable with a margin of 0.001."""
    n, d, test = int(words["records"]), 5, 1000
    rng = np.random.default_rng(11)
    normal = rng.standard_normal(d)
    normal /= np.linalg.norm(normal)
    X = np.empty((0, d))
    while len(X) < n + test:
        drawn = _unit(rng.standard_normal((n + test, d)))
        X = np.vstack([X, drawn[np.abs(drawn @ normal) >= 0.001]])
    X = np.ascontiguousarray(X[: n + test])
    return _records("synthetic sphere", X, np.where(X @ normal > 0.0, 1.0, -1.0), test)


def _logistic(words: Mapping[str, Any]) -> Records:
    """Unit rows uniform on the sphere, labels from a logistic model of norm ``norm``: the optimum of R is known."""
    n, d, test = int(words["records"]), int(words["features"]), int(words["test"])
    rng = np.random.default_rng(13)
    X = _unit(rng.standard_normal((n + test, d)))
    chance = 1.0 / (1.0 + np.exp(-X[:, 0] * float(words["norm"])))
    y = np.where(rng.random(n + test) < chance, 1.0, -1.0)
    return _records("synthetic logistic", X, y, test)


MADE: dict[str, Callable[[Mapping[str, Any]], Records]] = {
    "ridge": _ridge,
    "sphere": _sphere,
    "logistic": _logistic,
}
"""Problems that are computed, the same on every machine."""


def made(title: str, kind: str, **numbers: Any) -> Source:
    """Source of a computed problem."""
    return Source(title, tuple(numbers.items()), made=kind)
