"""What a person asks of the data layer, and the checks that need no record."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct

from admmnet.errors import RequestError
from admmnet.gone import GONE
from admmnet.registry import meant
from admmnet.settings import Auto, Section, about, settings_in

FIXED_KEYS = {"scales", "centre"}
"""Keys of `[data.schema]` that go with a name of `BUILT_IN`."""

FILE_FORMS = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"),
    *(".npz", ".libsvm", ".libsvm.gz", ".svm", ".svm.gz"),
)
"""Endings of the files that are read."""

GIVEN = {"arrays": ".npz", "frame": ".csv"}
"""What `data` and `test` say of records that a program holds in memory, with the form whose rules they follow."""

MEASURED = "measured"
"""Key of encoding.json, beside those of a schema, for what sums before the first round have told."""
FROM = "from:"
"""Beginning of a value of `DataSettings.encode` that names a run folder."""
ENCODE = ("auto", "declared", "private", f"{FROM}RUN")
"""Values of `DataSettings.encode`."""
_NUMBERS = {"dirichlet": ("A", "dirichlet:0.5"), "sizes": ("every share", "sizes:1:2:4"), "zipf": ("S", "zipf:1")}
"""What splits by numbers call these, and an example."""
SPLITS = ("auto", "iid", "dirichlet:A", "by-column:NAME", "sizes:A:B:...", "zipf:S")
"""Values of `DataSettings.split`."""
AGENT = "{agent}"
"""Placeholder in a path: every agent has a file of its own, numbered from 0."""


class DataSettings(Section, frozen=True, kw_only=True):
    """The request for data, section [data] of a run's settings; every rank holds the same one."""

    table: ClassVar[str] = "data"
    data: Annotated[str, about(metavar="NAME|PATH", hosts=True, everyday=3)] = "census"
    """set of docs/data.md, or a .csv, .tsv, .parquet, .npz or .libsvm file"""
    data_dir: Annotated[str, about(metavar="DIR", hosts=True)] | None = None
    """folder of the data sets, such as DIR/adult/adult.data"""
    data_seed: Annotated[int, about(ge=0)] = 0
    """seed of the train/test draw and the shards"""
    test: Annotated[str, about(metavar="PATH", hosts=True, everyday=4)] | None = None
    """file of test records; official: the set's own test part"""
    test_fraction: Annotated[float, about(gt=0, lt=1)] | None = None
    """share of records kept for testing"""
    no_test: Annotated[bool, about(everyday=5)] = False
    """train on all records: no test records, no errors"""
    split: Annotated[str, about(metavar="|".join(SPLITS), scope="network")] = "auto"
    """how records go to agents; auto: zipf:1.5 for census among up to 100 agents, else iid"""
    label: Annotated[str, about(metavar="NAME")] | None = None
    """label column"""
    separator: Annotated[str, about(metavar="MARK|tab")] | None = None
    """mark between cells of a .csv or .tsv file"""
    positive: Annotated[str, about(metavar="VALUE")] | None = None
    """label value that counts as +1"""
    task: Annotated[str, about(choices=("auto", "binary", "classes", "real"))] = "auto"
    """kind of undeclared labels"""
    features: Annotated[int, about(ge=1)] | None = None
    """number of features of a .libsvm file"""
    no_intercept: bool = False
    """no constant column"""
    data_dependent: bool = False
    """accept an encoding read from private records, which no ledger covers"""
    normalise: Annotated[str, about(choices=("rows", "columns", "public", "none"))] = "rows"
    """scale rows alone; features first, by largest values (columns) or declared bounds (public); nothing"""
    project: Annotated[int, about(ge=1, metavar="D")] | None = None
    """random projection to this many features, by the data seed"""
    centre: Annotated[str, about(metavar="X|mean")] | None = None
    """real target that becomes 0: a number, or mean"""
    encode: Annotated[str, about(metavar="|".join(ENCODE))] = "auto"
    """columns of numbers by declared bounds, by noisy sums (private), or as RUN measured them; auto: docs/data.md"""
    encode_share: Annotated[float, about(gt=0, le=0.9)] | Auto = "auto"
    """share of the budget for these sums; auto: 0.05 to 0.2"""
    whiten: Annotated[str, about(choices=("auto", "on", "off"))] = "auto"
    """even out features by a noisy sum of second moments; auto: where it helps and no weights are declared"""
    whiten_share: Annotated[float, about(gt=0, le=0.9)] | Auto = "auto"
    """share of the budget for that; auto: 0.05"""
    record_epsilon: Annotated[str, about(metavar="COLUMN")] | None = None
    """of song-sgd: column of each record's own pure epsilon, taken to be public"""
    schema: Mapping[str, Any] = {}
    """public schema of a file: labels, columns, categories, bounds"""

    def check(self) -> None:
        """Check where test records come from."""
        given = [name for name in ("no_test", "test", "test_fraction") if getattr(self, name) not in (None, False)]
        if len(given) > 1:
            raise RequestError(f"{given[0]} and {given[1]} exclude each other: give one of them")
        if self.encode not in ENCODE[:-1] and not self.encoded_by:
            raise RequestError(f"encode = {self.encode!r} is not allowed: it must be one of {', '.join(ENCODE)}")

    @property
    def encoded_by(self) -> str:
        """Folder of the run whose encoding is taken over; "" for none."""
        return self.encode.removeprefix(FROM) if self.encode.startswith(FROM) else ""

    @property
    def named(self) -> bool:
        """Whether a known set is meant, not a path."""
        return self.public_data or self.own_set

    @property
    def own_set(self) -> bool:
        """Whether a set is meant whose name says which file of the user's own: ``ipums:FILE``."""
        from admmnet.data.sets import OWN

        return self.data.startswith(OWN)

    @property
    def public_data(self) -> bool:
        """Whether a set is meant that is declared public; files and `own_set` are not."""
        from admmnet.data.sets import BUILT_IN  # all sets: only where one is asked for

        return self.data in BUILT_IN

    @property
    def per_agent(self) -> bool:
        """Whether every agent reads a file of its own."""
        return AGENT in self.data


