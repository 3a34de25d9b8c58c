"""A csv file written anew as its schema accepts it: a few rules change texts, and each change is told."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
from msgspec import structs

from admmnet.data.check import Found, check_table
from admmnet.data.columns import RawTable
from admmnet.data.labels import canonical
from admmnet.data.readers.delimited import Cells, Form, read_cells, table_of, usual_separator
from admmnet.data.schema import Categorical, Numeric, Schema, parse_schema
from admmnet.data.settings import DataSettings
from admmnet.data.source import label_of, with_columns
from admmnet.data.sources import declared, kinds_alone, validate_one
from admmnet.data.values import GROUPS, LIMIT, PLAIN, Spelling, is_missing, tight
from admmnet.errors import RequestError

BLANKS, BOUND, POINT = "stray blanks taken out", "the limit taken for the number", "a decimal comma made a point"
UNSURE = "may have a thousands point, as others of the column have decimal commas; write it without, or with a comma"
FORMS = re.compile(r"\.(csv|tsv)(\.gz)?$")
_DECIMAL = re.compile(r"[-+]?(\d*|\d{1,3}(\.\d{3})+),\d+")
Change = Callable[[str], tuple[str, tuple[str, ...]]]


@dataclass
class Cleaned:
    """What became of a file, for its owner: all of it quotes records."""

    changed: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    """Changes of each rule and column."""
    unlabelled: list[str] = field(default_factory=list)  # places of records that have no label, which are left out
    new: str | None = None  # the label column that the file lacks: it has new rows
    faults: tuple[str, ...] = ()  # that no rule mends
    count: int = 0  # of all of them
    bad: int = 0  # records that have some, which are left out
    rows: int = 0  # records that were written; 0: nothing was

    @property
    def said(self) -> bool:
        """Whether anything was changed, left out, or is a fault."""
        return bool(self.changed or self.unlabelled or self.count)


class _Sieve(RawTable, frozen=True):
    """A table that keeps the rows that are refused."""

    bad: set[int] = msgspec.field(default_factory=set)

    def refuse(self, name: str, bad: Callable[[str], str | None]) -> None:
        """As of any table."""
        column = self.column(name)
        levels = {code for code, text in enumerate(column.levels) if bad(text) is not None}
        self.bad.update(row for row, code in enumerate(column.codes.tolist()) if code in levels)
        super().refuse(name, bad)


def clean_file(settings: DataSettings, draft: Path, out: Path) -> Cleaned:
    """Write the records of a csv file that its schema accepts to `draft`, and say what was changed.

    Records without a label, and those with faults that no rule mends, are left out. The name of `out` tells
    the separator. A RequestError says that the file cannot be read at all, or that the settings are wrong.
    """
    validate_one(settings)
    if not FORMS.search(settings.data):
        raise RequestError(f"{settings.data}: `admmnet data clean` is for .csv and .tsv files: export it as one")
    if kinds_alone(settings):
        settings = replace(settings, encode="private")
    schema, path, found, told = declared(settings), Path(settings.data), Found(), Cleaned()
    form = Form(schema.separator or usual_separator(path), schema.header, schema.spelling)
    cells = read_cells(path, found.keep, form)
    told.bad = found.count  # lines with too few cells, or too many
    label = label_of(table_of(cells, form, settings.data), schema)
    told.new = None if label in cells.names else label
    cells = cells if told.new else _labelled(cells, schema, label, told)
    cells = _changed(cells, with_columns(schema, table_of(cells, form, settings.data)), label, told, found)
    schema = structs.replace(schema, leave_out=())
    sieve = _Sieve(*structs.astuple(table_of(cells, form, settings.data)))
    new = told.new is not None
    check_table(found, sieve, schema, settings.positive, new=new)
    told.bad += len(sieve.bad)
    cells = cells.without(sieve.bad)
    if found.count and cells.texts:  # what is wrong with the table, and not with records, is wrong still
        left = Found()
        check_table(left, table_of(cells, form, settings.data), schema, settings.positive, new=new)
        found, cells = (left, cells.without(range(cells.rows))) if left.count else (found, cells)
    told.faults, told.count, told.rows = tuple(found.faults), found.count, cells.rows
    if told.rows:
        own = parse_schema(settings.schema)
        with draft.open("w", encoding="utf-8", newline="") as file:
            writer = partial(csv.writer, file, delimiter=own.separator or usual_separator(out), lineterminator="\n")
            usual, quoted = writer(), writer(quoting=csv.QUOTE_ALL)
            for record in ([cells.names] if own.header is not False else [], cells.records()):
                for texts in record:  # csv leaves a carriage return bare
                    (quoted if any("\r" in text for text in texts) else usual).writerow(texts)
    return told


def _changed(cells: Cells, schema: Schema, label: str, told: Cleaned, found: Found) -> Cells:
    """Cells by the rules; those of columns that the schema drops stay as they are."""
    texts, unsure = list(cells.texts), list[tuple[int, str]]()
    numbers = {rule.column for rule in schema.rules if isinstance(rule, Numeric)}
    if schema.task == "real" or schema.threshold is not None:
        numbers.add(label)
    words = {rule.column: rule.categories or () for rule in schema.rules if isinstance(rule, Categorical)}
    words.setdefault(label, schema.labels or ())
    for k, name in enumerate(cells.names):
        own = texts[k :: len(cells.names)]
        if name in numbers:
            change = _numbers(own, schema.spelling)
        elif name in words:
            change = _words(words[name])
        else:
            continue
        made = {text: change(text) for text in set(own)}
        for row, text in enumerate(own):
            new, rules = made[text]
            if UNSURE in rules:
                unsure.append((row, f"{cells.where(row)}, column {name!r}: {text!r} {UNSURE}"))
                continue
            for rule in rules:
                told.changed[rule][name].append(f"{cells.where(row).rpartition(', ')[2]}: {text!r} -> {new!r}")
        texts[k :: len(cells.names)] = [made[text][0] for text in own]
    found.keep(fault for _, fault in unsure)
    gone = {row for row, _ in unsure}
    told.bad += len(gone)
    return cells._replace(texts=texts).without(gone)


def _numbers(texts: Sequence[str], spelling: Spelling) -> Change:
    """What the rules make of the texts of a column of numbers: a number, or what they were without blanks around."""
    bare = {LIMIT.sub("", tight(text.strip())) for text in set(texts)}
    clear = any(_DECIMAL.fullmatch(text) and not GROUPS.fullmatch(text) for text in bare)
    points = clear and spelling == PLAIN

    def change(text: str) -> tuple[str, tuple[str, ...]]:
        bare = text.strip()
        narrow = tight(bare)
        number = LIMIT.sub("", narrow)
        plain = number
        if points and "." in number and GROUPS.fullmatch(number):
            return text, (UNSURE,)
        if points and _DECIMAL.fullmatch(number):
            plain = number.replace(".", "").replace(",", ".")
        if spelling.finite(bare) is not None or is_missing(bare) or spelling.finite(plain) is None:
            return bare, (BLANKS,) if bare != text else ()
        steps = ((BLANKS, text, narrow), (BOUND, narrow, number), (POINT, number, plain))
        return plain, tuple(rule for rule, before, after in steps if before != after)

    return change


def _words(known: Sequence[str]) -> Change:
    """What the rules make of a text: the declared one that differs in its blanks alone, or no blanks around it."""

    def change(text: str) -> tuple[str, tuple[str, ...]]:
        bare, narrow = text.strip(), " ".join(text.split())
        new = narrow if narrow in known and bare not in known else bare
        return new, (BLANKS,) if new != text else ()

    return change


def _labelled(cells: Cells, schema: Schema, label: str, told: Cleaned) -> Cells:
    """Cells of the records that have a label, and not one of ``leave_out``."""
    known, out = ({canonical(text) for text in texts or ()} for texts in (schema.labels, schema.leave_out))
    texts = [canonical(text) for text in cells.texts[cells.names.index(label) :: len(cells.names)]]
    gone = [row for row, text in enumerate(texts) if text in out or (is_missing(text) and text not in known)]
    told.unlabelled = [cells.where(row).rpartition(", ")[2] for row in gone]
    return cells.without(set(gone))
