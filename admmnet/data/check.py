"""All faults of one file of records, for its owner; a run's public messages name the file alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from admmnet.data.encode import block_of, check_columns, complete, names_of_rule, refuse_text, words_of_rule
from admmnet.data.files import about
from admmnet.data.known import DataSet
from admmnet.data.labels import read_labels
from admmnet.data.records import Records
from admmnet.data.rows import INTERCEPT, encoded, every, fit, names_of
from admmnet.data.schema import Categorical, Numeric, Rule, Schema
from admmnet.data.sets import find
from admmnet.data.settings import DataSettings
from admmnet.data.source import Source, label_of, with_columns, without
from admmnet.data.sources import declared, kinds_alone, read_source, read_table, validate_one, whole_and_bounded
from admmnet.data.table import RawTable, refuse
from admmnet.errors import DataError, counted
from admmnet.holder.encoding import RawRows

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """What a check found; faults and labels quote records."""

    faults: tuple[str, ...]  # each with line, column and value; at most ``DataError.KEPT`` of a kind
    count: int  # of all
    source: Source | None  # the records, if there is no fault
    notes: tuple[str, ...] = ()  # what is no fault, but makes columns count little
    asked: bool = False  # whether a run of some methods measures columns with bounds

    @property
    def columns(self) -> tuple[str, ...]:
        """What a run makes of the columns whose encoding is not declared, for a line each."""
        told = self.source is not None and (self.asked or self.source.schema.measured)
        rules = self.source.schema.rules if self.source is not None and told else ()
        said = ((rule, words_of_rule(rule)) for rule in rules)
        return tuple(
            f"column {rule.column!r}: {words}, {counted(len(names_of_rule(rule)), 'feature')}"
            for rule, words in said
            if words is not None
        )


def check_file(settings: DataSettings) -> Findings:
    """Read a file (or built-in set) as a run would, and find as many faults as can be found at a time.

    Wrong settings, and a file that cannot be read at all, raise a RequestError. Test set and split do not count.
    """
    validate_one(settings)
    asked = whole_and_bounded(settings)
    if kinds_alone(settings):
        settings = dataclasses.replace(settings, encode="private")
    found = Found()
    if not settings.named:
        schema = declared(settings)
        table = found.attempt(lambda: read_table(Path(settings.data), schema, refuse=found.keep))
        if table is not None:
            check_table(found, table, schema, settings.positive)
    source = None
    if not found.count:  # then exactly what a run does
        source = found.attempt(lambda: read_source(settings))
    notes: tuple[str, ...] | None = ()
    if source is not None:
        notes = found.attempt(lambda: _finish(source, settings))
    return Findings(tuple(found.faults), found.count, None if found.count else source, notes or (), asked)


class Found:
    """Faults of the steps of a check."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.count = 0

    def attempt(self, step: Callable[[], T]) -> T | None:
        """Result of a step; None if it finds faults, which are kept."""
        try:
            return step()
        except DataError as error:
            self.faults += error.faults
            self.count += error.count
        return None

    def keep(self, faults: Iterable[str]) -> None:
        """Keep the faults of records that a reader leaves out."""
        self.attempt(lambda: refuse(faults))


def _finish(source: Source, settings: DataSettings) -> tuple[str, ...]:
    rows = every(source)
    X, _ = encoded(source, rows, settings, fit(source, rows, settings, discover=True).transform)
    said = None if isinstance(X, RawRows) else swallowing(X, names_of(source, settings))
    gone = f"{source.table.left_out} records are left out by leave_out: private runs refuse the file while it has them"
    return (
        *((gone,) if source.table.left_out else ()),
        *(() if said is None else (said,)),
        *(() if settings.named else unfilled(source)),
    )


def check_table(found: Found, table: RawTable, schema: Schema, positive: str | None) -> None:
    """Find the faults of labels and columns."""
    table = found.attempt(lambda: _labelled(table, schema, positive)) or table
    # without rules, which column is no feature is known by the label alone
    if table.numbers is not None or not (schema.rules or schema.label in table.names):
        return
    schema = with_columns(schema, table)
    found.attempt(lambda: check_columns(schema, table))
    for rule in schema.rules:
        found.attempt(partial(_check_rule, rule, schema, table))


def _check_rule(rule: Rule, schema: Schema, table: RawTable) -> None:
    if schema.measured:
        block_of(rule, table, measured=True)
        refuse_text(replace(schema, rules=(rule,)), table)
        return
    block_of(complete(replace(schema, rules=(rule,)), table)[0].rules[0], table)


def _labelled(table: RawTable, schema: Schema, positive: str | None) -> RawTable:
    """Check the labels; the records that have one."""
    label = label_of(table, schema)
    table = without(table, label, schema.leave_out)
    read_labels(table, label, schema, positive, discover=True)
    return table


