"""From a request to the records of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.columns import Rows, no_rows
from admmnet.data.files import about
from admmnet.data.finish import drawn, every, finished, finished_sparse, names_of
from admmnet.data.labels import read_answers
from admmnet.data.records import Records, SparseRecords
from admmnet.data.schema import to_table
from admmnet.data.settings import DataSettings, check_settings, form_of, parse_split, path_for
from admmnet.data.shards import deal
from admmnet.data.source import Source
from admmnet.data.sources import check_named, declared, read_file, read_source
from admmnet.data.tables import encoded_table
from admmnet.data.transform import Fitted, fit
from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector

TEST_NOTE = "the test records are taken to be public: nobody is charged for the errors reported on them"
ENCODING = "encoding.json"
"""File of the run folder that keeps `Records.encoding`."""


def load(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """Load the shards of some agents, and the test set.

    Everything but the files themselves is decided by the settings, so that all ranks arrive at one draw.

    Parameters
    ----------
    settings : DataSettings
        The request, the same on every rank.
    agents : int
        Number of agents N in the whole network.
    mine : sequence of int
        Agents whose shards to return, each in 0..N-1.

    Returns
    -------
    Records
        Encoded, each row scaled to norm 1.

    Raises
    ------
    RequestError
        Naming the setting, or the file, line and column, and what to do.
    """
    validate(settings, agents)
    for agent in mine:
        if not 0 <= agent < agents:
            raise RequestError(f"agent {agent} does not exist: the agents are 0 to {agents - 1}")
    if settings.per_agent:
        return _load_own_files(settings, mine)
    source = read_source(settings)
    split = parse_split(settings.split)
    if split.kind == "dirichlet" and source.schema.targets is not None:
        raise RequestError(
            f"--split {settings.split} deals by class, and {source.name} has real targets: take iid"
        )
    train, known, test = _parts(source, settings)
    fitted = fit(source, train, settings, discover=True)
    with about(source.file):
        parts = deal(split, train, source.y, source.column, agents, settings.data_seed)
    X_test, y_test = finished(known, test, settings, fitted.transform)
    notes = _notes(source, fitted, settings)
    if split.kind == "by-column":
        notes += ("shards were made from a column of the rows: take them, and their sizes, to be public",)
    return Records(
        name=source.name,
        shards={agent: finished(source, parts[agent], settings, fitted.transform) for agent in mine},
        counts={agent: len(part) for agent, part in enumerate(parts)},
        X_test=X_test,
        y_test=y_test,
        feature_names=names_of(source, settings),
        preprocessing=_preprocessing(source, fitted),
        notes=notes,
        encoding=_encoding(source, fitted, settings),
        target=fitted.transform.target,
    )


def load_sparse(settings: DataSettings) -> SparseRecords:
    """Load all training records, and the test set, as sparse rows for methods of a single place.

    Libsvm rows never become dense; rows of other sources do some thousand at a time.

    Parameters
    ----------
    settings : DataSettings
        The request; a projection is refused, for what it makes is dense. `split` does not count.

    Returns
    -------
    SparseRecords
        The rows of ``load(settings, 1, [0])``.

    Raises
    ------
    RequestError
        As `load`.
    """
    validate(settings)
    if settings.project is not None:
        raise RequestError(
            f"--project {settings.project} makes rows dense: load them with load(), not sparse"
        )
    if settings.per_agent:
        raise RequestError(f"{settings.data}: sparse rows are those of one file, not of a file an agent")
    source = read_source(settings)
    train, known, test = _parts(source, settings)
    fitted = fit(source, train, settings, discover=True)
    X, y = finished_sparse(source, train, settings, fitted.transform)
    X_test, y_test = finished_sparse(known, test, settings, fitted.transform)
    return SparseRecords(
        name=source.name,
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        feature_names=names_of(source, settings),
        preprocessing=_preprocessing(source, fitted),
        notes=_notes(source, fitted, settings),
        encoding=_encoding(source, fitted, settings),
        target=fitted.transform.target,
    )


def _parts(source: Source, settings: DataSettings) -> tuple[Rows, Source, Rows]:
    """Training rows of a source, and the source and the rows of the test set."""
    if settings.test is None or settings.named:
        train, test = drawn(source, settings)
        return train, source, test
    known = read_file(Path(settings.test), source.schema, settings.positive, discover=False)
    return every(source), known, every(known)


def _preprocessing(source: Source, fitted: Fitted) -> str:
    return "data-dependent" if source.dependent or fitted.dependent else "public-bounds"


def _notes(source: Source, fitted: Fitted, settings: DataSettings) -> tuple[str, ...]:
    read = (*source.dependent, *fitted.dependent)
    dependent = (
        f"read from the rows, not declared: {', '.join(read)}; no budget covers what was read,"
        f" and the run folder holds it ({ENCODING}): declare it in [data.schema]"
    )
    return (*source.notes, *fitted.notes, *([dependent] if read else []), *_test_notes(settings))


def _test_notes(settings: DataSettings) -> tuple[str, ...]:
    return () if settings.no_test else (TEST_NOTE,)


def _encoding(source: Source, fitted: Fitted, settings: DataSettings) -> dict[str, Any] | None:
    # names of projected features do not say which columns of a file they were made of
    hidden = settings.project is not None and not settings.named
    return to_table(fitted.schema) if source.dependent or fitted.dependent or hidden else None


def validate(settings: DataSettings, agents: int | None = None) -> None:
    """Check names, ranges, the schema and that files exist; reads no record.

    Parameters
    ----------
    settings : DataSettings
        The request.
    agents : int or None
        Number of agents, if known. Files of one agent each are not looked for: they may lie elsewhere.

    Raises
    ------
    RequestError
        Naming the setting, its value and the remedy.
    """
    check_settings(settings)
    if agents is not None and agents < 1:
        raise RequestError(f"--agents must be 1 or more, got {agents}")
    schema = declared(settings)
    if settings.named:
        check_named(settings)
        return
    if schema.rules and form_of(settings.data) != ".csv":
        raise RequestError(f"data.schema.columns goes with csv files, not with {settings.data}")
    paths = [] if settings.per_agent else [Path(settings.data)]
    if settings.test is not None:
        paths.append(Path(settings.test))
    for path in paths:
        if not path.is_file():
            raise RequestError(
                f"{path} does not exist: correct the path (relative ones start at the working folder)"
            )


def headline(settings: DataSettings) -> str:
    """Describe the request in one line, reading no record.

    Returns
    -------
    str
        Such as "census (built in, synthetic), split iid, data seed 0".

    Raises
    ------
    RequestError
        As `validate`.
    """
    validate(settings)
    kind = " (built in, synthetic)" if settings.data == "census" else ""
    split = "one file an agent" if settings.per_agent else f"split {settings.split}"
    test = f", test {settings.test}" if settings.test is not None else ""
    if settings.no_test:
        test = ", no test records"
    if settings.test_fraction is not None:
        test = f", test fraction {settings.test_fraction:g}"
    made = "" if settings.normalise == "rows" else f", normalise {settings.normalise}"
    if settings.project is not None:
        made += f", projected to {settings.project} features"
    return f"{settings.data}{kind}, {split}{test}{made}, data seed {settings.data_seed}"


def _public(settings: DataSettings) -> Source:
    """Test records of agents with files of their own; without any, the schema alone as a source without rows."""
    schema = declared(settings)
    if settings.test is not None:
        return read_file(Path(settings.test), schema, settings.positive, discover=False)
    form, place = (
        form_of(settings.data),
        "where there is no test file, nothing else says what the features are",
    )
    if form == ".csv":
        if not schema.rules:
            raise RequestError(f"{settings.data}: declare every column in [data.schema.columns]: {place}")
        names = tuple(
            dict.fromkeys([rule.column for rule in schema.rules] + ([schema.label] if schema.label else []))
        )
        return encoded_table(no_rows(names, settings.data), schema, settings.positive, discover=False)
    if schema.features is None:
        raise RequestError(f"{settings.data}: give the number of features with --features D: {place}")
    features = tuple(f"x{k + 1}" for k in range(schema.features))
    empty = no_rows((*features, "label"), settings.data)
    labels = read_answers(
        empty.column("label"), "label", empty.where, schema, settings.positive, discover=False
    )
    return Source(
        name=settings.data,
        y=labels.y,
        features=features,
        rows=lambda which: np.zeros((len(which), len(features))),
        column=empty.column,
        where=empty.where,
        schema=replace(schema, labels=labels.values),
    )


def _load_own_files(settings: DataSettings, mine: Sequence[int]) -> Records:
    public = _public(settings)
    fitted = fit(public, every(public), settings, discover=False)
    shards: dict[int, tuple[Matrix, Vector]] = {}
    for agent in mine:
        path = path_for(settings.data, agent)
        own = read_file(path, public.schema, settings.positive, discover=False)
        shards[agent] = finished(own, every(own), settings, fitted.transform)
    X_test, y_test = finished(public, every(public), settings, fitted.transform)
    return Records(
        name=Path(settings.data).name,
        shards=shards,
        counts={agent: len(y) for agent, (_, y) in shards.items()},
        X_test=X_test,
        y_test=y_test,
        feature_names=names_of(public, settings),
        preprocessing="public-bounds",
        notes=(*fitted.notes, *_test_notes(settings)),
        encoding=_encoding(public, fitted, settings),
        target=fitted.transform.target,
    )
