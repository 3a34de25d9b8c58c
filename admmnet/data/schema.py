"""The public schema: how raw columns become features, fixed before any record is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from admmnet.data.table import PLAIN, Spelling, canonical
from admmnet.errors import RequestError

Range = tuple[float, float]
Task = Literal["binary", "classes", "real"]
"""What labels are: -1 and +1, classes 0..K-1 with K >= 3, or targets in [-1, 1]."""
Scale = Literal["linear", "centred", "log", "bins", "none"]
FEW_CLASSES = 20
"""Most label values that are taken for classes where nothing says so; numbers with more are real targets."""
SCALES: tuple[Scale, ...] = ("linear", "centred", "log", "bins", "none")


class Categorical(Struct, frozen=True):
    """One feature a category (or group of categories): `weight` where it holds, 0 elsewhere."""

    prefix: str  # start of the feature names
    column: str  # raw column it reads
    weight: float = 1.0  # size of the entry before rows are scaled to norm 1
    missing: str | None = None  # "refuse", "indicator", or its category; None: as any other text
    other: bool = False  # whether undeclared values share a last feature "other" instead of being refused
    categories: tuple[str, ...] | None = None  # the allowed values in order; None: read from the rows (pooled only)
    groups: tuple[str, ...] = ()  # group of each category; empty: every category stands for itself

    @property
    def open(self) -> str | None:
        """Keys that are not declared, but read from the rows; None if there are none."""
        return "categories" if self.categories is None else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features in order: categories or groups, the other values, and the missing ones."""
        values = [*dict.fromkeys(self.groups or self.categories or ()), *["other"] * self.other]
        return tuple(f"{self.prefix}={value}" for value in [*values, *["missing"] * (self.missing == "indicator")])


