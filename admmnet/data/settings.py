"""What a person asks of the data layer, and the checks that need no record."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from admmnet.data.sets import BUILT_IN, NAMES, OFFICIAL
from admmnet.errors import RequestError

IPUMS = "ipums:"
"""Start of a name that is followed by the name of the user's own file."""
FIXED_KEYS = {"scales", "centre"}
"""Keys of `[data.schema]` that go with a name of `BUILT_IN`."""

NORMALISE = ("rows", "columns", "public")
"""Values of `DataSettings.normalise`."""

FILE_FORMS = (".csv", ".csv.gz", ".npz", ".libsvm", ".libsvm.gz", ".svm", ".svm.gz")
"""Endings of the files that are read."""

AGENT = "{agent}"
"""Placeholder in a path: every agent has a file of its own, numbered from 0."""


@dataclass(frozen=True)
class DataSettings:
    """The request for data; every rank holds the same one.

    Attributes
    ----------
    data : str
        A name of `BUILT_IN`, `ipums:FILE`, or a path with an ending of `FILE_FORMS`, with `{agent}` in it for
        one file an agent.
    data_dir : str or None
        Folder of the downloaded sets (`DIR/adult/adult.data.gz`, ...).
    data_seed : int
        Decides the train/test draw and the shards, 0 or more.
    test : str or None
        Path of the test records, or "official" for the test part of a set of `OFFICIAL`.
    test_fraction : float or None
        Share of the records drawn as test set, above 0 and below 1; excludes `test`.
    no_test : bool
        Trains on all records, without test records; excludes both.
    split : str
        "iid", "dirichlet:A" or "by-column:NAME".
    label : str or None
        Name of the label column of a csv file.
    positive : str or None
        Label value that becomes +1.
    features : int or None
        Width of libsvm rows (or the expected width of npz rows).
    no_intercept : bool
        Leaves the constant column out.
    schema : mapping or None
        The table `[data.schema]` of a configuration, see docs/data.md.
    normalise : {"rows", "columns", "public"}
        What is scaled: rows alone, to norm 1, as always in the end; or features before that, by their largest
        absolute value among the training records ("columns") or by declared bounds ("public").
    project : int or None
        Number of features after a random projection, made by `data_seed` alone.
    centre : float, "mean" or None
        Value of a real target that becomes 0, or the mean of the training records'; None for the middle of
        its range.
    """

    data: str = "census"
    data_dir: str | None = None
    data_seed: int = 0
    test: str | None = None
    test_fraction: float | None = None
    no_test: bool = False
    split: str = "iid"
    label: str | None = None
    positive: str | None = None
    features: int | None = None
    no_intercept: bool = False
    schema: Mapping[str, Any] | None = None
    normalise: str = "rows"
    project: int | None = None
    centre: float | str | None = None

    @property
    def named(self) -> bool:
        """Whether a known set is meant, not a path."""
        return self.data in BUILT_IN or self.data.startswith(IPUMS)

    @property
    def per_agent(self) -> bool:
        """Whether every agent reads a file of its own."""
        return AGENT in self.data


@dataclass(frozen=True)
class Split:
    """A parsed `--split`: how the training records are dealt to the agents.

    Attributes
    ----------
    kind : {"iid", "dirichlet", "by-column"}
        Way of dealing.
    concentration : float
        A of `dirichlet:A`, else 0.
    column : str
        NAME of `by-column:NAME`, else "".
    """

    kind: Literal["iid", "dirichlet", "by-column"]
    concentration: float = 0.0
    column: str = ""


def parse_split(text: str) -> Split:
    """Parse `iid`, `dirichlet:A` or `by-column:NAME`.

    Parameters
    ----------
    text : str
        The value of `--split`.

    Returns
    -------
    Split
        Its parts.

    Raises
    ------
    RequestError
        If the form is another one, or A is no finite number above 0.
    """
    kind, _, rest = text.partition(":")
    if text == "iid":
        return Split("iid")
    if kind == "dirichlet" and rest:
        try:
            concentration = float(rest)
        except ValueError:
            concentration = math.nan
        if not (math.isfinite(concentration) and concentration > 0):
            raise RequestError(f"--split {text}: A must be a finite number above 0, such as dirichlet:0.5")
        return Split("dirichlet", concentration=concentration)
    if kind == "by-column" and rest:
        return Split("by-column", column=rest)
    raise RequestError(f"--split must be iid, dirichlet:A or by-column:NAME, got {text!r}")


def form_of(path: str) -> str:
    """Return the form of a file by its ending, without `.gz`: ".csv", ".npz", ".libsvm" or ".svm".

    Raises
    ------
    RequestError
        If the ending is none of `FILE_FORMS`.
    """
    match = re.search(r"(\.csv|\.libsvm|\.svm)(\.gz)?$|(\.npz)$", path)
    if match is None:
        raise RequestError(
            f"unknown data {path!r}: the names are {NAMES};"
            f" a file must end with one of {', '.join(FILE_FORMS)}"
        )
    return match[1] or match[3]


