"""A named data set: a declaration of its files, columns, labels and parts over the shared readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from admmnet.data.columns import Column, Table
from admmnet.data.files import data_folder, locate
from admmnet.data.schema import Schema, parse_schema
from admmnet.data.source import Source, label_of, source_of
from admmnet.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A named data set. Each module of `admmnet.data.sets` lists its own in `SETS`; nothing else names them.

    Attributes
    ----------
    name : str
        Value of `--data`. One that ends with ":" is followed by the name of the user's own file.
    shown : str
        The name in lists, if another: that of a family such as mnist:DIGIT.
    read : callable
        From the paths of the files to a table, see `admmnet.data.readers`.
    schema : mapping
        Public encoding, label column and labels, in the keys of `[data.schema]`.
    files : tuple of tuple of str
        Paths below the data folder, each with alternatives, the first there is being taken.
    origin : str
        Where the files are to be had, for messages; or the address they are downloaded from.
    sha256 : mapping
        Digest of the content of each file that is downloaded.
    relabel : callable or None
        From a raw label to one of the schema; labels that are neither are refused.
    official : bool
        Whether there is a test part: the last file, or what follows the first `train` of `records` records.
    train, records : int or None
        See `official`.
    test_share : float or None
        Share drawn for testing unless another is asked for; None for the official part.
    bound : float or None
        Public bound of every feature, for files that hold numbers.
    notes : tuple of str
        Warnings to show once.
    alternative : str
        What an alternative file is, for a note that it was taken.
    public : bool
        Whether the records are public, so that a run on them is a simulation.
    adapt : callable or None
        From the table, the user's `[data.schema]`, and whether labels are read, to the schema in place of
        `schema`; without it the user's may hold `scales` and `centre` alone.
    """

    name: str
    read: Callable[[Sequence[Path]], Table]
    shown: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, ...], ...] = ()
    origin: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    relabel: Callable[[str], str] | None = None
    official: bool = False
    train: int | None = None
    records: int | None = None
    test_share: float | None = 0.25
    bound: float | None = None
    notes: tuple[str, ...] = ()
    alternative: str = ""
    public: bool = True
    adapt: Callable[[Table, Schema, bool], Schema] | None = None

    def of_file(self, file: str) -> DataSet:
        """The set that a user's file makes, below the folder of the set unless its path is absolute."""
        if not file.endswith((".csv", ".csv.gz")):
            raise RequestError(
                f"{self.name}{file}: FILE must be an extract in csv form, ending with .csv or .csv.gz"
            )
        return replace(self, files=tuple((str(PurePath(*paths).parent / file),) for paths in self.files))

    def check(self, data_dir: str | None) -> None:
        """Look for the files, reading none; what may be downloaded is not missed."""
        if not self.sha256 or data_folder(data_dir) is not None:
            self._located(data_dir)

    def _located(self, data_dir: str | None) -> list[Path]:
        return [locate(names, data_dir, self.origin, self.sha256.get(names[0])) for names in self.files]

    def source(self, data_dir: str | None, user: Schema, *, official: bool, labelled: bool = True) -> Source:
        """Read the files.

        Parameters
        ----------
        data_dir : str or None
            `--data-dir`.
        user : Schema
            The user's `[data.schema]`.
        official : bool
            Whether the official split is meant, which may go by position and need all records.
        labelled : bool
            Whether labels are read.

        Raises
        ------
        RequestError
            If files are missing or unsound; with file, line and column, for a row that the schema does not allow.
        """
        paths = self._located(data_dir)
        table = raw = self.read(paths)
        complete = self.records in (None, table.rows)
        if official and not complete:
            raise RequestError(
                f"{table.origin} holds {table.rows} records, the official split needs {self.records}: get the original"
                " file, or draw a test set with --test-fraction"
            )
        if self.adapt is not None:
            schema = self.adapt(table, user, labelled)
        else:
            schema = replace(parse_schema(self.schema), scales=user.scales, centre=user.centre)
        if self.relabel is not None:
            table = _relabelled(table, label_of(table, schema), self.relabel)
        if self.bound is not None and table.features is not None:
            bounds = np.full(len(table.features.names), self.bound)
            table = replace(table, features=replace(table.features, bounds=bounds))
        notes = self.notes
        if self.alternative and not paths[0].name.startswith(PurePath(self.files[0][0]).name):
            notes += (f"{self.name}: {self.alternative}, {paths[0]}",)
        source = source_of(table, schema, discover=False, labelled=labelled)
        return replace(
            source,
            name=self.name + paths[0].name if self.name.endswith(":") else self.name,
            column=source.column if self.relabel is None else raw.column,
            notes=notes,
            official=(self.train or sum(raw.parts[:-1])) if self.official and complete else None,
            test_share=self.test_share,
        )


def _relabelled(table: Table, label: str, change: Callable[[str], str]) -> Table:
    def read(name: str) -> Column:
        return table.read(name).mapped(change) if name == label else table.read(name)

    return replace(table, read=read)
