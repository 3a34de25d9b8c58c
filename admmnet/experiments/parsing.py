"""What a person writes: methods, epsilons, seeds and the settings to try, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from admmnet.config.run_config import find_setting, foreign_names, known_settings, settings_of
from admmnet.errors import RequestError
from admmnet.methods import METHODS

Values = tuple[tuple[str, Any], ...]
"""Settings by name, in one order."""

REASONS = {
    "algorithm": "name the methods with --algorithms",
    "method": "write it behind the method's name, as in --algorithms pp-admm:published",
    "accountant": "write it behind the method, as in --algorithms pp-admm:published:proven",
    "epsilon": "name the budgets with --epsilons",
    "seed": "name the seeds with --seeds; a comparison is a simulation",
    **dict.fromkeys(
        ("account", "no_account"), "an account adds up runs that a person makes; a comparison is a simulation"
    ),
    "group_size": "its epsilons are a record's",
    "no_test": "it counts errors on test records",
    "private": "a comparison is a simulation: its figures depend on the records",
    "out": "name the comparison's folder with -o",
    **dict.fromkeys(  # how agents are run, which changes no vector
        (name for name, own in known_settings().items() if own.about.resume and name != "measure_every"),
        "every run is simulated in one process, which gives the same vectors",
    ),
    "resume": "the same call of compare goes on where it stopped",
    "budgets": "every agent has the epsilon of --epsilons and the delta of --delta",
}
"""Settings of a run that a comparison fills in itself, or cannot have, each with the reason."""


def tunable() -> set[str]:
    """Settings that may be tried: those that change neither the data, nor the problem, nor the promise."""
    return {name for name, own in known_settings().items() if own.about.tunable} | foreign_names()


@dataclass(frozen=True)
class Entry:
    """One method of the comparison; ``method`` and ``accountant`` as in ``RunConfig``."""

    algorithm: str
    method: str
    accountant: str

    @property
    def private(self) -> bool:
        """Whether it has an epsilon."""
        return METHODS[self.algorithm].private

    def __str__(self) -> str:
        """The shortest words that mean it, such as ``ipp-admm:published``."""
        if not self.private or (self.method, self.accountant) == ("proven", "proven"):
            return self.algorithm
        tail = [self.method] if self.accountant == self.method else [self.method, self.accountant]
        return ":".join([self.algorithm, *tail])


def listed(text: str) -> list[str]:
    """Parts between commas, stripped."""
    return [part.strip() for part in text.split(",")]


def parse_entry(text: str, flag: str = "--algorithms") -> Entry:
    """Return the entry that NAME[:METHOD[:ACCOUNTANT]] means; ``flag`` is what messages call it.

    RequestError if it is of another form or the name is unknown.
    """
    rest = re.findall(":(proven|published)(?=:|$)", text)
    name = text.removesuffix("".join(f":{form}" for form in rest))
    try:
        method = METHODS[name]
    except RequestError as error:
        known, _, form = name.partition(":")
        why = f"{form!r} must be proven or published" if known in METHODS else error
        error.args = (f"{flag} {text!r} is not allowed: {why}",)
        raise
    if len(rest) > 2:
        raise RequestError(f"{flag} {text!r} is not allowed: it must be NAME:METHOD:ACCOUNTANT at most")
    if not method.private:
        if rest not in ([], ["published"]):
            raise RequestError(f"{flag} {text}: {name} has no privacy, and so no such form: write {name}")
        return Entry(name, "published", "published")
    form = rest[0] if rest else "proven"
    return Entry(name, form, rest[1] if len(rest) == 2 else form)


Some = TypeVar("Some")


def named_once(name: str, values: Iterable[Some]) -> tuple[Some, ...]:
    """Return the values of a flag; RequestError if there is none, or one comes twice."""
    found: dict[Some, None] = {}
    for value in values:
        if value in found:
            raise RequestError(f"--{name} names {short(value)} twice: every one once")
        found[value] = None
    if not found:
        raise RequestError(f"--{name} names nothing: give at least one")
    return tuple(found)


def parse_epsilons(text: str) -> tuple[float, ...]:
    """Return the numbers of ``0.5,1,2``; their range is checked with the settings of the runs."""
    return tuple(float(find_setting("epsilon").parse(part)) for part in listed(text))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of ``A:B``, B excluded, or of ``0,3,5``; RequestError for anything else."""
    ends = text.split(":")
    seeds: Sequence[int] = ()
    with suppress(ValueError):
        seeds = range(*map(int, ends)) if len(ends) == 2 else [int(part) for part in listed(text)]
    if len(seeds) > MOST_SEEDS:
        raise RequestError(f"--seeds {text} names {len(seeds)} seeds, the most are {MOST_SEEDS}")
    if not seeds or min(seeds) < 0:
        raise RequestError(
            f"--seeds {text!r} is not allowed: it must be A:B (A to B-1) or a list such as 0,3,5, whole numbers from 0"
        )
    return tuple(seeds)