def path_for(pattern: str, agent: int) -> Path:
    """Path of an agent's own file."""
    return Path(pattern.replace(AGENT, str(agent)))


def check_settings(settings: DataSettings) -> None:
    """Check names, ranges and combinations; looks at no file.

    Raises
    ------
    RequestError
        Naming the setting, its value, what is allowed and the remedy.
    """
    split = parse_split(settings.split)
    _check_numbers(settings)
    if settings.named:
        _check_named(settings)
    else:
        _check_file_settings(settings, split)


def _check_named(settings: DataSettings) -> None:
    ipums = settings.data.startswith(IPUMS)
    if ipums and settings.per_agent:
        raise RequestError(f"{settings.data}: {IPUMS}FILE is one extract, without {AGENT}")
    for flag, value in (("--label", settings.label), ("--positive", settings.positive)):
        if value is not None and not (ipums and flag == "--label"):
            raise RequestError(
                f"{flag} {value} goes with a csv, npz or libsvm file, not with {settings.data!r}"
            )
    other = set(settings.schema or {}) - FIXED_KEYS
    if settings.features is not None or (
        settings.schema is not None and not ipums and (other or not settings.schema)
    ):
        which = "--features" if settings.features is not None else "[data.schema]"
        raise RequestError(
            f"{which} goes with a file; {settings.data!r} has a public encoding of its own"
            f" ([data.schema] may hold {' and '.join(sorted(FIXED_KEYS))} alone)"
        )
    official = settings.data in OFFICIAL
    if settings.test is not None and not (official and settings.test == "official"):
        allowed = (
            "official (or --test-fraction, or --no-test)"
            if official
            else "no --test, only --test-fraction or --no-test"
        )
        raise RequestError(f"--test {settings.test} does not go with {settings.data!r}: it takes {allowed}")


def _check_numbers(settings: DataSettings) -> None:
    if settings.data_seed < 0:
        raise RequestError(f"--data-seed must be 0 or more, got {settings.data_seed}")
    fraction = settings.test_fraction
    if fraction is not None and not 0 < fraction < 1:
        raise RequestError(f"--test-fraction must lie strictly between 0 and 1, got {fraction:g}")
    if fraction is not None and settings.test is not None:
        raise RequestError(
            f"--test {settings.test} and --test-fraction {fraction:g} exclude each other: drop one"
        )
    if settings.no_test and (fraction is not None or settings.test is not None):
        raise RequestError("--no-test excludes --test and --test-fraction: drop one")
    if settings.features is not None and settings.features < 1:
        raise RequestError(f"--features must be 1 or more, got {settings.features}")
    if settings.project is not None and settings.project < 1:
        raise RequestError(f"--project must be 1 or more, got {settings.project}")
    if settings.normalise not in NORMALISE:
        none = "; rows are always scaled, for every guarantee needs norms of at most 1"
        raise RequestError(
            f"--normalise must be one of {', '.join(NORMALISE)}, got {settings.normalise!r}"
            + (none if settings.normalise == "none" else "")
        )
    parse_centre(settings.centre)


def parse_centre(value: float | str | None) -> float | Literal["mean"] | None:
    """Parse `--centre`: a finite number, also as text, or `mean`.

    Raises
    ------
    RequestError
        If it is neither.
    """
    if value is None or value == "mean":
        return "mean" if value else None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(f"--centre must be a finite number or mean, got {value!r}")
    return number


def _check_file_settings(settings: DataSettings, split: Split) -> None:
    form = form_of(settings.data)
    if settings.test == "official":
        raise RequestError(
            f"--test official is the own split of a named set such as {OFFICIAL[0]}: with a file give --test the path"
            " of another file"
        )
    if settings.test is not None:
        if AGENT in settings.test:
            raise RequestError(f"--test {settings.test}: the test set is one public file, without {AGENT}")
        if form_of(settings.test) != form:
            raise RequestError(f"--test {settings.test} must have the form of the data, {form}")
    if form == ".csv" and settings.features is not None:
        raise RequestError("--features goes with libsvm and npz files; a csv file's width is its header's")
    if form != ".csv" and settings.label is not None:
        raise RequestError(f"--label {settings.label} goes with a csv file; {form} rows carry their label")
    if not settings.per_agent:
        return
    if settings.test is None and not settings.no_test:
        raise RequestError(
            f"{settings.data!r} gives every agent its own file: name a public test file with --test PATH, or do"
            " without with --no-test (--test-fraction would need a share of every agent's records)"
        )
    if split.kind != "iid":
        raise RequestError(
            f"--split {settings.split} does not go with {AGENT} in the path: the files are the shards"
        )