class OwnFile(DataSettings, frozen=True, kw_only=True):
    """Settings of a private run over hosts, where any file is the agent's own, with `AGENT` in its path or without."""

    @property
    def per_agent(self) -> bool:
        """See ``DataSettings.per_agent``."""
        return True


class Split(Struct, frozen=True):
    """A parsed `--split`: how the training records are dealt to the agents."""

    kind: str  # what stands before the colon
    numbers: tuple[float, ...] = ()  # of dirichlet:A, zipf:S and sizes:A:B:..., one an agent, in any unit
    column: str = ""  # of by-column:NAME


SHARDS, GROUPS = "shards", "groups"
"""What ``split`` says where a program dealt the records itself: every agent's own, or by a digest of the owners."""


def parse_split(text: str) -> Split:
    """Parse the forms of `--split`: docs/data.md, "Splits"."""
    kind, _, rest = text.partition(":")
    if text in ("auto", "iid", SHARDS) or (kind in ("by-column", GROUPS) and rest):
        return Split(kind, column=rest)
    if kind not in _NUMBERS or not rest:
        raise RequestError(f"--split must be one of {', '.join(SPLITS)}, got {text!r}")
    what, example = _NUMBERS[kind]
    numbers = tuple(_finite(part) for part in (rest.split(":") if kind == "sizes" else [rest]))
    if not all(number > 0 for number in numbers):
        raise RequestError(f"--split {text}: {what} must be a finite number above 0, such as {example}")
    return Split(kind, numbers)


