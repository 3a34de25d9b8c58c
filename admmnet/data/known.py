"""A named data set: a declaration of its files, columns, labels and parts over the shared readers."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from admmnet.data.files import content_digest, data_folder, located
from admmnet.data.readers.delimited import read_numbers, read_texts
from admmnet.data.readers.libsvm import read_libsvm
from admmnet.data.schema import Schema
from admmnet.data.source import Source, selected, source_of, stacked
from admmnet.data.table import RawTable
from admmnet.errors import RequestError


def each(read: Callable[..., RawTable], **how: Any) -> Callable[[Sequence[Path]], RawTable]:
    """Make of a reader of one file that of several, whose records follow each other."""
    return lambda paths: stacked([read(path, **how) for path in paths])


class DataSet(Struct, frozen=True, kw_only=True):
    """A named data set. Each is a TOML file of `admmnet.data.sets`, or in `SETS` of a module there."""

    name: str  # value of --data; one that ends with ":" is followed by the name of the user's own file
    read: Callable[[Sequence[Path]], RawTable]  # from the files to a table, see `admmnet.data.readers`
    shown: str = ""  # name in lists, if another: that of a family such as mnist:DIGIT
    takes: tuple[str, str] = ("", "")  # what follows a name that ends with ":", as a pattern and in words
    schema: Mapping[str, Any] = field(default_factory=dict)  # in the keys of [data.schema]
    # below the data folder; of alternatives the first there is; a pattern, with [, takes all
    files: tuple[tuple[str, ...], ...] = ()
    origin: str = ""  # where they are to be had, for messages; of downloads the address of their folder
    sha256: Mapping[str, str] = field(default_factory=dict)  # of the content of files that are downloaded
    stated: bool = False  # whether a file that has none of these checksums is said, with its own
    official: bool = False  # whether it has a test part: the last file, or what follows `train` of `records`
    train: int | None = None
    records: int | None = None
    test_share: float | None = 0.25  # drawn unless another is asked for; None for the official part
    bound: float = math.nan  # public bound of every feature, for files that hold numbers
    notes: tuple[str, ...] = ()  # warnings to show once
    alternative: str = ""  # what an alternative file is, for a note that it was taken
    public: bool = True  # whether a run on the records is a simulation
    above: Mapping[str, float] = field(default_factory=dict)  # what columns of records that count exceed
    # from the table, the user's [data.schema] and whether labels are read, to the schema in place of the set's own;
    # without it the user's may hold scales and centre alone
    adapt: Callable[[RawTable, Schema, bool], Schema] | None = None

    def of_file(self, file: str) -> DataSet:
        """The set that a user's file makes, below the folder of the set unless its path is absolute."""
        pattern, words = self.takes
        if not re.fullmatch(pattern, file):
            raise RequestError(f"{self.name}{file}: {self.shown.partition(':')[2]} must be {words}")
        files = tuple(
            tuple(str(path.parent / path.name.replace("FILE", file)) for path in map(PurePath, names))
            for names in self.files
        )
        return replace(self, files=files)

    def check(self, data_dir: str | None) -> None:
        """Look for the files, reading none; what may be downloaded is not missed."""
        if not self.sha256 or data_folder(data_dir) is not None:
            self.located(data_dir)

    def located(self, data_dir: str | None) -> list[Path]:
        """Find the files, downloading once what may be; a MissingDataError says what to do."""
        found = (located(names, data_dir, self.origin, self.sha256.get(names[0])) for names in self.files)
        return list(chain.from_iterable(found))

    def _unknown(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """Words for files that no known checksum vouches for; files with the same content are refused."""
        seen: dict[str, Path] = {}
        for path in paths:
            if (same := seen.setdefault(content_digest(path), path)) != path:
                raise RequestError(f"{same} and {path} hold the same: its records would count twice, remove one")
        return tuple(
            f"no checksum vouches for {path}: its content has sha256 {digest}, to be compared where figures are"
            for digest, path in seen.items()
            if digest not in self.sha256.values()
        )

    def source(self, data_dir: str | None, schema: Schema, *, official: bool, labelled: bool = True) -> Source:
        """Read the files; `official` says that the official split is meant, which may need all records."""
        paths = self.located(data_dir)
        table = replace(self.read(paths), bound=self.bound)
        complete = self.records in (None, table.rows)
        if official and not complete:
            raise RequestError(
                f"{table.origin} holds {table.rows} records, the official split needs {self.records}: get the original"
                " file, or draw a test set with --test-fraction"
            )
        if self.above and labelled:
            keep = np.ones(table.rows, dtype=bool)
            for name, least in self.above.items():
                keep &= (table.numbers_of(name, missing=True) > least)[table.column(name).codes]  # nan: not asked
            table = selected(table, keep)
        schema = schema if self.adapt is None else self.adapt(table, schema, labelled)
        notes = self.notes
        if self.alternative and not paths[0].name.startswith(PurePath(self.files[0][0]).name):
            notes += (f"{self.name}: {self.alternative}, {paths[0]}",)
        source = source_of(table, schema, discover=False, labelled=labelled)
        return replace(
            source,
            name=self.name + paths[0].name if self.name.endswith(":") else self.name,
            notes=(*source.notes, *notes),
            telling=self._unknown(paths) if self.stated else (),
            official=(self.train or sum(table.parts[:-1])) if self.official and complete else None,
            test_share=self.test_share,
        )


def codes(*values: int | str) -> dict[str, Any]:
    """Rule of a column of categories, words or whole numbers that stand for them, in the keys of `[data.schema]`."""
    return {"kind": "categorical", "categories": list(values)}


def bands(*edges: int) -> dict[str, Any]:
    """Rule of a column of numbers that count by intervals."""
    return {"kind": "numeric", "edges": list(edges)}


def read_set(path: Path) -> DataSet:
    """A set that a TOML file declares: its schema as a user's, and in the table `set` fields of `DataSet`.

    There `read` is a reader, and `names` are those of the columns; `skip` begins lines at the top that are no records.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    own, schema = table["set"], table["data"]["schema"]
    names, skip, header = tuple(own.pop("names", ())), own.pop("skip", ""), schema.pop("header", None)
    readers: dict[str, Callable[[Sequence[Path]], RawTable]] = {
        "text": each(read_texts, names=names, header=header, skip=skip),
        "numbers": each(read_numbers, names=names),
        "libsvm": each(read_libsvm, width=schema.get("features")),
    }
    own |= {
        "read": readers[own["read"]],
        "files": tuple(map(tuple, own["files"])),
        "notes": tuple(own.get("notes", ())),
    }
    own["test_share"] = own.get("test_share", 0.25) or None
    return DataSet(name=path.stem, schema=schema, **own)
