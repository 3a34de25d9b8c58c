"""admmnet data: check, draft, show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import (
    PATH,
    data_dir_flag,
    features_flag,
    json_flag,
    label_flag,
    no_intercept_flag,
    out_flag,
    positive_flag,
    schema_flag,
    separator_flag,
    written,
)
from admmnet.data.settings import TASKS
from admmnet.errors import CheckFailed, RequestError, counted, printable
from admmnet.record.format import count, number

if TYPE_CHECKING:
    from admmnet.data import DataSettings
    from admmnet.data.check import Findings

SHOWN = 60
"""Columns that are shown one by one; --json has all."""
OF_EACH = 3
"""Faults of one column that are printed."""
QUOTES = "{}; the lines below quote records, so keep them on this machine:"


@click.group(no_args_is_help=False)
def data() -> None:
    """Look into a file of records on this machine; nothing is sent, and nothing is kept."""


@data.command()
@click.argument("file")
@schema_flag
@label_flag
@separator_flag
@positive_flag
@click.option("--task", type=click.Choice(TASKS), help="kind of undeclared labels")
@features_flag
@data_dir_flag
@no_intercept_flag
@click.option("--most", type=click.IntRange(min=1), default=20, metavar="K", help="faults to print (default 20)")
def check(file: str, schema: Path | None, most: int, **flags: Any) -> None:
    """Read FILE as a run would, and print what is wrong with it, with line, column and value.

    What is printed quotes records: it is for whoever holds FILE. Exit code 1 if there are faults.
    """
    from admmnet.data.check import check_file

    found = check_file(_settings(file, schema, flags))
    print(QUOTES.format(file))
    if found.source is None:
        _print_faults(found.faults, found.count, most)
        raise CheckFailed(
            f"{file} has {counted(found.count, 'fault')}: mend and check again, for a fault can hide others"
        )
    _print_sound(found)


def _settings(file: str, schema: Path | None, flags: Mapping[str, Any]) -> DataSettings:
    from admmnet.config.toml import read_schema
    from admmnet.data import DataSettings

    given = {} if schema is None else read_schema(schema)
    return DataSettings(data=file, **given | {name: value for name, value in flags.items() if value})


def _print_faults(faults: Sequence[str], total: int, most: int) -> None:
    told = list(islice(_few_of_each(faults), most))
    for fault in told:
        print(f"  {fault}")
    if total > len(told):
        print(f"  and {total - len(told)} more")


def _few_of_each(faults: Sequence[str]) -> Iterator[str]:
    """The first faults of every column, in order: a column of names has one in every record."""
    seen: Counter[str] = Counter()
    for fault in faults:
        column = "".join(re.findall(r", column ('.*?'|x\d+):", fault)[:1])
        seen[column] += 1
        if not column or seen[column] <= OF_EACH:
            yield fault


def _print_sound(found: Findings) -> None:
    import numpy as np

    source = found.source
    assert source is not None  # the caller asked
    print(f"  {count(len(source.y))} records of {count(len(source.features.names))} features, no fault")
    if source.schema.targets is not None:
        print(f"  targets from {number(np.min(source.y))} to {number(np.max(source.y))}")
    else:
        words = source.schema.classes
        for value, word in zip((-1.0, 1.0) if len(words) == 2 else range(len(words)), words, strict=True):
            print(f"  label {word!r}: {count(int(np.sum(source.y == value)))} records")
    for read in source.dependent:
        print(f"  read from the rows, not declared: {read}")
    for column in found.columns:
        print(f"  {printable(column)}")
    if found.asked:
        from admmnet.methods.encoding_rule import TRIED

        print(f"  by {', '.join(TRIED)}, where noise does not drown them; else they keep their bounds, a feature each")
    for note in found.notes:
        print(f"  note: {note}")


@data.command()
@click.argument("file", type=PATH)
@label_flag
@separator_flag
@click.option("--header-only", is_flag=True, help="read no record: bounds and categories are yours to write")
@out_flag("FILE.toml", "file (default: print)", required=False)
def draft(file: Path, label: str | None, separator: str | None, header_only: bool, out: Path | None) -> None:
    """Propose a schema from a public sample: kinds, bounds and categories of columns, and label values.

    What it reads becomes part of the schema in the clear. FILE is a .csv, .tsv or .parquet file.
    """
    from admmnet.data.draft_file import draft_of, template_of

    if out is not None and out.suffix != ".toml":
        raise RequestError(f"-o {out}: a schema is a .toml file")
    if out is not None and out.exists():
        raise RequestError(f"-o {out} exists: name another file, or remove it")
    text, words = (template_of if header_only else draft_of)(file, label, separator)
    if out is None:
        print(text, end="")
        return
    with written(out) as new:
        new.write_text(text, encoding="utf-8")
    print(f"{out} shows its readers:")
    for line in words:
        print(f"  {line}")
    print(f"read it, then: admmnet data check {file} --schema {out}")


@data.command()
@click.argument("name", metavar="[NAME|FILE]", required=False)
@click.option("--run", "folder", type=PATH, metavar="DIR", help="bounds and quantiles that a run has measured")
@schema_flag
@label_flag
@separator_flag
@features_flag
@data_dir_flag
@click.option("--balance", is_flag=True, help="also how many records of a file have each label")
@json_flag
def show(
    name: str | None, folder: Path | None, schema: Path | None, balance: bool, as_json: bool, **flags: Any
) -> None:
    """Print columns, encodings, widths, and what is public; of records their number alone.

    The label balance is a figure of the records: it is shown of public data sets, and with --balance. With --run DIR it
    is the columns as a run has measured them, and no file is read.
    """
    if (name is None) == (folder is None):
        raise RequestError("name a data set or a file, or a run folder with --run DIR")
    if name is None:
        given = [flag for flag, value in {"schema": schema, "balance": balance, **flags}.items() if value]
        if given:
            raise RequestError(f"--{given[0].replace('_', '-')} goes with a file, not with --run: leave it out")
        _show_run(Path(str(folder)), as_json=as_json)
        return
    from admmnet.data.check import facts_of, words_of

    facts = facts_of(_settings(name, schema, flags), balance=balance)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    above, *below = words_of(facts)
    print(above)
    _print_columns(facts["columns"])
    for line in below:
        print(line)


def _show_run(folder: Path, *, as_json: bool) -> None:
    from admmnet.predict.released import released, words_of, words_of_column

    facts = released(folder)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    above, *below = words_of(facts)
    print(above)
    if facts["columns"]:
        _print_columns(
            [{"feature": entry["column"], "encoding": words_of_column(entry), **entry} for entry in facts["columns"]]
        )
    for line in below:
        print(line)


def _print_columns(columns: Sequence[dict[str, Any]]) -> None:
    from admmnet.report.columns import print_table

    rows = [
        {
            "column": printable(entry["column"]),
            "feature": "" if entry["feature"] == entry["column"] else printable(entry["feature"]),
            "encoding": printable(entry["encoding"]),
            "features": "?" if entry["features"] is None else entry["features"],
        }
        for entry in columns[:SHOWN]
    ]
    if len(columns) > SHOWN:
        rows.append({"column": f"... {len(columns) - SHOWN} more"})
    print_table("", rows)