def _finite(value: float | str) -> float:
    """Number of a text; nan where it is none, or not finite."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) else math.nan


def split_of(settings: DataSettings, agents: int) -> str:
    """How the records of so many agents are dealt: ``split``, with ``auto`` replaced.

    The invented records of ``census`` are dealt in unequal shares, as long as every agent gets ten of them or so.
    """
    if settings.split != "auto":
        return settings.split
    enough = 1 < agents <= 100 and (settings.test_fraction or 0.0) <= 0.5
    return "zipf:1.5" if settings.data == "census" and enough else "iid"


def form_of(path: str) -> str:
    """Return the form of a file by its ending: ".csv" of all files of columns, ".npz", ".libsvm" or ".svm".

    A RequestError lists the endings, and the names of the sets.
    """
    if path in GIVEN:
        return GIVEN[path]
    match = re.search(r"(\.csv|\.tsv|\.libsvm|\.svm)(\.gz)?$|(\.npz|\.parquet)$", path)
    if match is None:
        from admmnet.data.sets import BUILT_IN, NAMES, OWN

        if path.startswith(OWN):
            return ".csv"
        if path.endswith((".xlsx", ".xls", ".ods")):
            raise RequestError(f"{path} is a spreadsheet: export the sheet as CSV, and name that file")
        if (instead := GONE.get(f"--data {path}")) is not None:
            raise RequestError(f"the set {path!r} is gone: {instead}")
        raise RequestError(
            f"unknown data {path!r}: {meant(path, BUILT_IN)}the names are {NAMES};"
            f" a file must end with one of {', '.join(FILE_FORMS)}"
        )
    form = match[1] or match[3]
    return ".csv" if form in (".tsv", ".parquet") else form


def reserved(name: str) -> str:
    """What to say where one of `GIVEN` comes without the records."""
    return (
        f"data = {name!r} means records that a program gave to admmnet.run; give them there again, or name a "
        "file or a data set"
    )


def path_for(pattern: str, agent: int) -> Path:
    """Path of an agent's own file."""
    return Path(pattern.replace(AGENT, str(agent)))


def check_settings(settings: DataSettings) -> None:
    """Check names, ranges and combinations; looks at no file."""
    for name, known in settings_in(DataSettings).items():
        if name != "centre":  # also a number
            known.check(getattr(settings, name))
    settings.check()
    if settings.normalise == "none" and not settings.no_intercept:
        raise RequestError(
            "--normalise none takes rows as they are, and a constant 1 more would make each longer than 1: pass "
            "--no-intercept, too"
        )
    if settings.encode == "private" and (settings.project is not None or settings.normalise != "rows"):
        raise RequestError(
            "encode = 'private' makes rows of norm 1 of raw columns: leave out --project and --normalise, or take "
            "encode = 'declared'"
        )
    split = parse_split(settings.split)
    parse_centre(settings.centre)
    if settings.named:
        _check_named(settings)
    else:
        _check_file_settings(settings, split)


def _check_named(settings: DataSettings) -> None:
    own = settings.own_set
    if own and settings.per_agent:
        raise RequestError(f"{settings.data} is one extract, without {AGENT}")
    from admmnet.data.sets import OFFICIAL

    for name in ("label", "positive", "separator"):
        value = getattr(settings, name)
        if value is not None and not (own and name == "label"):
            raise RequestError(f"--{name} {value} goes with a csv, npz or libsvm file, not with {settings.data!r}")
    other = set(settings.schema) - FIXED_KEYS
    if settings.features is not None or (other and not own):
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


def parse_centre(value: float | str | None) -> float | Literal["mean"] | None:
    """Parse `--centre`: a finite number, also as text, or `mean`."""
    if value is None or value == "mean":
        return "mean" if value else None
    if math.isnan(number := _finite(value)):
        raise RequestError(f"--centre must be a finite number or mean, got {value!r}")
    return number


def _check_file_settings(settings: DataSettings, split: Split) -> None:
    form = form_of(settings.data)
    if settings.test == "official":
        raise RequestError(
            "--test official is the own split of a named set such as adult: with a file give --test the path of "
            "another file"
        )
    if settings.test is not None:
        if AGENT in settings.test:
            raise RequestError(f"--test {settings.test}: the test set is one public file, without {AGENT}")
        if form_of(settings.test) != form:
            remedy = "" if settings.data not in GIVEN else "; give test=(X, y) or a frame, as the records are"
            raise RequestError(f"--test {settings.test} must have the form of the data, {form}{remedy}")
    if form == ".csv" and settings.features is not None:
        raise RequestError("--features goes with libsvm and npz files; a csv file's width is its header's")
    for name, value in {"label": settings.label, "separator": settings.separator}.items():
        if form != ".csv" and value is not None:
            raise RequestError(
                f"--{name} {value} goes with a csv file: {form} rows have no names, and carry their label"
            )
    if not settings.per_agent:
        return
    if settings.test is None and not settings.no_test:
        raise RequestError(
            f"{settings.data!r} gives every agent its own file, and --test-fraction needs a shared one:"
            " give a public test file with --test PATH, or --no-test"
        )
    if split.kind not in ("auto", "iid"):
        raise RequestError(f"--split {settings.split} does not go with a file an agent: the files are the shards")
