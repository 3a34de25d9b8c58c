"""The public schema: how raw columns become features, fixed before any record is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Annotated, Any, Literal, TypeVar, get_args

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from admmnet.data.table import PLAIN, Spelling, canonical
from admmnet.errors import RequestError
from admmnet.forms import decode, encode

Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Above0 = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
Mark = Annotated[str, Meta(pattern=r'^(_|[^\w+"-])\Z')]
Task = Literal["binary", "classes", "real"]
"""What labels are: -1 and +1, classes 0..K-1 with K >= 3, or targets in [-1, 1]."""
Scale = Literal["linear", "centred", "log", "bins", "none"]
FEW_CLASSES = 20
"""Most label values that are taken for classes where nothing says so; numbers with more are real targets."""


class Categorical(Struct, frozen=True, tag_field="kind", tag="categorical"):
    """One feature a category (or group of categories): `weight` where it holds, 0 elsewhere."""

    prefix: str  # start of the feature names
    column: str  # raw column it reads
    weight: Above0 = 1.0  # size of the entry before rows are scaled to norm 1
    missing: str | None = None  # "refuse", "indicator", or its category; None: as any other text
    other: bool = False  # whether undeclared values share a last feature "other" instead of being refused
    categories: tuple[str, ...] | None = None  # the allowed values in order; None: read from the rows (pooled only)
    groups: Mapping[str, tuple[str, ...]] = {}  # categories of each group, in place of these

    @property
    def open(self) -> str | None:
        """Keys that are not declared, but read from the rows; None if there are none."""
        return None if self.categories is not None or self.groups else "categories"

    @property
    def places(self) -> dict[str, int]:
        """Place of each category among the features."""
        members = self.groups.values() or ((category,) for category in self.categories or ())
        return {category: k for k, own in enumerate(members) for category in own}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features in order: categories or groups, the other values, and the missing ones."""
        values = [*(self.groups or self.categories or ()), *["other"] * self.other]
        return tuple(f"{self.prefix}={value}" for value in [*values, *["missing"] * (self.missing == "indicator")])


class Numeric(Struct, frozen=True, tag_field="kind", tag="numeric"):
    """Features of a number clipped to public bounds.

    Scales: (v-low)/(high-low); "centred", the same on [-1, 1]; log(1+v-low)/log(1+high-low); "bins", one feature
    an interval [edge, next edge), none below the first edge; "none", the value itself, which needs no bounds.
    """

    prefix: str  # as in `Categorical`
    column: str
    weight: Above0 = 1.0
    missing: Literal["refuse", "indicator"] | Number | None = None  # None: "refuse"; a number: it stands for it
    scale: Scale = "linear"
    low: Number | None = None  # bounds; None: the smallest and largest of the rows (pooled only)
    high: Number | None = None
    edges: Annotated[tuple[Number, ...], Meta(min_length=1)] = ()  # increasing, the last interval is open above

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
    spelt: Mapping[str, tuple[str, ...]] = {}  # of each label the texts that stand for it, if these are said
    features: Annotated[int, Meta(ge=1)] | None = None  # width of libsvm and npz rows
    drop: tuple[str, ...] = ()  # columns that are knowingly left out; "*" stands for all undeclared ones
    threshold: Number | None = None  # makes two classes of a numeric label: above it is +1, all else -1
    leave_out: tuple[str, ...] = ()  # label values of csv records that are left out, such as "not asked"
    targets: tuple[Number, Number] | None = None  # public range that real targets are clipped to; None for classes
    centre: Number | None = None  # value of a real target that becomes 0; None for the middle of the range
    scales: tuple[Above0, ...] = ()  # largest absolute values of all features, or one for all, if declared
    separator: Mark | None = None  # of the cells of a text file; None: a tab of .tsv, else a comma
    header: bool | None = None  # whether line 1 names the columns; None: it must, and look like no record
    decimal: Mark = "."
    thousands: Annotated[str, Meta(pattern=r'^(_|[^\w+"-])?\Z')] = ""  # between groups of three digits
    measured: bool = False  # whether columns stay raw until their bounds and shapes are measured
    wanted: Task | None = None  # what --task asks for where labels, targets and threshold leave it open
    positive: str | None = None  # label value that is +1 whatever the order of the labels

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


