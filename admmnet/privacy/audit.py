"""Check a ledger from its bytes alone: chain, canonical form, every cost, every total, the budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admmnet.errors import AdmmnetError, CheckFailed
from admmnet.privacy.budget import SLACK, Totals
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import Event, from_parameters
from admmnet.privacy.ledger import Header, digest, encode, event_line, total_line

TOLERANCE = 1e-9
"""Relative difference allowed between a recorded cost and its recomputation on another machine."""
HEADER_KEYS = frozenset(Header(0, (), 1, None, None, "", "", "", "", "", "").line())


@dataclass(frozen=True)
class Account:
    """A ledger read back.

    Attributes
    ----------
    header : dict
        First line.
    events : tuple of (int, Event, dict)
        Round, event and the line it stands in.
    totals : Totals
        Recomputed from the events' parameters.
    finished : bool
        Whether the end line is there.
    """

    header: dict[str, Any]
    events: tuple[tuple[int, Event, dict[str, Any]], ...]
    totals: Totals
    finished: bool

    @property
    def delta(self) -> float | None:
        """Return the delta of the budget, None for methods without privacy."""
        delta: float | None = self.header["budget"]["delta"]
        return delta


def read(path: Path) -> Account:
    """Read and verify one ledger.

    Returns
    -------
    Account
        Everything in it, costs recomputed.

    Raises
    ------
    CheckFailed
        With file, line and fault, at the first line that does not hold.
    """
    lines = _lines(path)
    header, raw = _header(path, lines)
    delta, totals = header["budget"]["delta"], Totals()
    events: list[tuple[int, Event, dict[str, Any]]] = []
    finished, last_round = False, 0
    for number, data in lines:
        line = _parse(path, number, data)
        if finished:
            raise _fault(path, number, "stands behind the end line")
        if line.get("previous") != digest(raw):
            raise _fault(
                path, number, "does not follow from the line before (changed, removed or swapped lines)"
            )
        if line.get("kind") == "end":
            expected = {"kind": "end", "events": len(events), "total": total_line(totals, delta)}
            finished = True
        else:
            event, round_ = _event(path, number, line)
            if round_ < last_round:
                raise _fault(path, number, f"round {round_} stands behind round {last_round}")
            totals.add(event)
            events.append((round_, event, line))
            expected, last_round = event_line(round_, event, totals, delta, ""), round_
        _compare(path, number, line, expected)
        raw = data
    _within_budget(path, header, totals)
    return Account(header, tuple(events), totals, finished)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    if not data:
        raise CheckFailed(f"{path}: is empty; a ledger starts with its header")
    *lines, tail = data.split(b"\n")
    if tail:
        raise _fault(path, len(lines) + 1, "is cut off (no newline at its end)")
    return iter(list(enumerate(lines, start=1)))


def _header(path: Path, lines: Iterator[tuple[int, bytes]]) -> tuple[dict[str, Any], bytes]:
    number, raw = next(lines)
    header = _parse(path, number, raw)
    if header.get("kind") != "header" or frozenset(header) != HEADER_KEYS:
        raise _fault(path, number, f"is not a header with the keys {', '.join(sorted(HEADER_KEYS))}")
    if header["schema"] != 1:
        raise _fault(path, number, f"schema {header['schema']!r} is not one this version reads (1)")
    budget = header["budget"]
    if not isinstance(budget, dict) or set(budget) != {"epsilon", "delta"}:
        raise _fault(path, number, "budget must hold epsilon and delta")
    for name, bound in (("epsilon", float("inf")), ("delta", 1.0)):
        value = budget[name]
        if value is not None and not (isinstance(value, int | float) and 0.0 < value < bound):
            raise _fault(path, number, f"budget {name} = {value!r} is out of range")
    return header, raw


def _parse(path: Path, number: int, data: bytes) -> dict[str, Any]:
    def constant(name: str) -> float:
        raise ValueError(name)

    try:
        line = json.loads(data, parse_constant=constant)
    except (ValueError, RecursionError):
        raise _fault(path, number, "is not JSON") from None
    if not isinstance(line, dict) or encode(line) != data:
        raise _fault(path, number, "is not in the canonical form that admmnet writes")
    return line


def _event(path: Path, number: int, line: dict[str, Any]) -> tuple[Event, int]:
    round_, values = line.get("round"), line.get("parameters")
    if (
        line.get("kind") != "event"
        or not isinstance(values, dict)
        or not isinstance(round_, int)
        or round_ < 0
    ):
        raise _fault(path, number, "is neither an event nor the end")
    try:
        return from_parameters(str(line.get("mechanism")), values), round_
    except AdmmnetError as error:
        raise _fault(path, number, str(error)) from None


def _compare(
    path: Path, number: int, line: dict[str, Any], expected: dict[str, Any], where: str = ""
) -> None:
    if not where:
        expected = {**expected, "previous": line["previous"]}
    if set(line) != set(expected):
        raise _fault(
            path, number, f"{where or 'line'} has the keys {', '.join(line)}, expected {', '.join(expected)}"
        )
    for key, right in expected.items():
        wrong, name = line[key], f"{where}{key}"
        if isinstance(right, dict) and isinstance(wrong, dict):
            if key != "parameters":
                _compare(path, number, wrong, right, f"{name}.")
        elif isinstance(right, float) and isinstance(wrong, int | float):
            if abs(wrong - right) > TOLERANCE * max(abs(right), abs(wrong)):
                raise _fault(path, number, f"{name} is {wrong!r}, recomputed {right!r}")
        elif wrong != right:
            raise _fault(path, number, f"{name} is {wrong!r}, recomputed {right!r}")


def _within_budget(path: Path, header: dict[str, Any], totals: Totals) -> None:
    epsilon, delta = header["budget"]["epsilon"], header["budget"]["delta"]
    if epsilon is None or delta is None:
        return
    spent: float | None
    if header["accountant"] == "proven":
        spent, limit, what = totals.epsilon_proven(delta), epsilon, "epsilon_spent"
    else:
        spent, limit, what = totals.rho_published, loose_rho(epsilon, delta), "the published rho"
    if spent is None or spent > limit * (1.0 + TOLERANCE + SLACK):
        raise CheckFailed(f"{path}: {what} comes to {spent!r}, above the budget's {limit!r}")


def _fault(path: Path, number: int, what: str) -> CheckFailed:
    return CheckFailed(f"{path}: line {number}: {what}")
