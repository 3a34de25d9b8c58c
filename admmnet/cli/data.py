"""admmnet data: check, draft."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import HOW_READ, PATH, asked, json_flag, out_flag, put, show
from admmnet.cli.settings import setting_flags
from admmnet.errors import CheckFailed, RequestError, counted, printable
from admmnet.record.format import count, number

if TYPE_CHECKING:
    from admmnet.data.check import Findings
    from admmnet.data.source import Source

SHOWN = 60
"""Columns that are shown one by one."""
OF_EACH = 3
"""Faults of one column that are printed."""


@click.group(no_args_is_help=False)
def data() -> None:
    """Look into a file of records on this machine; nothing is sent, and nothing is kept."""


@data.command()
@click.argument("file", required=False)
@click.option("--schema", type=PATH, metavar="FILE", help=HOW_READ)
@setting_flags("label", "separator", "positive", "task", "features", "data_dir", "no_intercept")
@click.option("--most", type=click.IntRange(min=1), default=20, metavar="K", help="faults to print (default 20)")
@click.option("--balance", is_flag=True, help="also how many records have each label")
@click.option("--run", "folder", type=PATH, metavar="DIR", help="what a run has measured; no file is read")
@json_flag
def check(file: str | None, schema: Path | None, most: int, balance: bool, folder: Path | None, **flags: Any) -> None:
    """Read FILE as a run would: its faults, with line, column and value, or what the run would make of each column.

    What is printed quotes records: it is for whoever holds FILE. Exit code 1 if there are faults. Without FILE it lists
    the data sets.
    """
    from admmnet.config.toml import read_schema
    from admmnet.data.check import check_file
    from admmnet.data.sets import NAMES
    from admmnet.data.settings import DataSettings

    if asked("json") and folder is None:
        raise RequestError("--json goes with --run: leave it out")
    if folder is not None:
        given = {"schema": schema, "balance": balance, **flags}
        if wrong := [file] * bool(file) + [f"--{flag.replace('_', '-')}" for flag, value in given.items() if value]:
            raise RequestError(f"{wrong[0]} does not go with --run: leave it out")
        _print_measured(folder)
        return
    if file is None:
        print("data sets, for --data NAME; any other name is a file's:", *NAMES.split(", "), sep="\n  ")
        return
    declared = {} if schema is None else read_schema(schema)
    settings = DataSettings(data=file, **declared | {name: value for name, value in flags.items() if value})
    found = check_file(settings)
    print(f"{file}; the lines below quote records, so keep them on this machine:")
    if found.source is None:
        _print_faults(found.faults, found.count, most)
        raise CheckFailed(
            f"{file} has {counted(found.count, 'fault')}: mend and check again, for a fault can hide others"
        )
    _print_sound(found, found.source, balance=balance, public=settings.named)


def _print_measured(folder: Path) -> None:
    from admmnet.predict.export import released

    facts = released(folder)
    worth = "all of this was released, and is paid for" if facts["mode"] == "private" else "nothing is protected"
    keys = ("column", "kind", "features", "low", "high", "quantiles")
    rows = [{key: entry.get(key) for key in keys} for entry in facts["columns"]]
    told = f"{worth}; numbers without bounds were drowned by noise, or not measured: they are on a public curve"
    show(facts if asked("json") else facts | {"columns": rows}, told)


def _print_faults(faults: Sequence[str], total: int, most: int) -> None:
    """Print the first faults of every column, in order: a column of names has one in every record."""
    seen, told = Counter[str](), 0
    for fault in faults:
        column = "".join(re.findall(r", column ('.*?'|x\d+):", fault)[:1])
        seen[column] += 1
        if told < most and (not column or seen[column] <= OF_EACH):
            print(f"  {fault}")
            told += 1
    if total > told:
        print(f"  and {total - told} more")


def _print_sound(found: Findings, source: Source, *, balance: bool, public: bool) -> None:
    import numpy as np

    print(f"  {count(len(source.y))} records of {count(len(source.names))} features, no fault")
    print(f"  {'a public data set' if public else 'a file: its records are private unless --simulate is given'}")
    if source.schema.targets is not None:
        print("  targets from {} to {}".format(*map(number, source.schema.targets)))
    else:
        words = source.schema.classes
        for value, word in zip((-1.0, 1.0) if len(words) == 2 else range(len(words)), words, strict=True):
            sign = " (+1)" if len(words) == 2 and value == 1.0 else ""
            print(f"  label {word!r}{sign}" + (f": {count(int(np.sum(source.y == value)))} records" if balance else ""))
    for read in source.dependent:
        print(f"  read from the rows, not declared: {read}")
    if source.dependent:
        print("  a private run reads none of it: `admmnet data draft` on a public sample writes a schema")
    elif not source.schema.measured:
        print("  all of the encoding is declared, nothing is read from records")
    for column in found.columns[:SHOWN]:
        print(f"  {printable(column)}")
    if len(found.columns) > SHOWN:
        print(f"  and {len(found.columns) - SHOWN} columns more")
    if found.asked:
        from admmnet.methods.encoding_rule import TRIED

        print(f"  by {', '.join(TRIED)}, where noise does not drown them; else they keep their bounds, a feature each")
    for note in (*source.notes, *found.notes):
        print(f"  note: {note}")


@data.command()
@click.argument("file", type=PATH)
@setting_flags("label", "separator")
@out_flag("FILE.toml", "file (default: print)", required=False)
def draft(file: Path, label: str | None, separator: str | None, out: Path | None) -> None:
    """Propose a schema from a public sample: kinds, bounds and categories of columns, and label values.

    What it reads becomes part of the schema in the clear. FILE is a .csv, .tsv or .parquet file.
    """
    from admmnet.data.draft import draft_of
    from admmnet.data.sets import find

    if find(str(file)) is not None:
        raise RequestError(f"{file} has a public encoding of its own: see `admmnet data check {file}`")
    if out is not None and out.suffix != ".toml":
        raise RequestError(f"-o {out}: a schema is a .toml file")
    if out is not None and out.exists():
        raise RequestError(f"-o {out} exists: name another file, or remove it")
    text, words = draft_of(file, label, separator)
    if not put(text, out):
        return
    print(f"{out} shows its readers:", *words, sep="\n  ")
    print(f"read it, then: admmnet data check {file} --schema {out}")