LARGEST = 0.9
"""Share of the rows' squared length above which one feature leaves little of the others."""
FILLED = 0.05
"""Share of its bounds below which the values of a column hardly differ."""
_ROWS = 2000
REMEDY = (
    "declare low and high of every column in [data.schema] (`admmnet data draft` proposes them); of rows without "
    "columns scales, or take --normalise columns"
)


def swallowing(X: Any, names: Sequence[str]) -> str | None:
    """What to say where one feature makes up most of rows of norm 1, dense (n, d) or CSR; None if none does."""
    some = X[:_ROWS]
    if len(names) < 3 or not some.shape[0]:
        return None
    squares = np.asarray(some.multiply(some).sum(axis=0) if hasattr(some, "multiply") else (some**2).sum(axis=0))
    share = squares.ravel() / some.shape[0]
    j = int(np.argmax(share))
    if share[j] <= LARGEST:
        return None
    what = "the constant column" if names[j] == INTERCEPT else f"feature {names[j]!r}"
    return f"{what} makes up {share[j]:.1%} of the rows' squared length, so that the others hardly count: {REMEDY}"


def swallowed(records: Records) -> str | None:
    """As ``swallowing`` of the rows of the first agent there is: a figure of records, for simulations alone."""
    return next((swallowing(X, records.feature_names) for _, (X, _) in sorted(records.shards.items())), None)


def unfilled(source: Source) -> Iterator[str]:
    """What to say of declared bounds of which the values take a small part."""
    for rule in source.schema.rules:
        if not isinstance(rule, Numeric) or rule.low is None or rule.high is None or rule.scale == "log":
            continue
        values = source.table.column(rule.column).values(source.schema.spelling, missing=True)
        if values is None or np.isnan(values).all():
            continue
        inside = np.clip(values, rule.low, rule.high)
        part = float((np.nanmax(inside) - np.nanmin(inside)) / (rule.high - rule.low))
        if part < FILLED:
            yield (
                f"column {rule.column!r} takes {part:.2%} of its bounds, {rule.low:g} to {rule.high:g}, so that it "
                'counts: narrow them, or take scale = "log"'
            )


AS_THEY_ARE = "numbers as they are"
UNDECLARED = "not declared: a private run takes it for a number, a simulation drafts it"
_SHOWN = 6  # categories or edges that are written out


def facts_of(settings: DataSettings, *, balance: bool) -> dict[str, Any]:
    """Facts for `admmnet data show`; of records their number alone, and with ``balance`` how many have each label.

    RequestError if the settings are wrong, the file cannot be read, or the labels are not declared where they are asked
    for.
    """
    validate_one(settings)
    known = find(settings.data)
    if known is not None:
        return _of_source(read_source(settings), settings, known)
    schema = declared(settings)
    with about(settings.data):
        table = read_table(Path(settings.data), schema)
    facts = _of_schema(schema, settings, table)
    if balance:
        facts["label"]["records"] = _counts(read_source(settings))
    return facts


def _of_source(source: Source, settings: DataSettings, known: DataSet) -> dict[str, Any]:
    schema, names = source.schema, source.features.names
    raw = () if schema.rules else names
    facts = _facts(replace(schema, features=len(names)), settings, raw)
    facts |= {"records": len(source.y), "public": known.public, "declared": True}
    if known.public:
        facts["label"]["records"] = _counts(source)
    return facts


def _of_schema(schema: Schema, settings: DataSettings, table: RawTable) -> dict[str, Any]:
    label = table.label or schema.label
    if table.numbers is not None:
        facts = _facts(replace(schema, label=label, features=len(table.names) - 1), settings, table.names[1:])
    else:
        raw = () if schema.rules else tuple(n for n in table.names if n != label and n not in schema.drop)
        facts = _facts(replace(schema, label=label, measured=kinds_alone(settings)), settings, raw)
        used = {rule.column for rule in schema.rules} | {label, *raw, *schema.drop}
        facts["undeclared"] = [name for name in table.names if name not in used]
        facts["absent"] = sorted(name for name in used if name not in (None, "*", *table.names))
    open_ = any(rule.open for rule in schema.rules) and not kinds_alone(settings)
    whole = bool(schema.rules) and not open_ and not facts.get("undeclared")
    whole = whole if table.numbers is None else not table.dependent
    return facts | {"records": table.rows, "public": False, "declared": whole}


def _facts(schema: Schema, settings: DataSettings, raw: tuple[str, ...]) -> dict[str, Any]:
    columns = [_raw_entry(rule) if schema.measured else _entry(rule) for rule in schema.rules]
    if schema.features is not None and raw:  # numbers of a form that has no columns
        span = raw[0] if len(raw) == 1 else f"{raw[0]} to {raw[-1]}"
        columns.append({"column": span, "feature": span, "encoding": AS_THEY_ARE, "features": len(raw)})
        raw = ()
    columns += [{"column": name, "feature": name, "encoding": UNDECLARED, "features": None} for name in raw]
    widths = [entry["features"] for entry in columns]
    width = None if None in widths else sum(widths) + (not settings.no_intercept)
    return {
        "data": settings.data,
        "label": {"column": schema.label, "values": _values(schema), "real": schema.targets is not None},
        "columns": columns,
        "left_out": list(schema.drop),
        "features": width,
        "measured": schema.measured,
        "may_measure": schema.measured or whole_and_bounded(settings),
        "intercept": not settings.no_intercept,
    }


