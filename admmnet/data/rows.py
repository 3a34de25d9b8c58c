"""The draw of the test set and the split of the training records, decided by the data seed alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.files import about
from admmnet.data.records import TargetRange
from admmnet.data.schema import Schema
from admmnet.data.settings import DataSettings, Split, parse_centre
from admmnet.data.source import Source
from admmnet.data.table import RawColumn, Rows, refuse
from admmnet.errors import DataError, RequestError
from admmnet.files import free_memory
from admmnet.solvers.certificate import WIDE, is_sparse, squared_norms
from admmnet.types import Matrix, Vector

ATTEMPTS = 100
"""Draws of dirichlet proportions before an empty shard is reported."""


class Stream(IntEnum):
    """What a stream of the data seed is for."""

    DRAW = 0
    SHARDS = 1
    PROJECTION = 3  # 2 is the held-out part of a comparison


def stream(data_seed: int, purpose: Stream) -> np.random.Generator:
    """PCG64 stream of the data seed for one purpose; the same on every rank."""
    sequence = np.random.SeedSequence(data_seed, spawn_key=(int(purpose),))
    return np.random.Generator(np.random.PCG64(sequence))


def shuffled(n: int, generator: np.random.Generator) -> Rows:
    """Random order of 0..n-1, made of uniforms only so that it outlives changes in numpy's shuffling."""
    order: Rows = np.argsort(generator.random(n), kind="stable")
    return order


def draw(n: int, share: float, data_seed: int) -> tuple[Rows, Rows]:
    """Draw ``n * share`` test records, rounded: increasing row numbers of training and test, neither empty."""
    tests = round(n * share)
    if not 0 < tests < n:
        raise RequestError(
            f"--test-fraction {share:g} of {n} records gives {tests} test and {n - tests} training records:"
            " both must be 1 or more"
        )
    order = shuffled(n, stream(data_seed, Stream.DRAW))
    return np.sort(order[tests:]), np.sort(order[:tests])


def deal(
    split: Split, train: Rows, y: Vector, column: Callable[[str], RawColumn], agents: int, data_seed: int
) -> tuple[Rows, ...]:
    """Deal the training rows to the agents: increasing rows of every agent, disjoint, none empty.

    `y` are the labels of all rows, `column` gives the raw column of a name.
    """
    if agents > len(train):
        raise RequestError(f"{agents} agents and {len(train)} training records: every agent needs 1 or more")
    if split.kind == "by-column":
        owner = _by_column(column(split.column), split.column, train, agents)
        return tuple(train[owner == agent] for agent in range(agents))
    generator = stream(data_seed, Stream.SHARDS)
    mixed = train[shuffled(len(train), generator)]
    if split.kind == "iid":
        return tuple(np.sort(part) for part in np.array_split(mixed, agents))
    if split.kind == "dirichlet":
        return _dirichlet(mixed, y[mixed], split.numbers[0], agents, generator)
    if split.kind == "sizes" and len(split.numbers) != agents:
        raise RequestError(
            f"--split sizes: has {len(split.numbers)} shares for {agents} agents: give one share an agent, or --agents "
            f"{len(split.numbers)}"
        )
    shares = np.array(split.numbers) if split.kind == "sizes" else np.arange(1.0, agents + 1.0) ** -split.numbers[0]
    ends = np.rint(np.cumsum(shares / shares.max()) / np.sum(shares / shares.max()) * len(mixed))
    parts = np.split(mixed, ends[:-1].astype(np.intp))
    if empty := [agent for agent, part in enumerate(parts) if not len(part)]:
        raise RequestError(
            f"--split {split.kind}: leaves agent {empty[0]} without records, {len(mixed)} are dealt to {agents} agents:"
            " take shares that differ less, or fewer agents"
        )
    return tuple(np.sort(part) for part in parts)


def _dirichlet(
    rows: Rows, y: Vector, concentration: float, agents: int, generator: np.random.Generator
) -> tuple[Rows, ...]:
    classes = [rows[y == label] for label in np.unique(y)]
    for _ in range(ATTEMPTS):
        cuts = []
        for members in classes:
            shares = generator.dirichlet(np.full(agents, concentration))
            ends = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.intp)
            cuts.append(np.split(members, ends))
        parts = tuple(np.sort(np.concatenate(pieces)) for pieces in zip(*cuts, strict=True))
        if min(len(part) for part in parts) > 0:
            return parts
    raise RequestError(
        f"--split dirichlet:{concentration:g} left one of {agents} agents without records {ATTEMPTS} times:"
        " raise A, or use fewer agents"
    )


