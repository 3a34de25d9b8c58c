"""From a request to the records of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.adult import find_adult, read_adult
from admmnet.data.census import read_census
from admmnet.data.columns import Rows
from admmnet.data.files import data_folder, locate
from admmnet.data.labels import same
from admmnet.data.libsvm import read_libsvm
from admmnet.data.phishing import FILE as PHISHING
from admmnet.data.phishing import read_phishing
from admmnet.data.rows import INTERCEPT, finish_rows
from admmnet.data.schema import Schema, parse_schema, to_table
from admmnet.data.settings import BUILT_IN, DataSettings, check_settings, form_of, parse_split, path_for
from admmnet.data.shards import deal, draw
from admmnet.data.source import Source
from admmnet.data.tables import read_csv, read_npz
from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector

TEST_NOTE = "the test records are taken to be public: nobody is charged for the errors reported on them"
ENCODING = "encoding.json"
"""File of the run folder that keeps `Records.encoding`."""


@dataclass(frozen=True)
class Records:
    """What one rank needs.

    Attributes
    ----------
    name : str
        Name of the data set, or of the file.
    shards : dict of int to (ndarray (n_i, d), ndarray (n_i,))
        X, C-contiguous with rows of norm 1, and y in {-1, +1}, of the agents that were asked for.
    counts : dict of int to int
        n_i of the agents this rank knows of: of all N for pooled data, only of its own for a file an
        agent. Complete it with ``dataclasses.replace(records, counts=...)`` after an exchange.
    X_test : ndarray, shape (m, d)
        Test rows, as in `shards`.
    y_test : ndarray, shape (m,)
        Their labels.
    feature_names : tuple of str
        The d names; "intercept" is the last unless it was left out.
    preprocessing : str
        "public-bounds" if each row was encoded by declared constants alone, else "data-dependent".
    notes : tuple of str
        Warnings to show once.
    encoding : dict or None
        Where something was read from rows: the table `[data.schema]` with all of it filled in, by which
        further rows are encoded alike. The run folder keeps it as encoding.json.
    """

    name: str
    shards: dict[int, tuple[Matrix, Vector]]
    counts: dict[int, int]
    X_test: Matrix
    y_test: Vector
    feature_names: tuple[str, ...]
    preprocessing: str
    notes: tuple[str, ...] = ()
    encoding: dict[str, Any] | None = None


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
    known: Source | None = None
    if settings.test is not None and settings.data not in BUILT_IN:
        known = read_file(Path(settings.test), source.schema, settings.positive, discover=False)
    if known is not None:
        train, X_test, y_test = every(source), *finished(known, every(known), settings)
    else:
        train, test = drawn(source, settings)
        X_test, y_test = finished(source, test, settings)
    parts = deal(parse_split(settings.split), train, source.y, source.column, agents, settings.data_seed)
    notes = list(source.notes)
    if source.dependent:
        notes.append(
            f"read from the rows, not declared: {', '.join(source.dependent)}; no budget covers what was read,"
            f" and the run folder holds it ({ENCODING}): declare it in [data.schema]"
        )
    if parse_split(settings.split).kind == "by-column":
        notes.append("shards were made from a column of the rows: take them, and their sizes, to be public")
    return Records(
        name=source.name,
        shards={agent: finished(source, parts[agent], settings) for agent in mine},
        counts={agent: len(part) for agent, part in enumerate(parts)},
        X_test=X_test,
        y_test=y_test,
        feature_names=names_of(source, settings),
        preprocessing="data-dependent" if source.dependent else "public-bounds",
        notes=(*notes, TEST_NOTE),
        encoding=to_table(source.schema) if source.dependent else None,
    )


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
    if settings.data == "census":
        return
    if settings.data in BUILT_IN:
        if data_folder(settings.data_dir) is not None:
            if settings.data == "adult":
                find_adult(settings.data_dir, download=False)
            else:
                locate(PHISHING, settings.data_dir, None, None)
        return
    schema = declared(settings)
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
    if settings.test_fraction is not None:
        test = f", test fraction {settings.test_fraction:g}"
    return f"{settings.data}{kind}, {split}{test}, data seed {settings.data_seed}"


def _load_own_files(settings: DataSettings, mine: Sequence[int]) -> Records:
    assert settings.test is not None  # check_settings came first
    public = read_file(Path(settings.test), declared(settings), settings.positive, discover=False)
    shards: dict[int, tuple[Matrix, Vector]] = {}
    for agent in mine:
        path = path_for(settings.data, agent)
        own = read_file(path, public.schema, settings.positive, discover=False)
        shards[agent] = finished(own, every(own), settings)
    X_test, y_test = finished(public, every(public), settings)
    return Records(
        name=Path(settings.data).name,
        shards=shards,
        counts={agent: len(y) for agent, (_, y) in shards.items()},
        X_test=X_test,
        y_test=y_test,
        feature_names=names_of(public, settings),
        preprocessing="public-bounds",
        notes=(TEST_NOTE,),
    )


def declared(settings: DataSettings) -> Schema:
    """Schema of the settings, `--label` and `--features` included.

    Raises
    ------
    RequestError
        If the table is wrong.
    """
    schema = parse_schema(settings.schema)
    if settings.label is not None:
        schema = replace(schema, label=settings.label)
    if settings.features is not None:
        schema = replace(schema, features=settings.features)
    if schema.labels is not None and same(*schema.labels):
        raise RequestError(f"data.schema.labels must be two different values, got {list(schema.labels)!r}")
    return schema


def read_source(settings: DataSettings) -> Source:
    """Read pooled records; what a file's schema leaves open is read from its rows."""
    if settings.data == "census":
        return read_census()
    if settings.data == "adult":
        return read_adult(settings.data_dir)
    if settings.data == "phishing":
        return read_phishing(settings.data_dir)
    return read_file(Path(settings.data), declared(settings), settings.positive, discover=True)


def read_file(
    path: Path, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Read a file by the form its ending names; the parameters are those of `read_csv`."""
    read = {".csv": read_csv, ".npz": read_npz}.get(form_of(str(path)), read_libsvm)
    return read(path, schema, positive, discover, labelled)


def every(source: Source) -> Rows:
    """All rows of a source."""
    rows: Rows = np.arange(len(source.y))
    return rows


def drawn(source: Source, settings: DataSettings) -> tuple[Rows, Rows]:
    """Training and test rows of a source without a test file."""
    if settings.test == "official":
        return every(source)[: source.official], every(source)[source.official :]
    share = source.test_share if settings.test_fraction is None else settings.test_fraction
    return draw(len(source.y), share, settings.data_seed)


def finished(source: Source, which: Rows, settings: DataSettings) -> tuple[Matrix, Vector]:
    """Encode some rows, scaled to norm 1, with their labels."""
    X = finish_rows(source.rows(which), not settings.no_intercept, lambda row: source.where(int(which[row])))
    return X, np.ascontiguousarray(source.y[which])


def names_of(source: Source, settings: DataSettings) -> tuple[str, ...]:
    """Feature names as in `finished`."""
    return source.features if settings.no_intercept else (*source.features, INTERCEPT)
