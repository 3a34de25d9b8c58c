"""From the name or the path of data to its records, read and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from admmnet.data.adult import find_adult, read_adult
from admmnet.data.census import read_census
from admmnet.data.files import about, data_folder
from admmnet.data.ipums import find_ipums, read_ipums
from admmnet.data.kddcup99 import find_kddcup99, read_kddcup99
from admmnet.data.labels import same
from admmnet.data.libsvm import read_libsvm
from admmnet.data.mnist import find_mnist, read_mnist
from admmnet.data.phishing import find_phishing, find_phishing_uci, read_phishing, read_phishing_uci
from admmnet.data.schema import Schema, parse_schema
from admmnet.data.settings import IPUMS, DataSettings, form_of
from admmnet.data.skin import find_skin, read_skin
from admmnet.data.source import Source
from admmnet.data.tables import read_csv, read_npz
from admmnet.data.year_prediction import find_year, read_year
from admmnet.errors import RequestError

Read = Callable[[str | None], Source]

_FIND: dict[str, Callable[[str | None], object]] = {
    "phishing": find_phishing,
    "phishing:uci": find_phishing_uci,
    "kddcup99": find_kddcup99,
    **{f"mnist:{digit}": find_mnist for digit in range(10)},
    "skin": find_skin,
    "year-prediction-msd": find_year,
}
_READ: dict[str, Read] = {
    "census": lambda data_dir: read_census(),
    "adult": read_adult,
    "phishing": read_phishing,
    "phishing:uci": read_phishing_uci,
    "kddcup99": read_kddcup99,
    "skin": read_skin,
}


def check_named(settings: DataSettings) -> None:
    """Look for the files of a known set, reading none.

    Raises
    ------
    RequestError
        Saying where a file was expected and what to do.
    """
    if settings.data.startswith(IPUMS):
        find_ipums(settings.data_dir, settings.data.removeprefix(IPUMS))
    elif settings.data == "adult" and data_folder(settings.data_dir) is not None:
        find_adult(settings.data_dir, download=False)
    elif settings.data in _FIND:
        _FIND[settings.data](settings.data_dir)


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
    by_number = "targets" if schema.targets is not None else "threshold"
    if settings.positive is not None and (schema.targets or schema.threshold) is not None:
        raise RequestError(
            f"--positive {settings.positive} and data.schema.{by_number} exclude each other: drop one"
        )
    if schema.leave_out and not settings.data.startswith(IPUMS) and form_of(settings.data) != ".csv":
        raise RequestError(f"data.schema.leave_out goes with csv files, not with {settings.data}")
    return schema


def read_source(settings: DataSettings) -> Source:
    """Read pooled records; what a file's schema leaves open is read from its rows."""
    if settings.named:
        return read_named(settings)
    return read_file(Path(settings.data), declared(settings), settings.positive, discover=True)


def read_named(settings: DataSettings, labelled: bool = True) -> Source:
    """Read a known set; scales and centre of the settings' schema are taken over."""
    with about(settings.data):
        return replace(_read_named(settings, labelled), file=settings.data)


def _read_named(settings: DataSettings, labelled: bool) -> Source:
    name, folder = settings.data, settings.data_dir
    if name.startswith(IPUMS):
        file = name.removeprefix(IPUMS)
        return read_ipums(folder, file, declared(settings), settings.positive, labelled)
    if name.startswith("mnist:"):
        source = read_mnist(folder, int(name.removeprefix("mnist:")))
    elif name == "year-prediction-msd":
        source = read_year(folder, official=settings.test_fraction is None and not settings.no_test)
    else:
        source = _READ[name](folder)
    own = parse_schema(settings.schema)
    return replace(source, schema=replace(source.schema, scales=own.scales, centre=own.centre))


def read_file(
    path: Path, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Read a file by the form its ending names; the parameters are those of `read_csv`."""
    read = {".csv": read_csv, ".npz": read_npz}.get(form_of(str(path)), read_libsvm)
    with about(path):
        return replace(read(path, schema, positive, discover, labelled), file=str(path))
