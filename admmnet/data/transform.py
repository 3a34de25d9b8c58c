"""What happens to features between their encoding and the scaling of the rows, and to real targets.

Order: features are divided by their scales, then projected, then the intercept is appended, and the rows are
scaled to norm 1 last. In another order (Song, Chaudhuri, Sarwate 2013, sec. IV) norms can exceed 1, and every
sensitivity is wrong.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from admmnet.data.columns import Rows
from admmnet.data.records import TargetRange
from admmnet.data.schema import Schema
from admmnet.data.settings import DataSettings, parse_centre
from admmnet.data.shards import Stream, stream
from admmnet.data.source import Source
from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector

STEP = 1 << 20
"""Numbers that are in work at a time: a whole data set is never held twice."""


class Transform(Struct, frozen=True):
    """A fixed map of each row by itself."""

    scales: Vector | None = None  # (d,) what features are divided by
    clip: bool = False  # whether values beyond their scale are clipped to it first
    projection: Matrix | None = None  # (d, D) what features are multiplied by
    target: TargetRange | None = None  # how real targets become labels; None for classes

    def features(self, X: Matrix) -> Matrix:
        """Features (m, D) of encoded rows (m, d), without an intercept and not scaled to norm 1."""
        if self.scales is not None:
            X = np.clip(X, -self.scales, self.scales) / self.scales if self.clip else X / self.scales
        return X if self.projection is None else X @ self.projection

    def labels(self, y: Vector) -> Vector:
        """Labels (m,)."""
        return y if self.target is None else self.target.scaled(y)


class Fitted(Struct, frozen=True):
    """A transform with what it was made from."""

    transform: Transform
    schema: Schema  # the source's, with scales and centre filled in
    dependent: tuple[str, ...]  # what was read from the rows
    notes: tuple[str, ...]  # what was done by public numbers, to show once


def fit(source: Source, train: Rows, settings: DataSettings, *, discover: bool) -> Fitted:
    """Make the transform of a request.

    Only training rows are looked at, if `discover` allows it, and only for what is neither declared nor public.
    """
    schema, d = source.schema, len(source.features.names)
    scales, target, projection = None, None, None
    read: list[str] = []
    notes: list[str] = []

    def reads(what: str, flag: str, key: str) -> None:
        if not discover:
            raise RequestError(
                f"{flag} would be read from the rows: declare {key} in [data.schema], as nothing is read from the rows"
                " of these records"
            )
        read.append(what)

    if settings.normalise == "public" or (settings.normalise == "columns" and schema.scales):
        scales = _widened(schema.scales, source) if schema.scales else _bounds(source)
        notes.append("features are divided by declared bounds, which are public")
    elif settings.normalise == "columns":
        reads("largest absolute values of the features", "--normalise columns", "scales")
        scales = _largest(source, train)
        schema = replace(schema, scales=tuple(scales.tolist()))
    if schema.targets is not None:
        low, high = schema.targets
        given = parse_centre(settings.centre)
        centre = given if isinstance(given, float) else schema.centre
        if centre is not None:
            notes.append(f"targets are centred at {centre:g}, a public number")
        elif given == "mean":
            reads("mean of the targets", "--centre mean", "centre")
            centre = float(np.mean(source.y[train]))
        schema = replace(schema, centre=centre)
        target = target_of(low, high, centre)
    elif settings.centre is not None or schema.centre is not None:
        raise RequestError(f"--centre goes with real targets; the labels of {source.name} are classes: drop it")
    if settings.project is not None:
        projection = _projection(d, settings.project, settings.data_seed)
        notes.append(
            f"{d} features are projected to {settings.project} by the Gaussian matrix of data seed"
            f" {settings.data_seed}, which is public"
        )
    made = Transform(scales, settings.normalise == "public", projection, target)
    return Fitted(made, schema, tuple(read), tuple(notes))


def target_of(low: float, high: float, centre: float | None) -> TargetRange:
    """How targets of a public range become labels; the centre is its middle unless one is given."""
    centre = (low + high) / 2 if centre is None else centre
    if not low <= centre <= high:
        raise RequestError(f"--centre must lie in the range of the targets, {low:g} to {high:g}, got {centre:g}")
    return TargetRange(low, high, centre)


def steps(n: int, width: int) -> list[slice]:
    """Cut n rows into pieces of about `STEP` numbers."""
    rows = max(1, STEP // max(width, 1))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def _largest(source: Source, train: Rows) -> Vector:
    """Largest absolute value of every feature in some rows; 1 for a feature that is always 0."""
    largest, features = np.zeros(len(source.features.names)), source.features
    for piece in steps(len(train), len(largest)):
        if features.sparse:
            values = np.asarray(abs(features.numbers[train[piece]]).max(axis=0).toarray()).ravel()
        else:
            values = np.abs(features.take(train[piece])).max(axis=0)
        np.maximum(largest, values, out=largest)
    largest[largest == 0] = 1.0
    return largest


def _widened(scales: tuple[float, ...], source: Source) -> Vector:
    d = len(source.features.names)
    if len(scales) not in (1, d):
        raise RequestError(
            f"data.schema.scales holds {len(scales)} numbers, {source.name} has {d} features: give {d}, or one for all"
        )
    return np.broadcast_to(scales, d).copy()


def _bounds(source: Source) -> Vector:
    names, bounds = source.features.names, source.features.bounds
    bounds = np.full(len(names), np.nan) if bounds is None else bounds
    for name in np.array(names)[np.isnan(bounds)]:
        raise RequestError(
            f"--normalise public: {source.name} has no public bound for feature {str(name)!r};"
            " declare low and high of its column, or scales, in [data.schema]"
        )
    return bounds


def _projection(d: int, D: int, data_seed: int) -> Matrix:
    """Gaussian matrix (d, D) of variance 1/D, so that squared norms are kept on average."""
    if d <= D:
        raise RequestError(f"--project {D} must be below the number of features, {d}")
    from scipy.special import ndtri  # imported here: few runs need it

    # uniforms by inverse distribution function: numpy's own normals may change between releases
    uniforms = np.maximum(stream(data_seed, Stream.PROJECTION).random((d, D)), 2.0**-54)  # 0 is infinite
    matrix: Matrix = ndtri(uniforms) / np.sqrt(D)
    return matrix