class Numeric(Struct, frozen=True):
    """Features of a number clipped to public bounds.

    Scales: (v-low)/(high-low); "centred", the same on [-1, 1]; log(1+v-low)/log(1+high-low); "bins", one feature
    an interval [edge, next edge), none below the first edge; "none", the value itself, which needs no bounds.
    """

    prefix: str  # as in `Categorical`
    column: str
    weight: float = 1.0
    missing: str | float | None = None  # "refuse" (so does None), "indicator", or what stands for it
    scale: Scale = "linear"
    low: float | None = None  # bounds; None: the smallest and largest of the rows (pooled only)
    high: float | None = None
    edges: tuple[float, ...] = ()  # increasing, the last interval is open above

    @property
    def open(self) -> str | None:
        """As of `Categorical`."""
        return "low and .high" if self.low is None and self.scale in ("linear", "centred", "log") else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features in order: the number or its intervals, and the missing ones."""
        ends = [*(f"{edge:g}" for edge in self.edges[1:]), "inf"]
        parts = [f"=[{a:g},{b})" for a, b in zip(self.edges, ends, strict=False)] or [""]
        return tuple(self.prefix + part for part in [*parts, *["=missing"] * (self.missing == "indicator")])


Rule = Categorical | Numeric


def measurable(rule: Rule) -> bool:
    """Whether bounds and shape of a column are measured: a number without another scale than the usual one."""
    return isinstance(rule, Numeric) and rule.scale == "linear"


class Schema(Struct, frozen=True):
    """What is declared about a source."""

    rules: tuple[Rule, ...] = ()  # features in order; empty for sources without declared columns
    label: str | None = None  # name of the label column
    labels: tuple[str, ...] | None = None  # negative and positive value, or those of three or more classes
    spelt: tuple[tuple[str, str], ...] = ()  # texts of labels, each with the label that it stands for
    features: int | None = None  # width of libsvm and npz rows
    drop: tuple[str, ...] = ()  # columns that are knowingly left out; "*" stands for all undeclared ones
    threshold: float | None = None  # makes two classes of a numeric label: above it is +1, all else -1
    leave_out: tuple[str, ...] = ()  # label values of csv records that are left out, such as "not asked"
    targets: Range | None = None  # public range of a real target, to which it is clipped; None for classes
    centre: float | None = None  # value of a real target that becomes 0; None for the middle of the range
    scales: tuple[float, ...] = ()  # largest absolute values of all features, or one for all, if declared
    separator: str | None = None  # of the cells of a text file; None: a tab of .tsv, else a comma
    header: bool | None = None  # whether line 1 names the columns; None: it must, and look like no record
    decimal: str = "."
    thousands: str = ""  # between groups of three digits
    measured: bool = False  # whether columns stay raw until their bounds and shapes are measured
    wanted: Task | None = None  # what --task asks for where labels, targets and threshold leave it open

    @property
    def spelling(self) -> Spelling:
        """How numbers are written."""
        return Spelling(self.decimal, self.thousands)

    @property
    def task(self) -> Task | None:
        """What the declaration makes of the labels; None where it leaves that open."""
        if self.targets is not None:
            return "real"
        if self.labels is not None:
            return "classes" if len(self.labels) > 2 else "binary"
        return "binary" if self.threshold is not None else self.wanted

    @property
    def classes(self) -> tuple[str, ...]:
        """Words for the labels -1 and +1, or 0..K-1."""
        if self.threshold is not None:
            return f"at most {self.threshold:g}", f"above {self.threshold:g}"
        return self.labels or ("-1", "+1")


def parse_schema(table: Mapping[str, Any] | None) -> Schema:
    """Read the table `[data.schema]` (docs/data.md); a RequestError names the key, its value and what is allowed."""
    parsed = _parsed(table or {}, _PARSERS, "data.schema")
    answers = sorted({"labels", "threshold", "targets"} & set(parsed))
    if len(answers) > 1:
        raise RequestError(f"data.schema gives {' and '.join(answers)}, which exclude each other: keep one")
    rules = [*parsed.pop("columns", ())]
    for kind, make in (("numeric", Numeric), ("categorical", Categorical)):
        rules += [make(name, name) for name in parsed.pop(kind, ())]
    if twice := next((rule.prefix for k, rule in enumerate(rules) if rule.prefix in {r.prefix for r in rules[:k]}), ""):
        raise RequestError(f"data.schema declares column {twice!r} twice: keep one declaration")
    if parsed.get("labels") and isinstance(parsed["labels"][0], tuple):
        parsed["spelt"], parsed["labels"] = parsed["labels"], tuple(dict.fromkeys(word for _, word in parsed["labels"]))
    schema = Schema(rules=tuple(rules), **parsed)
    if schema.decimal == schema.thousands:
        raise RequestError(f"data.schema.thousands and decimal must differ, got {schema.decimal!r} for both")
    return schema


def to_table(schema: Schema) -> dict[str, Any]:
    """Write a schema as the table that `parse_schema` reads back to an equal one; JSON and TOML hold it."""
    plain = {"decimal", "thousands"} if schema.spelling == PLAIN else set()
    columns = {rule.prefix: _entry(rule) for rule in schema.rules}
    table = _declared(schema, {"rules", "wanted", "measured", "spelt", *plain})
    if schema.spelt:
        table["labels"] = {word: [text for text, own in schema.spelt if own == word] for word in schema.labels or ()}
    return table | ({"columns": columns} if columns else {})


def _entry(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, Numeric):
        return {"kind": "numeric", **_declared(rule, {"prefix"})}
    groups: dict[str, list[str]] = {}
    for category, group in zip(rule.categories or (), rule.groups, strict=False):
        groups.setdefault(group, []).append(category)
    entry = _declared(rule, {"prefix", "groups", *(["categories"] if groups else [])})
    return {"kind": "categorical", **entry, **({"groups": groups} if groups else {})}


def said(rule: Rule) -> dict[str, Any]:
    """Entry of a rule, without what holds where nothing is said."""
    usual = {"column": rule.prefix, "other": False, "weight": 1.0, "scale": "linear"}
    return {key: value for key, value in _entry(rule).items() if key not in usual or value != usual[key]}


def _declared(value: Schema | Rule, without: set[str]) -> dict[str, Any]:
    """Fields that say something, tuples as lists."""
    given = {name: getattr(value, name) for name in value.__struct_fields__ if name not in without}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in given.items() if v not in (None, (), "")}


Parser = Callable[[Any, str], Any]


def _parsed(table: Mapping[str, Any], parsers: Mapping[str, Parser], place: str) -> dict[str, Any]:
    """Values of a table, of which each key has a parser."""
    given = {key: value for key, value in table.items() if value is not None}
    for key in given:
        if key not in parsers:
            raise RequestError(f"unknown key {place}.{key}; the keys are {', '.join(sorted(parsers))}")
    return {key: parsers[key](value, f"{place}.{key}") for key, value in given.items()}


def _rules(columns: Any, place: str) -> tuple[Rule, ...]:
    if not isinstance(columns, Mapping):
        raise RequestError(f"{place} must hold one table a column: [{place}.NAME]")
    return tuple(_rule(str(name), entry, f"{place}.{name}") for name, entry in columns.items())


def _rule(name: str, entry: Any, place: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise RequestError(f"{place} must be a table with kind = 'categorical' or 'numeric', got {entry!r}")
    kind = entry.get("kind")
    if kind not in _KINDS:
        raise RequestError(f"{place}.kind must be 'categorical' or 'numeric', got {kind!r}")
    given = {"column": name} | _parsed(entry, _KINDS[kind], place)
    del given["kind"]
    return (_categorical if kind == "categorical" else _numeric)(name, given, place)


def _categorical(name: str, given: dict[str, Any], place: str) -> Categorical:
    if "groups" in given:
        if "categories" in given:
            raise RequestError(f"{place}.groups must be a table group = [categories], given instead of categories")
        given["categories"], given["groups"] = zip(*given["groups"], strict=True)
    rule = Categorical(name, **given)
    if rule.missing not in (None, "refuse", "indicator", *(rule.categories or [rule.missing])):
        raise RequestError(
            f"{place}.missing must be 'indicator', 'refuse' or one of the categories, got {rule.missing!r}"
        )
    return rule


def _numeric(name: str, given: dict[str, Any], place: str) -> Numeric:
    rule = Numeric(name, **({"scale": "bins"} if "edges" in given else {}) | given)
    low, high, scale = rule.low, rule.high, rule.scale
    if (low is None) != (high is None):
        raise RequestError(f"{place} gives one of low and high: give both")
    if low is not None and high is not None and not low < high:
        raise RequestError(f"{place}: low must be below high, got low={low:g}, high={high:g}")
    if bool(rule.edges) != (scale == "bins"):
        raise RequestError(f"{place}: edges = [...] and scale = 'bins' go together")
    if scale in ("bins", "none") and low is not None:
        raise RequestError(f"{place}: scale {scale!r} takes no low and high")
    return rule


def _groups(groups: Any, place: str) -> tuple[tuple[str, str], ...]:
    """Every category with its group."""
    if not isinstance(groups, Mapping) or not groups:
        raise RequestError(f"{place} must be a table group = [categories], given instead of categories")
    pairs = tuple((c, str(g)) for g, members in groups.items() for c in _texts(members, f"{place}.{g}"))
    _distinct(tuple(c for c, _ in pairs), place)
    return pairs


def _stands(value: Any, place: str) -> str | float:
    """What stands for a missing number."""
    if isinstance(value, str) and value not in ("refuse", "indicator"):
        raise RequestError(f"{place} must be 'indicator', 'refuse' or a number, got {value!r}")
    return value if isinstance(value, str) else _number(value, place)


def _labels(values: Any, place: str) -> tuple[str, ...] | tuple[tuple[str, str], ...]:
    """Labels, or of a table label = [texts] every text with its label."""
    table = isinstance(values, Mapping)
    labels = _texts([*values] if table else values, place)
    if table and len(labels) > 1:
        spelt = _groups(values, place)
        own = {canonical(label): label for label in labels}
        if other := [text for text, label in spelt if own.setdefault(canonical(text), label) != label]:
            raise RequestError(f"{place}: {other[0]!r} stands for another label, too")
        return spelt
    if len(labels) < 2:
        raise RequestError(f"{place} must be [negative, positive], or three classes or more, got {list(labels)!r}")
    return labels


def _range(values: Any, place: str) -> Range:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise RequestError(f"{place} must be [lowest, highest], got {values!r}")
    low, high = (_number(value, place) for value in values)
    if not low < high:
        raise RequestError(f"{place}: the lowest must be below the highest, got {low:g} and {high:g}")
    return low, high


def _edges(values: Any, place: str) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise RequestError(f"{place} must be a list of numbers, got {values!r}")
    edges = tuple(_number(edge, place) for edge in values)
    if any(a >= b for a, b in pairwise(edges)):
        raise RequestError(f"{place} must increase, got {list(edges)}")
    return edges


def _scales(values: Any, place: str) -> tuple[float, ...]:
    return tuple(_above_0(value, place) for value in (values if isinstance(values, list | tuple) else [values]))


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RequestError(f"{place} must be a finite number, got {value!r}")
    return float(value)


def _above_0(value: Any, place: str) -> float:
    if (number := _number(value, place)) <= 0:
        raise RequestError(f"{place} must be above 0, got {number:g}")
    return number


def _one(kind: type, words: str, fits: Callable[[Any], bool] = lambda value: True) -> Parser:
    """Parser of a value of one type that fits."""

    def parse(value: Any, place: str) -> Any:
        if type(value) is not kind or not fits(value):
            raise RequestError(f"{place} must be {words}, got {value!r}")
        return value

    return parse


_name, _truth = _one(str, "a column name"), _one(bool, "true or false")
_mark = _one(str, "one mark, such as ',' or '.'", lambda mark: len(mark) == 1 and not (mark.isalnum() or mark in '+-"'))


def separator_of(value: Any, place: str) -> str:
    """Separator of a text file: one mark, or the word tab."""
    return "\t" if value in ("tab", "\t") else str(_mark(value, place))


def _texts(values: Any, place: str, empty: bool = False) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or (not values and not empty):
        raise RequestError(f"{place} must be a list of values, got {values!r}")
    texts = tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    _distinct(texts, place)
    return texts


def _distinct(texts: tuple[str, ...], place: str) -> None:
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise RequestError(f"{place} holds {twice!r} twice")


_COMMON: dict[str, Parser] = {"kind": lambda value, place: value, "column": _name, "weight": _above_0}
_KINDS: dict[str, dict[str, Parser]] = {
    "categorical": _COMMON
    | {"categories": _texts, "groups": _groups, "other": _truth, "missing": lambda v, place: _texts([v], place)[0]},
    "numeric": _COMMON
    | {
        **{"low": _number, "high": _number, "edges": _edges, "missing": _stands},
        "scale": _one(str, f"one of {', '.join(SCALES)}", SCALES.__contains__),
    },
}
_PARSERS: dict[str, Parser] = {
    "label": _name,
    "labels": _labels,
    "features": _one(int, "a whole number, 1 or more", lambda width: width >= 1),
    "columns": _rules,
    **dict.fromkeys(("drop", "leave_out", "numeric", "categorical"), partial(_texts, empty=True)),
    **dict.fromkeys(("threshold", "centre"), _number),
    "targets": _range,
    "scales": _scales,
    "separator": separator_of,
    "header": _truth,
    "decimal": _mark,
    "thousands": lambda value, place: _mark(value, place) if value else "",
}