T = TypeVar("T", bound=Struct)
_BESIDE = {"rules", "spelt", "measured", "wanted", "positive"}
"""Fields of a schema that are no keys of the table."""
_LISTS = {"labels": 1, "categories": 1, "drop": 0, "leave_out": 0, "numeric": 0, "categorical": 0}
"""Keys of lists of values, each of which becomes its text, and how many there must be."""
_WORDS = {
    **dict.fromkeys(("label", "column"), "a column name"),
    **dict.fromkeys(("threshold", "centre", "low", "high"), "a finite number"),
    **dict.fromkeys(("header", "other"), "true or false"),
    **dict.fromkeys(("separator", "decimal", "thousands"), "one mark, such as ',' or '.'"),
    **dict.fromkeys(("weight", "scales"), "above 0, and finite"),
    "features": "a whole number, 1 or more",
    "targets": "[lowest, highest], finite numbers",
    "edges": "a list of numbers, all finite",
    "missing": "'indicator', 'refuse' or a finite number",
    "scale": f"one of {', '.join(get_args(Scale))}",
}
"""What the value of a key must be."""


def parse_schema(table: Mapping[str, Any] | None) -> Schema:
    """Read the table `[data.schema]` (docs/data.md); a RequestError names the key, its value and what is allowed."""
    spelt, own = dict[str, tuple[str, ...]](), dict[str, str]()
    if isinstance(labels := (table or {}).get("labels"), Mapping) and labels:
        spelt = _tables(labels, "data.schema.labels")
        own |= {canonical(label): label for label in spelt}
        pairs = ((text, label) for label, texts in spelt.items() for text in texts)
        if other := [text for text, label in pairs if own.setdefault(canonical(text), label) != label]:
            raise RequestError(f"data.schema.labels: {other[0]!r} stands for another label, too")
    given = _texted({**(table or {}), "labels": [*spelt] or labels}, "data.schema")
    answers = sorted({"labels", "threshold", "targets"} & given.keys())
    if len(answers) > 1:
        raise RequestError(f"data.schema gives {' and '.join(answers)}, which exclude each other: keep one")
    place, columns = "data.schema.columns", given.pop("columns", {})
    if not isinstance(columns, Mapping):
        raise RequestError(f"{place} must hold one table a column: [{place}.NAME]")
    rules = [_rule(str(name), entry, f"{place}.{name}") for name, entry in columns.items()]
    for key, make in (("numeric", Numeric), ("categorical", Categorical)):
        rules += [make(name, name) for name in given.pop(key, ())]
    if twice := next((rule.prefix for k, rule in enumerate(rules) if rule.prefix in {r.prefix for r in rules[:k]}), ""):
        raise RequestError(f"data.schema declares column {twice!r} twice: keep one declaration")
    if "separator" in given:
        given["separator"] = separator_of(given["separator"], "data.schema.separator")
    if isinstance(given.get("scales"), int | float):
        given["scales"] = [given["scales"]]
    schema = replace(_made(Schema, given, "data.schema"), rules=tuple(rules), spelt=spelt)
    if schema.labels is not None and len(schema.labels) < 2:
        words = "must be [negative, positive], or three classes or more"
        raise RequestError(f"data.schema.labels {words}, got {list(schema.labels)!r}")
    if schema.targets is not None and not schema.targets[0] < schema.targets[1]:
        low, high = schema.targets
        raise RequestError(f"data.schema.targets: the lowest must be below the highest, got {low:g} and {high:g}")
    if schema.decimal == schema.thousands:
        raise RequestError(f"data.schema.thousands and decimal must differ, got {schema.decimal!r} for both")
    return schema


def to_table(schema: Schema) -> dict[str, Any]:
    """Write a schema as the table that `parse_schema` reads back to an equal one; JSON and TOML hold it."""
    plain = {"decimal", "thousands"} if schema.spelling == PLAIN else set()
    columns = {rule.prefix: _declared(rule, {"prefix"}) for rule in schema.rules}
    table = _declared(schema, _BESIDE | plain)
    if schema.spelt:
        table["labels"] = {word: [*schema.spelt[word]] for word in schema.labels or ()}
    return table | ({"columns": columns} if columns else {})


def said(rule: Rule) -> dict[str, Any]:
    """Entry of a rule, without what holds where nothing is said."""
    usual = {"column": rule.prefix, "other": False, "weight": 1.0, "scale": "linear"}
    return {key: value for key, value in _declared(rule, {"prefix"}).items() if usual.get(key, ()) != value}