def _by_column(column: RawColumn, name: str, train: Rows, agents: int) -> NDArray[np.intp]:
    """Owner of each record: a value goes to the agent with least so far, the largest first."""
    sizes = np.bincount(column.codes[train], minlength=len(column.levels))
    order = sorted(range(len(sizes)), key=lambda code: (-sizes[code], column.levels[code]))
    groups = [code for code in order if sizes[code]]
    if len(groups) < agents:
        raise DataError(
            f"--split by-column:{name}: {len(groups)} values among the training records for {agents} agents;"
            " use fewer agents or a column with more values"
        )
    owner_of = np.zeros(len(sizes), dtype=np.intp)
    load = [0] * agents
    for code in groups:
        agent = min(range(agents), key=lambda i: (load[i], i))
        owner_of[code] = agent
        load[agent] += int(sizes[code])
    owners: NDArray[np.intp] = owner_of[column.codes[train]]
    return owners


STEP = 1 << 20
"""Numbers that are in work at a time: a whole data set is never held twice."""


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
    largest = np.zeros(len(source.names))
    for piece in steps(len(train), len(largest)):
        if source.sparse:
            values = np.asarray(abs(source.table.numbers[train[piece]]).max(axis=0).toarray()).ravel()
        else:
            values = np.abs(source.take(train[piece])).max(axis=0)
        np.maximum(largest, values, out=largest)
    largest[largest == 0] = 1.0
    return largest


def _widened(scales: tuple[float, ...], source: Source) -> Vector:
    d = len(source.names)
    if len(scales) not in (1, d):
        raise RequestError(
            f"data.schema.scales holds {len(scales)} numbers, {source.name} has {d} features: give {d}, or one for all"
        )
    return np.broadcast_to(scales, d).copy()


def _bounds(source: Source) -> Vector:
    if source.table.numbers is not None:
        bounds = np.full(len(source.names), source.table.bound)
    else:
        bounds = np.repeat([block.bound for block in source.blocks], [block.kind.width for block in source.blocks])
    for name in np.array(source.names)[np.isnan(bounds)]:
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


INTERCEPT = "intercept"
"""Name of the constant feature, the last one."""

TOO_LONG = "the row is longer than 1, and rows are taken as they are: scale it, or let every row be scaled"
ALL_ZERO = "every feature is zero, so the row cannot have norm 1; leave --no-intercept away, or remove the row"
TOO_LARGE = "a feature is too large for a float64; clip the columns by low and high in [data.schema]"
TOGETHER = 1 << 15
"""Numbers of small shards that are made in one array: memory is then taken, and given back, in large pieces."""
_TINY, _HUGE = 1e-140, 1e140  # beyond these the squares lose digits or overflow
_ROUNDING = 1e-6  # above 1: norms of rows that were scaled in float32


def every(source: Source) -> Rows:
    """All rows of a source."""
    rows: Rows = np.arange(len(source.y))
    return rows


def drawn(source: Source, settings: DataSettings) -> tuple[Rows, Rows]:
    """Training and test rows of a source without a test file."""
    if settings.no_test:
        return every(source), every(source)[:0]
    share = source.test_share if settings.test_fraction is None else settings.test_fraction
    if settings.test == "official" or share is None:
        return every(source)[: source.official], every(source)[source.official :]
    return draw(len(source.y), share, settings.data_seed)


