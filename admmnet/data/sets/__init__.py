"""The named data sets: a TOML file of this folder each, or a module that lists declarations in `SETS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from admmnet.data.known import DataSet, read_set

_CODE = (own for module in iter_modules(__path__) for own in import_module(f"{__name__}.{module.name}").SETS)
KNOWN: dict[str, DataSet] = {
    own.name: own for own in (*map(read_set, sorted(Path(__file__).parent.glob("*.toml"))), *_CODE)
}
"""Every named set by its name; a name that ends with ":" is followed by a user's file."""

BUILT_IN = tuple(name for name, known in KNOWN.items() if known.public)
"""Names of the sets that are public."""

OWN = tuple(name for name in KNOWN if name.endswith(":"))
"""Starts of names that go on with the user's own file."""

OFFICIAL = tuple(name for name, known in KNOWN.items() if known.official)
"""Names of the sets with a test part of their own."""

NAMES = ", ".join(dict.fromkeys(known.shown or name for name, known in sorted(KNOWN.items())))
"""All names in words."""


def find(name: str) -> DataSet | None:
    """The set of a value of `--data`, None for a path."""
    head, colon, file = name.partition(":")
    family = KNOWN.get(head + colon) if colon else None
    return KNOWN.get(name) if family is None else family.of_file(file)