def _values(schema: Schema) -> list[str] | None:
    """What the labels are: the values of -1 and +1, of classes, or the range; None where nothing says."""
    if schema.targets is not None:
        return [f"{end:g}" for end in schema.targets]
    return list(schema.classes) if schema.task is not None else None


def _counts(source: Source) -> dict[str, int] | None:
    """Records of each label; None for real targets."""
    words = source.schema.classes
    if source.schema.targets is not None:
        return None
    places = (-1.0, 1.0) if len(words) == 2 else range(len(words))
    return {word: int(np.sum(source.y == place)) for place, word in zip(places, words, strict=True)}


def _entry(rule: Rule) -> dict[str, Any]:
    words = [_one_hot(rule) if isinstance(rule, Categorical) else _number(rule)]
    if rule.missing == "indicator":
        words.append("one more where missing")
    elif rule.missing not in (None, "refuse"):
        words.append(f"{rule.missing!r} where missing")
    if rule.weight != 1.0:
        words.append(f"weight {rule.weight:g}")
    width = None if rule.open == "categories" else len(rule.names)
    return {"column": rule.column, "feature": rule.prefix, "encoding": ", ".join(words), "features": width}


def _raw_entry(rule: Rule) -> dict[str, Any]:
    """As ``_entry`` of a column whose encoding is measured, or made without its categories."""
    own = {} if (words := words_of_rule(rule)) is None else {"encoding": words}
    return _entry(rule) | own | {"features": len(names_of_rule(rule))}


def _one_hot(rule: Categorical) -> str:
    if rule.categories is None:
        return "one-hot, categories not declared: read from the rows"
    words = f"one-hot of {'groups ' if rule.groups else ''}{_few(list(dict.fromkeys(rule.groups or rule.categories)))}"
    return words + (", others share one" if rule.other else "")


def _number(rule: Numeric) -> str:
    if rule.scale == "bins":
        return f"one-hot of intervals from {_few([f'{edge:g}' for edge in rule.edges])}"
    if rule.scale == "none":
        return "number as it is"
    if rule.low is None:
        return f"{rule.scale}, bounds not declared: read from the rows"
    return f"{rule.scale}, clipped to {rule.low:.10g} to {rule.high:.10g}"


def _few(values: list[str]) -> str:
    more = f", ... ({len(values)})" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def words_of(facts: dict[str, Any]) -> Iterator[str]:
    """Lines above and below the table of columns."""
    public = "a public data set" if facts["public"] else "a file: its records are private unless --simulate is given"
    yield f"{facts['data']}: {facts['records']:,} records, {public}"
    label = facts["label"]
    if label["column"] is None and label["values"] is None:
        yield "label: none is named; --label NAME, or label in the schema"
    else:
        yield f"label {label['column'] or ''}: {_label_words(label)}".replace(" :", ":")
    if facts["left_out"]:
        yield f"left out: {', '.join(facts['left_out'])}"
    if facts.get("undeclared"):
        yield f"not declared: {', '.join(facts['undeclared'])}; add each to columns or drop"
    if facts.get("absent"):
        yield f"declared, but not in the file: {', '.join(facts['absent'])}"
    if facts["features"] is not None:
        intercept = ", with the intercept" if facts["intercept"] else ""
        yield f"features: {facts['features']}{intercept}; every row is scaled to norm 1"
    if facts["declared"] and facts["measured"]:
        yield "public: kinds are declared; noisy-gd, pp-admm, ipp-admm, dp-dsgd measure the rest, others refuse it"
    elif facts["declared"] and facts["may_measure"]:
        yield (
            "public: all of the encoding is declared, nothing is read from records; noisy-gd, pp-admm, ipp-admm and"
            " dp-dsgd measure the shape of numbers between bounds by a noisy sum, where noise does not drown it"
        )
    elif facts["declared"]:
        yield "public: all of the encoding is declared, nothing is read from records"
    else:
        yield (
            "public: part of the encoding is not declared, and a private run does not read it from records;"
            " `admmnet data draft` on a public sample writes a schema"
        )


def _label_words(label: dict[str, Any]) -> str:
    values, counts = label["values"], label.get("records")
    if values is None:
        return "its values are not declared, and must be -1 and +1, or 0 and 1"
    if label["real"]:
        return f"real, {values[0]} to {values[1]}"
    shares = {} if counts is None else {v: f" {n / max(sum(counts.values()), 1):.1%}" for v, n in counts.items()}
    signs = [" (-1)", " (+1)"] if len(values) == 2 else [""] * len(values)
    return ", ".join(f"{v}{sign}{shares.get(v, '')}" for v, sign in zip(values, signs, strict=True))