class Encoder(Struct, frozen=True):
    """A fixed map of encoded records to rows, each by itself, and what it was made from."""

    schema: Schema  # the source's, with scales and centre filled in
    settings: DataSettings
    names: tuple[str, ...]  # of the features of a row, the constant one included
    scales: Vector | None = None  # (d,) what features are divided by
    projection: Matrix | None = None  # (d, D) what features are multiplied by
    target: TargetRange | None = None  # how real targets become labels; None for classes
    dependent: tuple[str, ...] = ()  # what was read from the rows
    notes: tuple[str, ...] = ()  # what was done by public numbers, to show once

    @classmethod
    def of(cls, source: Source, train: Rows, settings: DataSettings, *, discover: bool) -> Encoder:
        """Make the encoder of a request.

        Only training rows are looked at, if `discover` allows it, and only for what is neither declared nor public.
        """
        schema, d = source.schema, len(source.names)
        scales, target, projection = None, None, None
        read: list[str] = []
        notes: list[str] = []

        def reads(what: str, flag: str, key: str) -> None:
            if not discover:
                raise RequestError(
                    f"{flag} would be read from the rows: declare {key} in [data.schema], as nothing is read from the "
                    "rows of these records"
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
        names = source.names if projection is None else tuple(f"p{k + 1}" for k in range(projection.shape[1]))
        names = names if settings.no_intercept else (*names, INTERCEPT)
        return cls(schema, settings, names, scales, projection, target, tuple(read), tuple(notes))

    def sparse(self, source: Source, share: float = 0.0) -> bool:
        """Whether rows that are held in CSR form stay so: they are wide, which is public, or few entries are not 0.

        ``share`` is the largest share of these entries; at the agents of a network no entry decides.
        """
        if not source.sparse or self.settings.project is not None:
            return False
        numbers = source.table.numbers
        few = share > 0.0 and numbers.nnz / max(numbers.shape[0] * numbers.shape[1], 1) <= share
        return few or len(self.names) >= WIDE

    def check_room(self, source: Source, rows: int) -> None:
        """Refuse so many dense rows of a source, before they are made, if they do not fit into free memory.

        A RequestError names n, d and the memory, and what helps.
        """
        width, free = len(self.names), free_memory()
        needed = 10.0 * rows * width  # a quarter for what is made of them
        if needed > free:
            raise RequestError(
                f"{source.name}: {rows:,} dense rows of d = {width:,} features take {needed / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are free: give .libsvm (sparse from d = {WIDE:,} on) or "
                "--project D"
            )

    def rows(self, source: Source, which: Rows, *, sparse: bool = False) -> tuple[Any, Vector]:
        """Encode some records, scaled to norm 1, with their labels: dense, CSR, or raw where they will be measured.

        CSR rows are those that are held so, and wide or to stay ``sparse``. Dense ones are made some thousand at a
        time, so that next to the result little is held.
        """
        settings = self.settings
        y = np.ascontiguousarray(source.y[which] if self.target is None else self.target.scaled(source.y[which]))
        if source.sparse and (sparse or self.sparse(source)):
            return self._csr(source, which), y
        self.check_room(source, len(which))
        if source.schema.measured:
            return source.raw(which, len(self.names)), y
        X = np.empty((len(which), len(self.names)))
        if not settings.no_intercept:
            X[:, -1] = 1.0
        for piece in steps(len(which), len(source.names)):
            part = source.take(which[piece])
            if self.scales is not None:
                part = self._divided(part, self.scales)
            part = part if self.projection is None else part @ self.projection
            X[piece, : part.shape[1]] = part
            to_norm_1(X[piece], which[piece], source, settings)
        return X, y

    def _csr(self, source: Source, which: Rows) -> Any:
        from scipy.sparse import csr_array, hstack

        X = source.table.numbers[which].astype(np.float64)
        if self.scales is not None:
            X.data = self._divided(X.data, self.scales[X.indices])
        if not self.settings.no_intercept:
            X = csr_array(hstack([X, np.ones((X.shape[0], 1))], format="csr"))
        to_norm_1(X, which, source, self.settings)
        return X

    def _divided(self, values: Any, by: Vector) -> Any:
        """Values by their scales; public ones are bounds, to which they are clipped first."""
        return (np.clip(values, -by, by) if self.settings.normalise == "public" else values) / by

    def shards(self, source: Source, parts: Sequence[Rows], *, sparse: bool) -> Iterator[tuple[Any, Vector]]:
        """Make each part in turn; small dense ones, whose rows are made each by itself, are views of one array."""
        alone = source.schema.measured or self.projection is not None or sparse
        places = np.cumsum(list(map(len, parts))) * (TOGETHER if alone else len(self.names)) // TOGETHER
        for _, some in groupby(zip(places.tolist(), parts, strict=True), key=itemgetter(0)):
            own = [part for _, part in some]
            X, y = self.rows(source, np.concatenate(own), sparse=sparse)
            cuts = np.cumsum(list(map(len, own)))[:-1]
            yield from zip(np.split(X, cuts), np.split(y, cuts), strict=True) if len(cuts) else [(X, y)]


def to_norm_1(X: Any, which: Rows, source: Source, settings: DataSettings) -> None:
    """Scale rows of finite numbers (n, d), dense or CSR, to 2-norm 1 in place, each by itself.

    Refused are rows of zeros, but for new ones without labels, and numbers so large that their projection has no norm.
    Where rows are taken as they are, longer ones than 1 are refused; a norm that is above 1 by no more than float32
    rounds becomes 1.
    """
    sizes = norms(X)

    def none(wrong: NDArray[np.bool_], why: str) -> None:
        refuse(f"{source.table.where(int(which[row]))}: {why}" for row in np.flatnonzero(wrong))

    with about(source.file):
        if settings.normalise == "none":
            none(~(sizes <= 1.0 + _ROUNDING), TOO_LONG)
            divide(X, np.where(sizes > 1.0 + 1e-12, sizes, 1.0))
            return
        odd = np.flatnonzero(~((sizes > _TINY) & (sizes < _HUGE)))
        if odd.size:
            largest = np.ones(len(sizes))
            largest[odd] = abs(X[odd]).max(axis=1).toarray().ravel() if is_sparse(X) else np.abs(X[odd]).max(axis=1)
            zero = largest == 0
            if not np.isnan(source.y).all():
                none(zero, ALL_ZERO)
            largest[zero] = 1.0
            none(~np.isfinite(largest), TOO_LARGE)
            divide(X, largest)
            sizes[odd] = norms(X[odd])
            sizes[zero] = 1.0
    divide(X, sizes)


def divide(X: Any, by: Vector) -> None:
    """Divide every row, dense or CSR, by a number, in place."""
    if is_sparse(X):
        X.data = X.data / np.repeat(by, np.diff(X.indptr))
    else:
        X /= by[:, None]


def norms(X: Any) -> Vector:
    """2-norm of every row, dense or CSR."""
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(squared_norms(X)))