def parse_part(text: str) -> tuple[int, int]:
    """Return I and N of ``I/N``."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise RequestError(f"--part {text!r} is not allowed: it must be I/N, as in 3/40, I from 1 to N")
    return int(number), int(parts)


MOST_SEEDS = 100_000
"""Most seeds of a range, so that a slip of the keyboard does not fill the memory."""


def parse_tune(
    texts: Iterable[str], entries: Sequence[Entry], given: Mapping[str, Any]
) -> dict[Entry, tuple[Values, ...]]:
    """Return what is to be tried for each method: every combination of the values.

    ``texts`` are as ``eta=0.1:1,rounds=6:12`` or, for one method alone, ``ipp-admm:published.eta=0.1:1``, where the
    values take the place of those for all methods. A text with a setting that an earlier one has begins combinations of
    its own, which are tried besides. ``given`` are the settings fixed for all methods.
    """
    grids: list[dict[tuple[str, str], tuple[Any, ...]]] = [{}]
    for text in texts:
        found: dict[tuple[str, str], tuple[Any, ...]] = {}
        for part in listed(text):
            left, _, right = part.partition("=")
            target, _, name = left.strip().rpartition(".")
            name = name.replace("-", "_")
            values = _values(part, name, right)
            if (target, name) in found:
                raise RequestError(f"--tune {part}: {left.strip()} is given twice; put its values together")
            if not target and name in given:
                raise RequestError(f"--tune {part}: {name} is given by itself, too: leave one of them out")
            if target and not any(_means(target, entry) for entry in entries):
                compared = ", ".join(map(str, entries))
                raise RequestError(f"--tune {part}: {target} is not compared; there are {compared}")
            found[target, name] = values
        if found.keys() & grids[-1].keys():
            grids.append({})
        grids[-1] |= found
    tried = {entry: [values for grid in grids for values in _products(grid, entry, entries)] for entry in entries}
    return {entry: tuple(dict.fromkeys(filter(None, found))) or ((),) for entry, found in tried.items()}


def _products(
    grid: Mapping[tuple[str, str], tuple[Any, ...]], entry: Entry, entries: Sequence[Entry]
) -> Iterator[Values]:
    """Combinations of one grid for a method: its own values take the place of the common ones."""
    common = {name: values for (target, name), values in grid.items() if not target}
    own = {name: values for (target, name), values in grid.items() if target and _means(target, entry)}
    lists = having(common, entry, entries) | own
    for values in product(*lists.values()):
        yield tuple(zip(lists, values, strict=True))


def having(values: Mapping[str, Some], entry: Entry, entries: Sequence[Entry]) -> dict[str, Some]:
    """Common settings that a method has; those that no method has stay, to be refused with the reason."""
    known = {one.algorithm: settings_of(one.algorithm) for one in entries}
    return {
        name: value
        for name, value in values.items()
        if name in known[entry.algorithm] or not any(name in one for one in known.values())
    }


def _means(target: str, entry: Entry) -> bool:
    method = f"{entry.algorithm}:{entry.method}"
    return target in (entry.algorithm, method, f"{method}:{entry.accountant}")


def _values(part: str, name: str, text: str) -> tuple[Any, ...]:
    if name not in tunable():
        raise RequestError(
            f"--tune {part!r} is not allowed: it must be SETTING=VALUE:VALUE..., as in eta=0.1:1, or "
            f"METHOD.SETTING=...; settings: {', '.join(sorted(tunable()))}"
        )
    values = tuple(find_setting(name).parse(value.strip()) for value in text.split(":"))
    if len(set(values)) < len(values):
        raise RequestError(f"--tune {part}: a value comes twice")
    return values


def said(values: Values) -> str:
    """Settings as words, such as ``eta=0.1,rounds=6``."""
    return ",".join(f"{name}={short(value)}" for name, value in values)


def name_of(*words: object) -> str:
    """Name of a file or folder."""
    return re.sub(r"[^\w.+-]+", "-", " ".join(map(str, words)))


def short(value: Any) -> str:
    """Shortest text that reads back as the same value: 1.0 is 1."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
