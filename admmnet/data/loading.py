"""From a request to the records of one rank, or to new rows for a model that exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from admmnet.data.encode import check_columns, refuse_text
from admmnet.data.files import about
from admmnet.data.memory import frame_of, frame_table, table_of, with_column
from admmnet.data.records import Records
from admmnet.data.rows import Encoder, deal, drawn, every
from admmnet.data.schema import to_table
from admmnet.data.settings import DataSettings, check_settings, form_of, parse_split, path_for, split_of
from admmnet.data.source import Source, check_names, label_of, source_of, stacked, without
from admmnet.data.sources import declared, read_file, read_source, read_table, validate
from admmnet.data.table import RawTable, Rows
from admmnet.errors import RequestError
from admmnet.holder.encoding import Encoding, Number
from admmnet.types import Vector

TEST_NOTE = "the test records are taken to be public: errors reported on them cost no budget"
ENCODING = "encoding.json"
"""File of the run folder that keeps `Records.encoding`."""

SPARSE = 0.1
"""Share of entries other than 0 up to which one holder's rows stay sparse: denser ones are faster in dense form."""
Part = Literal["test", "train", "all"]
Encoded = tuple[Any, Vector]
"""Rows of norm 1, dense or CSR, and their labels."""


def load(settings: DataSettings, agents: int, mine: Sequence[int], *, sparse: float = 0.0) -> Records:
    """Load the shards of some of N agents, and the test set, each row scaled to norm 1.

    Rows are dense, but for those of a libsvm file of ``WIDE`` features and more, which are scipy CSR arrays whatever
    their entries. Others are CSR where at most the share ``sparse`` of their entries is not 0, for methods of a single
    place: denser ones are faster in dense form. A projection makes rows dense, and files of one agent each stay so.
    Everything but the files themselves is decided by the settings, so that all ranks arrive at one draw. A
    RequestError names the setting, or the file, line and column, and what to do.
    """
    return next(load_each(settings, agents, [mine], sparse=sparse))


def load_each(
    settings: DataSettings, agents: int, groups: Sequence[Sequence[int]], *, sparse: float = 0.0
) -> Iterator[Records]:
    """As ``load`` of every group of agents in turn; files are read once, and one group's shards are made at a time."""
    validate(settings, agents)
    mine = [agent for group in groups for agent in group]
    if wrong := [agent for agent in mine if not 0 <= agent < agents]:
        raise RequestError(f"agent {wrong[0]} does not exist: the agents are 0 to {agents - 1}")
    if settings.per_agent:
        source, known = _read_own(settings, agents, mine)
        yield from made(source, known, settings, agents, groups, owners=mine, whole=False)
    else:
        source = read_source(settings)
        yield from made(source, tests_of(source, settings), settings, agents, groups, sparse=sparse)


def made(
    source: Source,
    known: Source | None,
    settings: DataSettings,
    agents: int,
    groups: Sequence[Sequence[int]],
    *,
    owners: Sequence[int] | None = None,
    whole: bool = True,
    sparse: float = 0.0,
) -> Iterator[Records]:
    """Records of every group of agents in turn, as rows of norm 1; ``sparse`` as in ``load``.

    Test records are ``known``, or drawn. ``owners`` are the agents whose records the table has one after the other.
    Where these are not the ``whole`` run's, nothing is read from them that should be declared.
    """
    train, test = drawn(source, settings) if known is None else (every(source), every(known))
    if settings.data_dependent:
        refuse_text(source.schema, source.table)
    encoder = Encoder.of(source, train, settings, discover=whole)
    split = parse_split(split_of(settings, agents))
    if split.kind == "dirichlet" and source.schema.targets is not None:
        raise RequestError(f"--split {settings.split} deals by class, and {source.name} has real targets: take iid")
    if owners is not None:
        sizes = source.table.parts
        ends = np.cumsum(sizes).tolist()
        parts = {i: np.arange(end - n, end) for i, n, end in zip(owners, sizes, ends, strict=True)}
    else:
        with about(source.file):
            column, seed = source.table.column, settings.data_seed
            parts = dict(enumerate(deal(split, train, source.y, column, agents, seed)))
    stay = encoder.sparse(source, sparse)
    if not stay:
        own_rows = sum(len(parts[agent]) for group in groups for agent in group)
        encoder.check_room(source, own_rows + len(groups) * len(test))
    tests: Encoded | None = None
    counts = {agent: len(part) for agent, part in parts.items()}
    alphas = None if settings.record_epsilon is None else _alphas(source, parts[0], settings.record_epsilon)
    for group in groups:
        own = encoder.shards(source, [parts[agent] for agent in group], sparse=stay)
        shards = dict(zip(group, own, strict=True))
        tests = tests or encoder.rows(known or source, test, sparse=stay)
        yield records_of(source, encoder, shards, tests, counts, alphas)


def _alphas(source: Source, rows: Rows, name: str) -> Vector:
    """Pure epsilon of each record of one holder, from its column."""
    with about(source.file):
        column = source.table.column(name)
    used, place = np.unique(column.codes[rows], return_inverse=True)
    values = np.array([source.schema.spelling.value(column.levels[code]) for code in used])[place]
    if not (values > 0.0).all():
        raise RequestError(
            f"record_epsilon = {name!r} has {values.min():g}: it must be a number above 0 in every record"
        )
    return values