def _declared(value: Schema | Rule, without: set[str]) -> dict[str, Any]:
    """Fields that say something, and the kind of a rule."""
    given = decode(dict[str, Any], encode(value))
    return {key: own for key, own in given.items() if key not in without and own not in (None, [], "", {})}


def _plain(value: Any) -> Any:
    """Value whose floats are Python's own: those of numpy are instances of it that msgspec does not take."""
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return float(value) if isinstance(value, float) else value


def _made(kind: type[T], given: Mapping[str, Any], place: str, **beside: str) -> T:
    """Make a schema, or a rule, of the values of a table; ``beside`` are fields that no table has."""
    own = set(kind.__struct_fields__) - _BESIDE - beside.keys()
    if unknown := [key for key in given if key not in own]:
        keys = {*own, *(["kind"] if beside else ["columns", "numeric", "categorical"])}
        raise RequestError(f"unknown key {place}.{unknown[0]}; the keys are {', '.join(sorted(keys))}")
    try:
        return convert({**_plain(given), **beside}, kind)
    except ValidationError as error:
        key = re.findall(r"`\$\.(\w+)", str(error))[0]
        raise RequestError(f"{place}.{key} must be {_WORDS[key]}, got {given[key]!r}") from None


def _rule(name: str, entry: Any, place: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise RequestError(f"{place} must be a table with kind = 'categorical' or 'numeric', got {entry!r}")
    given = {"column": name} | _texted(entry, place)
    kind = given.pop("kind", None)
    if kind == "categorical":
        return _categorical(name, given, place)
    if kind != "numeric":
        raise RequestError(f"{place}.kind must be 'categorical' or 'numeric', got {kind!r}")
    rule = _made(Numeric, ({"scale": "bins"} if "edges" in given else {}) | given, place, prefix=name)
    low, high, scale = rule.low, rule.high, rule.scale
    if (low is None) != (high is None):
        raise RequestError(f"{place} gives one of low and high: give both")
    if low is not None and high is not None and not low < high:
        raise RequestError(f"{place}: low must be below high, got low={low:g}, high={high:g}")
    if any(a >= b for a, b in pairwise(rule.edges)):
        raise RequestError(f"{place}.edges must increase, got {list(rule.edges)}")
    if bool(rule.edges) != (scale == "bins"):
        raise RequestError(f"{place}: edges = [...] and scale = 'bins' go together")
    if scale in ("bins", "none") and low is not None:
        raise RequestError(f"{place}: scale {scale!r} takes no low and high")
    return rule


def _categorical(name: str, given: dict[str, Any], place: str) -> Categorical:
    if "groups" in given:
        if "categories" in given:
            raise RequestError(f"{place}.groups must be a table group = [categories], given instead of categories")
        given["groups"] = _tables(given["groups"], f"{place}.groups")
    if "missing" in given:
        (given["missing"],) = _texts([given["missing"]], place)
    rule = _made(Categorical, given, place, prefix=name)
    if rule.missing not in (None, "refuse", "indicator") and rule.missing not in (rule.places or [rule.missing]):
        words = "must be 'indicator', 'refuse' or one of the categories"
        raise RequestError(f"{place}.missing {words}, got {rule.missing!r}")
    return rule


def separator_of(value: Any, place: str) -> str:
    """Separator of a text file: one mark, or the word tab."""
    try:
        return "\t" if value == "tab" else convert(value, Mark)
    except ValidationError:
        raise RequestError(f"{place} must be {_WORDS['separator']}, got {value!r}") from None


def _texted(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Values that a table says, those of lists of texts as texts."""
    given = {key: value for key, value in table.items() if value is not None}
    return given | {key: _texts(given[key], f"{place}.{key}", _LISTS[key]) for key in _LISTS.keys() & given.keys()}


def _tables(values: Any, place: str) -> dict[str, tuple[str, ...]]:
    """A table of lists of texts, which hold none twice."""
    if not isinstance(values, Mapping) or not values:
        raise RequestError(f"{place} must be a table group = [categories], given instead of categories")
    tables = {str(name): _texts(members, f"{place}.{name}") for name, members in values.items()}
    _texts([*chain.from_iterable(tables.values())], place)
    return tables


def _texts(values: Any, place: str, least: int = 1) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or len(values) < least:
        raise RequestError(f"{place} must be a list of values, got {values!r}")
    texts = tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise RequestError(f"{place} holds {twice!r} twice")
    return texts
