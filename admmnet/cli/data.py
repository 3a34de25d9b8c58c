"""admmnet data check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.data.settings import TASKS
from admmnet.errors import CheckFailed

if TYPE_CHECKING:
    from admmnet.data.check import Findings


@click.group(no_args_is_help=False)
def data() -> None:
    """Look into a file of records on this machine; nothing is sent, and nothing is kept."""


@data.command()
@click.argument("file")
@click.option(
    "--schema",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=".toml or .json: [data] of a run, or a schema",
)
@click.option("--label", metavar="NAME", help="label column of a .csv file")
@click.option("--positive", metavar="VALUE", help="label value that counts as +1")
@click.option("--task", type=click.Choice(TASKS), help="what the labels are where nothing declares it")
@click.option(
    "--features", type=click.IntRange(min=1), metavar="D", help="number of features of a .libsvm or .npz file"
)
@click.option("--data-dir", metavar="DIR", help="folder of the data sets, for the name of one")
@click.option("--no-intercept", is_flag=True, help="check that every row has a feature that is not 0")
@click.option(
    "--most", type=click.IntRange(min=1), default=20, metavar="K", help="faults to print (default 20)"
)
def check(file: str, schema: Path | None, most: int, **flags: Any) -> None:
    """Read FILE as a run would, and print what is wrong with it, with line, column and value.

    What is printed quotes records: it is for whoever holds FILE. Exit code 1 if there are faults.
    """
    from admmnet.config.toml import read_schema
    from admmnet.data import DataSettings
    from admmnet.data.check import check_file

    given = {} if schema is None else read_schema(schema)
    given |= {name: value for name, value in flags.items() if value}
    found = check_file(DataSettings(data=file, **given))
    print(f"{file}, on this machine only, for what follows quotes records:")
    if found.source is None:
        for fault in found.faults[:most]:
            print(f"  {fault}")
        if found.count > most:
            print(f"  and {found.count - most} more")
        faults = "1 fault" if found.count == 1 else f"{found.count} faults"
        raise CheckFailed(f"{file} has {faults}: mend and check again, for a fault can hide others")
    _print_sound(found)


def _print_sound(found: Findings) -> None:
    import numpy as np

    source = found.source
    assert source is not None  # the caller asked
    print(f"  {len(source.y)} records of {len(source.features.names)} features, no fault")
    if source.schema.targets is not None:
        print(f"  targets from {np.min(source.y):g} to {np.max(source.y):g}")
    else:
        words = source.schema.classes
        for number, word in zip((-1.0, 1.0) if len(words) == 2 else range(len(words)), words, strict=True):
            print(f"  label {word!r}: {int(np.sum(source.y == number))} records")
    for read in source.dependent:
        print(f"  read from the rows, not declared: {read}")