def _read_own(settings: DataSettings, agents: int, mine: Sequence[int]) -> tuple[Source, Source | None]:
    """Records of agents with files of their own, and those of tests; what is not declared is read from none of them.

    Refused are more agents than there are files of, numbered from 0.
    """
    paths, schema, known = [path_for(settings.data, agent) for agent in mine], declared(settings), None
    if not all(path.exists() for path in paths):
        there = next(k for k in range(agents) if not path_for(settings.data, k).exists())
        if there > 1:
            raise RequestError(
                f"{path_for(settings.data, there)} does not exist, and the run has {agents} agents (5 where nothing "
                f"says how many): for the {there} files before it give --agents {there}"
            )
    place = "without a test file nothing else names the features"
    if settings.test is not None:
        known = read_file(settings.test, schema)
        schema = known.schema
    elif form_of(settings.data) != ".csv" and schema.features is None:
        raise RequestError(f"{settings.data}: give the number of features with --features D: {place}")
    elif form_of(settings.data) == ".csv" and not schema.rules:
        raise RequestError(f"{settings.data}: declare every column in [data.schema.columns]: {place}")
    tables = []
    for path in paths:
        with about(path):
            table = read_table(path, schema)
            label = label_of(table, schema)
            if table.numbers is None:
                check_columns(schema, table)
                used = dict.fromkeys([*(rule.column for rule in schema.rules), label])
                for name in used:
                    table.column(name)
                table = replace(table, names=tuple(used))
            tables.append(without(table, label, schema.leave_out))
    with about(*paths):
        source = source_of(stacked(tables), schema, settings.data, discover=False)
    return (source if known is None else replace(source, notes=known.notes)), known


def tests_of(source: Source, settings: DataSettings) -> Source | None:
    """Test records of a file; None where they are drawn."""
    if settings.test is None or settings.named:
        return None
    return read_file(settings.test, source.schema)


def records_of(
    source: Source,
    encoder: Encoder,
    shards: dict[int, Encoded],
    test: Encoded,
    counts: dict[int, int],
    alphas: Vector | None = None,
) -> Records:
    """Records of encoded shards, with what is said of their encoding."""
    settings, read = encoder.settings, (*source.dependent, *encoder.dependent)
    notes = source.notes + encoder.notes
    if read:
        notes += (
            f"read from the rows, not declared: {', '.join(read)}; no budget covers these values,"
            f" and the run folder holds them ({ENCODING}): declare them in [data.schema]",
        )
    if source.table.left_out:
        notes += ("records were left out by their labels: that was read from the rows, and no budget covers it",)
    if parse_split(settings.split).kind == "by-column":
        notes += ("shards were made from a column of the rows: take them, and their sizes, to be public",)
    if settings.record_epsilon is not None:
        notes += (f"record_epsilon: column {settings.record_epsilon!r} is taken to be public, and no budget covers it",)
    columns = tuple(block.kind for block in source.blocks)
    if source.table.numbers is not None:
        columns = (Number(1.0, 0.0, 1.0),) * source.table.numbers.shape[1]
    return Records(
        name=source.name,
        shards=shards,
        counts=counts,
        X_test=test[0],
        y_test=test[1],
        feature_names=encoder.names,
        preprocessing="data-dependent" if read or source.table.left_out else "public-bounds",
        notes=notes if settings.no_test else (*notes, TEST_NOTE),
        encoding=to_table(encoder.schema) if read or not settings.named else None,
        target=encoder.target,
        labels=source.schema.classes,
        left_out=bool(source.table.left_out),
        telling=source.telling,
        raw=Encoding(columns, intercept=not settings.no_intercept) if source.schema.measured else None,
        alphas=alphas,
    )


def in_memory(data: Any, label: str, *, labelled: bool, finite: bool) -> RawTable | None:
    """Rows in memory as a table: a frame or X, or with their labels (X, y); None of a name or a path.

    Numbers of arrays must be ``finite``, or stay raw. RequestError if rows that are to be ``labelled`` have no labels.
    """
    if isinstance(data, str | Path):
        return None
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    frame = frame_of(X)
    if frame is None or len(frame.shape) == 1:
        if labelled and y is None:
            raise RequestError("y is missing: give the labels of X")
        return table_of(X, y, "", finite=finite, labelled=y is not None)
    if y is None:
        return frame_table(frame, "")
    return replace(frame_table(with_column(frame, label, y), ""), label=label)


def load_new(
    settings: DataSettings,
    features: Sequence[str],
    *,
    part: Part = "all",
    labelled: bool = True,
    table: RawTable | None = None,
) -> Records:
    """Load rows as a model's d ``features``, as test records; what the schema leaves open is refused, never read.

    ``settings`` name one file or built-in set, unless the rows are a ``table`` in memory. ``part`` says which: those
    that a run with these settings tests on, trains on, or all. If not ``labelled``, labels may be absent, and are nan.
    """
    (validate if table is None else check_settings)(settings)
    schema = declared(settings)
    columns = schema.rules or settings.named or form_of(settings.data) != ".csv"
    if settings.project is not None and not columns:
        raise RequestError(f"{settings.data}: the model's features are projections, and nothing says of what columns")
    if table is None:
        source = read_source(settings, labelled=labelled, discover=False)
    else:
        if table.numbers is not None and schema.features not in (None, table.numbers.shape[1]):
            raise RequestError(f"X has {table.numbers.shape[1]} columns, expected {schema.features}")
        source = source_of(table, schema, discover=False, labelled=labelled)
    refuse_text(source.schema, source.table)
    which = every(source) if part == "all" else drawn(source, settings)[part == "test"]
    encoder = Encoder.of(source, which, settings, discover=False)
    check_names(encoder.names, tuple(features), f"{settings.data}: ")
    return records_of(source, encoder, {}, encoder.rows(source, which), {})
