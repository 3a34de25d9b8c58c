"""From the settings to the records they name, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from msgspec.structs import replace

from admmnet.data.files import about
from admmnet.data.readers.delimited import read_texts, usual_separator
from admmnet.data.readers.libsvm import read_libsvm
from admmnet.data.readers.npz import read_npz
from admmnet.data.readers.parquet import read_parquet
from admmnet.data.records import in_words
from admmnet.data.schema import Numeric, Schema, Task, measurable, parse_schema, separator_of
from admmnet.data.sets import find
from admmnet.data.settings import GIVEN, GROUPS, SHARDS, DataSettings, check_settings, form_of, parse_split, reserved
from admmnet.data.source import Source, source_of
from admmnet.data.table import RawTable, Refuse, canonical, refuse
from admmnet.errors import RequestError


def validate(settings: DataSettings, agents: int | None = None) -> None:
    """Check names, ranges, the schema and that files exist; reads no record.

    Files of one agent each are not looked for: they may lie elsewhere. A RequestError names the setting, its value
    and the remedy.
    """
    check_settings(settings)
    if agents is not None and agents < 1:
        raise RequestError(f"--agents must be 1 or more, got {agents}")
    if parse_split(settings.split).kind in (SHARDS, GROUPS) and settings.data not in GIVEN:
        raise RequestError(
            f"--split {settings.split} means that a program dealt the records: with a file or a data set take iid"
        )
    schema = declared(settings)
    known = find(settings.data)
    if known is not None:
        task = schema.task or "binary"
        if settings.task not in ("auto", task):
            remedy = ""
            if known.adapt is not None:
                remedy = ", or declare labels = [a, b, c] or targets = [lowest, highest] in [data.schema]"
            raise RequestError(
                f"--task {settings.task} does not go with {settings.data!r}, whose labels are"
                f" {in_words(task, schema.classes)}: drop --task{remedy}"
            )
        known.check(settings.data_dir)
        return
    if schema.rules and form_of(settings.data) != ".csv":
        raise RequestError(f"data.schema.columns goes with csv files, not with {settings.data}")
    for path in (None if settings.per_agent else settings.data, settings.test):
        if path in GIVEN:
            raise RequestError(reserved(path))
        if path is not None and not Path(path).is_file():
            raise RequestError(f"{path} does not exist: correct the path (relative ones start at the working folder)")


def left_raw(settings: DataSettings) -> Literal["", "bounded", "open"]:
    """Which columns ``auto`` asks the rule for noisy sums about, as far as the declaration says; reads no file.

    "open": a schema names kinds, and leaves bounds or categories open, so that columns stay raw whatever noise does;
    "bounded": all is declared, numbers by their bounds; "": something else says how rows are made.
    """
    if settings.encode != "auto" or settings.named or not settings.schema:
        return ""
    rules = declared(settings).rules
    usual = all(rule.scale == "linear" for rule in rules if isinstance(rule, Numeric) and rule.open)
    if settings.project is not None or settings.normalise != "rows" or not usual:
        return ""
    return "open" if any(rule.open for rule in rules) else "bounded" if any(map(measurable, rules)) else ""


def may_whiten(settings: DataSettings) -> bool:
    """Whether ``auto`` asks the rule for whitening: no feature has a declared weight. Reads no file.

    Rows that come encoded are whitened of sets and files alone, and where their norms are all that was changed.
    """
    plain = settings.data not in GIVEN and settings.project is None and settings.normalise == "rows"
    return (plain or settings.encode == "private") and all(rule.weight == 1.0 for rule in declared(settings).rules)


def declared(settings: DataSettings) -> Schema:
    """Schema of the settings, `--label` and `--features` included, or of a set; a wrong table is refused."""
    schema, known, raw = parse_schema(settings.schema), find(settings.data), settings.encode == "private"
    if known is not None and known.adapt is None:
        return replace(parse_schema(known.schema), scales=schema.scales, centre=schema.centre, measured=raw)
    schema = replace(schema, measured=raw, positive=settings.positive)
    if settings.label is not None:
        schema = replace(schema, label=settings.label)
    if settings.record_epsilon is not None:
        schema = replace(schema, drop=(*schema.drop, settings.record_epsilon))
    if settings.features is not None:
        schema = replace(schema, features=settings.features)
    if settings.separator is not None:
        schema = replace(schema, separator=separator_of(settings.separator, "--separator"))
    if schema.labels is not None and len({canonical(label) for label in schema.labels}) < len(schema.labels):
        raise RequestError(f"data.schema.labels must be different values, got {list(schema.labels)!r}")
    if settings.task != "auto" and not settings.named:
        task = cast("Task", settings.task)
        if schema.task not in (None, task):
            raise RequestError(
                f"--task {task} contradicts [data.schema], which declares {in_words(schema.task, schema.classes)}:"
                " drop one of them"
            )
        if task != "binary" and settings.positive is not None:
            raise RequestError(f"--positive {settings.positive} goes with two classes, not with --task {task}")
        schema = replace(schema, wanted=task)
    by_number = "targets" if schema.targets is not None else "threshold"
    if settings.positive is not None and (schema.targets or schema.threshold) is not None:
        raise RequestError(f"--positive {settings.positive} and data.schema.{by_number} exclude each other: drop one")
    if schema.leave_out and not settings.named and form_of(settings.data) != ".csv":
        raise RequestError(f"data.schema.leave_out goes with csv files, not with {settings.data}")
    return schema


def declared_task(settings: DataSettings) -> Task:
    """What labels the settings declare: two classes where nothing says otherwise. Reads no file."""
    return declared(settings).task or "binary"


def declared_classes(settings: DataSettings) -> int:
    """Number of classes that the settings declare, 0 of real targets. Reads no file.

    RequestError if the rows alone would tell.
    """
    schema = declared(settings)
    if schema.task == "classes" and schema.labels is None:
        raise RequestError("--task classes: declare labels = [a, b, c] in [data.schema], for no row is read here")
    return 0 if schema.task == "real" else len(schema.classes)


def read_source(settings: DataSettings, *, labelled: bool = True, discover: bool = True) -> Source:
    """Read pooled records; what a file's schema leaves open is read from its rows, or refused."""
    known, schema = find(settings.data), declared(settings)
    if known is None:
        # without an intercept a record in the middle of every column would have no direction
        drafts = discover and settings.data_dependent and not settings.no_intercept
        return read_file(settings.data, schema, discover=discover, labelled=labelled, drafts=drafts)
    share = settings.test_fraction or known.test_share
    official = settings.test == "official" or (share is None and not settings.no_test)
    with about(settings.data):
        source = known.source(settings.data_dir, schema, official=official, labelled=labelled)
    return replace(source, file=settings.data)


def read_file(
    file: str, schema: Schema, *, discover: bool = False, labelled: bool = True, drafts: bool = False
) -> Source:
    """Read a file by the form its ending names; parameters are those of `source_of`."""
    with about(file):
        table = read_table(Path(file), schema, labelled=labelled)
        return source_of(table, schema, file, discover=discover, labelled=labelled, drafts=drafts)


def read_table(path: Path, schema: Schema, *, labelled: bool = True, refuse: Refuse = refuse) -> RawTable:
    """Raw columns or numbers of a file; of the schema count the width, and how the file is written."""
    form = form_of(str(path))
    if path.suffix == ".parquet":
        return read_parquet(path)
    if form == ".csv":
        mark = schema.separator or usual_separator(path)
        return read_texts(path, separator=mark, header=schema.header, refuse=refuse)
    if form == ".npz":
        return read_npz(path, schema.features, labelled, refuse)
    return read_libsvm(path, schema.features, refuse)
