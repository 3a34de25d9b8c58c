"""The public schema: how raw columns become features, fixed before any record is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal

from admmnet.data.values import PLAIN, Spelling
from admmnet.errors import RequestError

Range = tuple[float, float]
Task = Literal["binary", "classes", "real"]
"""What labels are: -1 and +1, classes 0..K-1 with K >= 3, or targets in [-1, 1]."""
Scale = Literal["linear", "centred", "log", "bins", "none"]
SCALES: tuple[Scale, ...] = ("linear", "centred", "log", "bins", "none")
_UNWRITTEN = {"rules", "wanted"}
_COMMON = {"kind", "column", "weight", "missing"}
_KEYS = {
    "categorical": _COMMON | {"categories", "groups", "other"},
    "numeric": _COMMON | {"low", "high", "scale", "edges"},
}


@dataclass(frozen=True)
class Categorical:
    """One feature a category (or group of categories): `weight` where it holds, 0 elsewhere."""

    prefix: str  # start of the feature names
    column: str  # raw column it reads
    categories: tuple[str, ...] | None  # the allowed values in order; None: read from the rows (pooled only)
    groups: tuple[str, ...] = ()  # group of each category; empty: every category stands for itself
    other: bool = False  # whether undeclared values share a last feature "other" instead of being refused
    weight: float = 1.0  # size of the entry before rows are scaled to norm 1
    missing: str | None = None  # "refuse", "indicator", or its category; None: as any other text


@dataclass(frozen=True)
class Numeric:
    """Features of a number clipped to public bounds.

    Scales: (v-low)/(high-low); "centred", the same on [-1, 1]; log(1+v-low)/log(1+high-low); "bins", one feature
    an interval [edge, next edge), none below the first edge; "none", the value itself, which needs no bounds.
    """

    prefix: str  # as in `Categorical`
    column: str
    low: float | None  # bounds; None: the smallest and largest of the rows (pooled only)
    high: float | None
    scale: Scale = "linear"
    edges: tuple[float, ...] = ()  # increasing, the last interval is open above
    weight: float = 1.0
    missing: str | float | None = None  # "refuse" (so does None), "indicator", or what stands for it


Rule = Categorical | Numeric


@dataclass(frozen=True)
class Schema:
    """What is declared about a source."""

    rules: tuple[Rule, ...] = ()  # features in order; empty for sources without declared columns
    label: str | None = None  # name of the label column
    labels: tuple[str, ...] | None = None  # negative and positive value, or those of three or more classes
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
    given = {key: value for key, value in (table or {}).items() if value is not None}
    _known(given, set(_PARSERS), "data.schema")
    answers = sorted({"labels", "threshold", "targets"} & set(given))
    if len(answers) > 1:
        raise RequestError(f"data.schema gives {' and '.join(answers)}, which exclude each other: keep one")
    parsed = {key: _PARSERS[key](value, f"data.schema.{key}") for key, value in given.items()}
    marks = [parsed.get("decimal", "."), parsed.get("thousands")]
    if marks[0] == marks[1]:
        raise RequestError(f"data.schema.thousands and decimal must differ, got {marks[0]!r} for both")
    return Schema(rules=parsed.pop("columns", ()), **parsed)


def _rules(columns: Any, place: str) -> tuple[Rule, ...]:
    if not isinstance(columns, Mapping):
        raise RequestError(f"{place} must hold one table a column: [{place}.NAME]")
    return tuple(_rule(str(name), entry) for name, entry in columns.items())


def _column(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise RequestError(f"{place} must be a column name, got {name!r}")
    return name


def _width(features: Any, place: str) -> int:
    if not isinstance(features, int) or isinstance(features, bool) or features < 1:
        raise RequestError(f"{place} must be a whole number, 1 or more, got {features!r}")
    return features


def _labels(values: Any, place: str) -> tuple[str, ...]:
    labels = _texts(values, place)
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


def _scales(values: Any, place: str) -> tuple[float, ...]:
    given = values if isinstance(values, list | tuple) else [values]
    scales = tuple(_number(value, place) for value in given)
    if any(scale <= 0 for scale in scales):
        raise RequestError(f"{place} must be above 0, got {min(scales):g}")
    return scales


def to_table(schema: Schema) -> dict[str, Any]:
    """Write a schema as the table that `parse_schema` reads back to an equal one; JSON and TOML hold it."""
    table = {field.name: getattr(schema, field.name) for field in fields(schema) if field.name not in _UNWRITTEN}
    table["columns"] = {rule.prefix: _entry(rule) for rule in schema.rules}
    if schema.spelling == PLAIN:
        del table["decimal"], table["thousands"]
    declared = {key: value for key, value in table.items() if value not in (None, (), {}, "")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in declared.items()}


def _entry(rule: Rule) -> dict[str, Any]:
    entry: dict[str, Any] = {"column": rule.column, "weight": rule.weight}
    if rule.missing is not None:
        entry["missing"] = rule.missing
    if isinstance(rule, Numeric):
        bounds = {} if rule.low is None else {"low": rule.low, "high": rule.high}
        edges = {"edges": list(rule.edges)} if rule.scale == "bins" else {}
        return {"kind": "numeric", **entry, "scale": rule.scale, **bounds, **edges}
    entry = {"kind": "categorical", **entry, "other": rule.other}
    if rule.categories is None:
        return entry
    if not rule.groups:
        return {**entry, "categories": list(rule.categories)}
    groups: dict[str, list[str]] = {group: [] for group in rule.groups}
    for category, group in zip(rule.categories, rule.groups, strict=True):
        groups[group].append(category)
    return {**entry, "groups": groups}


def _rule(name: str, entry: Any) -> Rule:
    place = f"data.schema.columns.{name}"
    if not isinstance(entry, Mapping):
        raise RequestError(f"{place} must be a table with kind = 'categorical' or 'numeric', got {entry!r}")
    kind = entry.get("kind")
    if kind not in _KEYS:
        raise RequestError(f"{place}.kind must be 'categorical' or 'numeric', got {kind!r}")
    _known(entry, _KEYS[kind], place)
    column = _column(entry.get("column", name), f"{place}.column")
    weight = _number(entry.get("weight", 1.0), f"{place}.weight")
    if weight <= 0:
        raise RequestError(f"{place}.weight must be above 0, got {weight:g}")
    if kind == "categorical":
        return _categorical(name, column, weight, entry, place)
    return _numeric(name, column, weight, entry, place)


def _categorical(name: str, column: str, weight: float, entry: Mapping[str, Any], place: str) -> Categorical:
    other = entry.get("other", False)
    if not isinstance(other, bool):
        raise RequestError(f"{place}.other must be true or false, got {other!r}")
    groups, missing = entry.get("groups"), entry.get("missing")
    if groups is None:
        categories = _texts(entry["categories"], f"{place}.categories") if "categories" in entry else None
        return Categorical(name, column, categories, (), other, weight, _stands(missing, categories, place))
    if "categories" in entry or not isinstance(groups, Mapping) or not groups:
        raise RequestError(f"{place}.groups must be a table group = [categories], given instead of categories")
    pairs = [(c, str(g)) for g, members in groups.items() for c in _texts(members, f"{place}.groups.{g}")]
    declared = tuple(c for c, _ in pairs)
    _distinct(declared, f"{place}.groups")
    of = tuple(g for _, g in pairs)
    return Categorical(name, column, declared, of, other, weight, _stands(missing, declared, place))


def _stands(missing: Any, categories: tuple[str, ...] | None, place: str) -> str | None:
    """What stands for a missing category."""
    if missing is None:
        return None
    (text,) = _texts([missing], f"{place}.missing")
    if text in ("refuse", "indicator") or categories is None or text in categories:
        return text
    raise RequestError(f"{place}.missing must be 'indicator', 'refuse' or one of the categories, got {missing!r}")


def _numeric(name: str, column: str, weight: float, entry: Mapping[str, Any], place: str) -> Numeric:
    scale = entry.get("scale", "bins" if "edges" in entry else "linear")
    if scale not in SCALES:
        raise RequestError(f"{place}.scale must be one of {', '.join(SCALES)}, got {scale!r}")
    low, high = (_number(entry[key], f"{place}.{key}") if key in entry else None for key in ("low", "high"))
    if (low is None) != (high is None):
        raise RequestError(f"{place} gives one of low and high: give both")
    if low is not None and high is not None and not low < high:
        raise RequestError(f"{place}: low must be below high, got low={low:g}, high={high:g}")
    if ("edges" in entry) != (scale == "bins"):
        raise RequestError(f"{place}: edges = [...] and scale = 'bins' go together")
    if scale in ("bins", "none") and low is not None:
        raise RequestError(f"{place}: scale {scale!r} takes no low and high")
    edges: tuple[float, ...] = ()
    if scale == "bins":
        given = entry["edges"]
        if not isinstance(given, list | tuple) or not given:
            raise RequestError(f"{place}.edges must be a list of numbers, got {given!r}")
        edges = tuple(_number(edge, f"{place}.edges") for edge in given)
        if any(a >= b for a, b in pairwise(edges)):
            raise RequestError(f"{place}.edges must increase, got {list(edges)}")
    missing = entry.get("missing")
    if missing not in (None, "refuse", "indicator"):
        if isinstance(missing, str):
            raise RequestError(f"{place}.missing must be 'indicator', 'refuse' or a number, got {missing!r}")
        missing = _number(missing, f"{place}.missing")
    return Numeric(name, column, low, high, scale, edges, weight, missing)


def _known(table: Mapping[str, Any], keys: set[str], place: str) -> None:
    for key in table:
        if key not in keys:
            raise RequestError(f"unknown key {place}.{key}; the keys are {', '.join(sorted(keys))}")


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RequestError(f"{place} must be a finite number, got {value!r}")
    return float(value)


def _truth(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"{place} must be true or false, got {value!r}")
    return value


def _mark(value: Any, place: str) -> str:
    if not isinstance(value, str) or len(value) != 1 or value.isalnum() or value in '+-"':
        raise RequestError(f"{place} must be one mark, such as ',' or '.', got {value!r}")
    return value


def separator_of(value: Any, place: str) -> str:
    """Separator of a text file: one mark, or the word tab."""
    return "\t" if value in ("tab", "\t") else _mark(value, place)


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


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "label": _column,
    "labels": _labels,
    "features": _width,
    "columns": _rules,
    "drop": lambda values, place: _texts(values, place, empty=True),
    "threshold": _number,
    "leave_out": lambda values, place: _texts(values, place, empty=True),
    "targets": _range,
    "centre": _number,
    "scales": _scales,
    "separator": separator_of,
    "header": _truth,
    "decimal": _mark,
    "thousands": lambda value, place: _mark(value, place) if value else "",
}
