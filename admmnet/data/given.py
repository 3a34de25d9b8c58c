"""Records that a caller holds in memory: encoded, drawn and dealt as those of files are (docs/library.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from admmnet.data.files import about
from admmnet.data.loading import SPARSE, made, tests_of
from admmnet.data.memory import frame_of, frame_table, kinds_of, table_of
from admmnet.data.records import Records
from admmnet.data.schema import Schema, parse_schema
from admmnet.data.settings import GROUPS, SHARDS, DataSettings, check_settings, parse_split
from admmnet.data.source import Source, check_names, label_of, source_of, stacked, without
from admmnet.data.sources import declared
from admmnet.data.table import RawTable, listed
from admmnet.errors import DataError, RequestError, article, short

PAIR = "(X, y), rows and labels"


class Given(Struct, frozen=True):
    """What a caller gave; ``load`` is a loader of it.

    Records are (X, y) or frames. Where they are not ``whole``, all of the run's at every process, nothing is
    read from rows that should be declared.
    """

    kind: str  # "arrays" or "frame", the `data` of the settings
    pool: Any = None  # records to be dealt to the agents; None where there are shards
    own: Mapping[int, Any] | None = None  # agent to its own records
    whole: bool = True
    test: Any = None  # test records, or None
    sparse: bool = False  # whether the method takes sparse rows

    @property
    def pieces(self) -> list[Any]:
        """The records: one piece, or an agent's each."""
        return [self.pool] if self.own is None else [self.own[i] for i in sorted(self.own)]

    @property
    def tests_itself(self) -> bool:
        """Whether test records are rows of the memory that is trained on, or all of a pool or shard once more."""
        if self.test is None:
            return False
        test, *rows = (piece[0] if self.kind == "arrays" else piece for piece in (self.test, *self.pieces))
        return any(overlap(test, other) for other in rows)

    def truths(self, label: Any, schema: Mapping[str, Any] | None, task: str | None) -> bool:
        """Whether the labels of frames are a column of truth values, whose type says them, and nothing else does."""
        label = label or (schema or {}).get("label")
        if label is not None and not isinstance(label, str):
            raise RequestError(f"label = {short(label)}: it must be the name of a column")
        if task not in (None, "auto") or {"labels", "targets", "threshold"} & set(schema or ()):
            return False
        return all(
            label in frame.columns and str(frame_of(frame).get_column(label).dtype) == "Boolean"
            for frame in self.pieces
        )

    def with_kinds(self, label: Any, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """Schema in which columns of frames that it leaves out have the kinds of their types, as their owner says.

        RequestError if the records are no frames, or their types differ.
        """
        if self.kind != "frame":
            raise RequestError(
                "kinds = 'dtype' goes with data frames: arrays are numbers, and a file's schema names kinds"
            )
        found = dict(schema or {})
        (kinds, *others) = (kinds_of(frame) for frame in self.pieces)
        for other in others:
            if differ := sorted(name for name in kinds if other.get(name, kinds[name]) != kinds[name]):
                raise RequestError(
                    f"kinds = 'dtype': columns {listed(differ, 4)} are numbers in one frame and none in another: name "
                    "them in numeric = [...] or categorical = [...] of schema"
                )
        rules = parse_schema(found).rules
        known = {*(rule.column for rule in rules), *found.get("drop", ()), label or found.get("label")}
        for kind in ("numeric", "categorical"):
            found[kind] = [*found.get(kind, ()), *(name for name in kinds if kinds[name] == kind and name not in known)]
        return found

    def load(self, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        """As ``admmnet.data.load`` of what was given.

        RequestError if it is no records, or not those that the settings speak of; DataError if their values are wrong.
        """
        check_settings(settings)
        with about(self.kind):
            if (parse_split(settings.split).kind in (SHARDS, GROUPS)) != (self.own is not None):
                begun, now = ("shards=", "X= or data=") if self.own is None else ("X= or data=", "shards=")
                raise RequestError(f"the run was begun on {begun}, but the records came as {now}: give them as before")
            owners: Sequence[int] | None = None
            schema = declared(settings)
            if self.own is None:
                table = self._table(self.pool, "", schema)
            else:
                owners = range(agents) if self.whole else mine
                if missing := [i for i in owners if i not in self.own]:
                    raise RequestError(
                        f"shards lacks agent {missing[0]} of this process: it has "
                        f"{', '.join(map(str, sorted(self.own)))}; give every process the shards of its own agents at "
                        "least"
                    )
                table = stacked([self._table(self.own[i], f"shards[{i}]: ", schema) for i in owners])
            source = self._source(table, schema, settings)
            known = self._tests(source, settings)
            one = source.schema.targets is None and len(np.unique(source.y)) < 2  # targets may lie beyond their range
            if settings.data_dependent and self.whole and one:
                raise DataError("every record has the same label: two values are needed, or there is nothing to learn")
            if owners is not None and sum(table.parts) != len(source.y):
                raise DataError("shards have records without a label: drop them, frame.dropna(subset=[LABEL])")
            share = SPARSE if self.sparse else 0.0
            found = made(source, known, settings, agents, [mine], owners=owners, whole=self.whole, sparse=share)
            return next(found)

    def _table(self, given: Any, prefix: str, schema: Schema) -> RawTable:
        if self.kind == "arrays":
            X, y = given
            table = table_of(X, y, prefix, finite=not schema.measured)
        else:
            table = frame_table(given, prefix)
        return without(table, label_of(table, schema), schema.leave_out) if schema.leave_out else table

    def _source(self, table: RawTable, schema: Schema, settings: DataSettings) -> Source:
        """Table with its labels and features; of a frame that nothing declares, as its rows suggest them."""
        drafts = self.whole and settings.data_dependent
        if schema.rules and self.kind == "arrays":
            raise RequestError("schema.columns goes with a data frame, run(data=frame, label=NAME), not with X and y")
        if self.kind == "frame" and not (schema.rules or drafts):
            accept = " data_dependent=True to have them read from the rows," if self.whole else ""
            raise RequestError(
                "the frame's columns are not declared, and nothing is read from private rows: give kinds='dtype' if "
                f"its types are public, schema=FILE (`admmnet data draft` writes one from a public sample),{accept} or "
                "columns of numbers as X and y"
            )
        if table.numbers is not None and schema.features not in (None, len(table.names) - 1):
            raise RequestError(f"features = {schema.features}, and X has {len(table.names) - 1} columns: leave it out")
        return source_of(table, schema, self.kind, discover=self.whole, drafts=drafts)

    def _tests(self, source: Source, settings: DataSettings) -> Source | None:
        """Test records that were given, or lie in a file; None where they are drawn."""
        if self.test is not None:
            table = self._table(self.test, "test: ", source.schema)
            known = source_of(table, source.schema, self.kind, discover=False)
            check_names(known.names, source.names, "test: ")
            return known
        if settings.test in ("arrays", "frame"):
            raise RequestError("the run was begun with test records in memory: give them again, test=(X, y) or a frame")
        if self.own is not None and settings.test is None and not settings.no_test:
            raise RequestError(
                "shards are every agent's own: give test records besides, test=(X, y), or do without, no_test=True"
            )
        return tests_of(source, settings)  # a file's width or columns are those of the source's schema


def given_in(shards: Any, X: Any, y: Any, data: Any, test: Any) -> Given | None:
    """Records in memory, none where they are named; no number is looked at.

    A RequestError names the argument, what it is, and what it must be.
    """
    named = isinstance(data, str | os.PathLike)
    ways = {"shards": shards, "X": X if X is not None else y, "data": data}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise RequestError(f"{' and '.join(given)} exclude each other: records come in one way")
    tests = None if isinstance(test, str | os.PathLike) else test
    if not given or named:
        if tests is not None:
            raise RequestError(
                "test=(X, y) or a frame needs records in memory (X=, shards= or data=frame): with a data set or "
                "file give test=PATH"
            )
        return None
    own, whole, pool = None, True, None
    if shards is not None:
        found, whole = _shards(shards)
        made = {i: _piece(shard, f"shards[{i}]") for i, shard in found.items()}
        kinds = {kind for kind, _ in made.values()}
        if len(kinds) > 1:
            raise RequestError("shards are frames and pairs (X, y): give all of one kind")
        (kind,), own = kinds, {i: piece for i, (_, piece) in made.items()}
    else:
        kind, pool = ("arrays", (X, y)) if data is None else _piece(data, "data", pairs=False)
    if tests is not None:
        test_kind, tests = _piece(tests, "test")
        if test_kind != kind:
            wanted = "a data frame with the same columns" if kind == "frame" else PAIR
            raise RequestError(f"test must be {wanted}, as the training records are")
    return Given(kind, pool, own, whole, tests)


def _piece(value: Any, word: str, *, pairs: bool = True) -> tuple[str, Any]:
    """Whether records are "arrays", a pair, or a "frame", and them."""
    if pairs and isinstance(value, tuple | list) and len(value) == 2:
        return "arrays", tuple(value)
    frame = frame_of(value)
    if frame is not None and len(frame.shape) == 2:
        return "frame", frame
    other = f"{PAIR}, or a data frame" if pairs else "a name, a path or a data frame; arrays go to X= and y="
    kind = type(value).__name__ + (f" of length {len(value)}" if isinstance(value, list | tuple) else "")
    raise RequestError(f"{word} is {article(kind)}: it must be {other}")


def _shards(shards: Any) -> tuple[dict[int, Any], bool]:
    """Shards by agent, and whether these are those of all agents, at every process."""
    words = "shards must be a list of (X, y), one an agent, or {agent: (X, y)}"
    if isinstance(shards, Mapping):
        for agent in shards:
            if isinstance(agent, bool) or not hasattr(agent, "__index__") or agent < 0:
                raise RequestError(f"shards has the key {short(agent)}: agents are numbered 0, 1, ...")
        found, whole = {int(agent): shard for agent, shard in shards.items()}, False
    elif isinstance(shards, list | tuple):
        found, whole = dict(enumerate(shards)), True
    else:
        raise RequestError(f"shards is {article(type(shards).__name__)}: {words}")
    if not found:
        raise RequestError(f"shards is empty: {words}")
    if whole and len(found) == 1:
        raise RequestError(
            "shards has one entry, but a network has 2 agents or more; to train in one place give X=X, y=y and a "
            "single-site algorithm such as dp-sgd"
        )
    return found, whole


def overlap(one: Any, other: Any) -> bool:
    """Whether two tables (arrays, lists, sparse matrices, frames) share a row's memory, or are equal whole.

    Views and slices share it. A copy of some rows does not: no such thing is looked for, because an answer that a
    single record decides would tell of that record.
    """
    if one is other:
        return True
    one, other = (table if (frame := frame_of(table)) is None else frame for table in (one, other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        rows = {id(row) for row in one if isinstance(row, list)}
        return any(id(row) in rows for row in other)
    mine, others = _blocks(one), _blocks(other)
    return any(np.shares_memory(mine[name], others[name]) for name in mine.keys() & others.keys()) or _equal(one, other)


def _blocks(table: Any) -> dict[Any, np.ndarray[Any, Any]]:
    """Arrays that hold a table's numbers, those of a frame by column."""
    if hasattr(table, "to_native"):
        columns = {name: table.get_column(name) for name in table.columns}
        return {name: column.to_numpy() for name, column in columns.items() if column.dtype.is_numeric()}
    block = getattr(table, "data", None) if hasattr(table, "tocsr") else table
    return {None: block} if isinstance(block, np.ndarray) else {}


def _equal(one: Any, other: Any) -> bool:
    """Whether two tables of one type and shape are the same numbers."""
    if type(one) is not type(other) or getattr(one, "shape", 0) != getattr(other, "shape", 1):
        return False
    if hasattr(one, "tocsr"):
        return bool((one != other).nnz == 0)
    if hasattr(one, "to_native"):
        return bool(one.to_dict(as_series=False) == other.to_dict(as_series=False))
    return isinstance(one, np.ndarray) and np.array_equal(one, other)
