"""Check a ledger from its bytes alone: chain, canonical form, every cost, every total, the budget."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from admmnet.errors import AdmmnetError, CheckFailed
from admmnet.privacy import moments
from admmnet.privacy.budget import SHARED, SLACK, Totals, empty, grown
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNorm,
    ObjectivePerturbation,
    SubsampledGaussian,
    from_parameters,
    is_count,
    is_positive,
    parameters,
    relation_of,
    shown,
)
from admmnet.privacy.ledger.form import SCHEMA, Header, encode, event_bytes, event_line, total_line
from admmnet.privacy.ledger.lines import NOTHING, digest, is_torn, is_whole

_DIGEST = re.compile("[0-9a-f]{64}")
TOLERANCE = 1e-9
"""Relative difference allowed between a recorded cost and its recomputation on another machine."""


@dataclass(frozen=True)
class Start:
    """Beginning of a run: digest of the line before it, its line's number from 1, and the events before it."""

    previous: str = NOTHING
    line: int = 1
    events: int = 0


@dataclass(frozen=True)
class VerifiedLedger:
    """A ledger read back.

    Attributes
    ----------
    header : dict
        First line.
    events : tuple of (int, Event, dict)
        Round, event and the line it stands in; none where they were not to be kept.
    count, last : int
        How many events there are, and the latest round of any.
    totals : Totals
        Recomputed from the events' parameters.
    finished : bool
        Whether the end line is there.
    torn : bool
        Whether the last line of an unfinished file is cut off, as a crash may leave it; it counts for nothing.
    starts : tuple of Start
        Where its run began; in an account, where every run began.
    resumed : tuple of int
        Rounds from which a private run went on after an interruption.
    account : str or None
        Digest of the account's last line when the run ended; None without account, or in older ledgers.
    """

    header: dict[str, Any]
    events: tuple[tuple[int, Event, dict[str, Any]], ...]
    count: int
    last: int
    totals: Totals
    finished: bool
    torn: bool = False
    starts: tuple[Start, ...] = (Start(),)
    resumed: tuple[int, ...] = ()
    account: str | None = None

    @property
    def runs(self) -> int:
        """Number of runs: 1, or more in an account."""
        return len(self.starts)

    @property
    def delta(self) -> float | None:
        """Return the delta of the budget, None for methods without privacy."""
        return cast("float | None", self.header["budget"]["delta"])

    def __repr__(self) -> str:
        """One line, without the events."""
        return f"VerifiedLedger(agent={self.header['agent']}, events={self.count}, rho={self.totals.rho:.6g})"


class Strand(NamedTuple):
    """Lines of one ledger, with their numbers in its file, and whether a last one was cut off."""

    path: Path
    lines: list[tuple[int, bytes]]
    torn: bool = False


def read(path: Path, *, account: bool = False) -> VerifiedLedger:
    """``check`` the ledger, or account, that has a file of its own."""
    return check(whole_lines(path), account=account)


def whole_lines(path: Path) -> Strand:
    """Whole lines of a file, and whether something that is none stands behind them.

    Raises
    ------
    CheckFailed
        If it cannot be read, or its end is not what a crash leaves.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    if not data:
        raise CheckFailed(f"{path}: is empty; a ledger starts with its header")
    *lines, tail = data.split(b"\n")
    if tail and is_whole(tail):  # it lacks its newline alone: a charge is a charge
        lines, tail = [*lines, tail], b""
    if not lines or (tail and not is_torn(tail)):
        raise CheckFailed(f"{path}: line {len(lines) + 1}: is cut off (no newline at its end)")
    return Strand(path, list(enumerate(lines, start=1)), bool(tail))


@np.errstate(all="ignore")  # numbers of any size may stand in the file; what is not finite fits no budget
def check(strand: Strand, *, account: bool = False, keep: bool = True) -> VerifiedLedger:
    """Verify one ledger, or one account: a ledger of several runs, each with a line of its own.

    Its events take no memory where they are not to ``keep``.

    Every line but the last is held to the bit by the hash in the line behind it, the end line by the event
    before it. The last line of an unfinished ledger, lines cut off whole, and lines that were all changed
    and hashed again show only against the digest in summary.json.

    Returns
    -------
    VerifiedLedger
        Everything in it, costs recomputed.

    Raises
    ------
    CheckFailed
        With file, line and fault, at the first line that does not hold.
    """
    (number, raw), *lines = strand.lines
    try:
        _check_header(header := _parse(raw))
        delta, totals = header["budget"]["delta"], empty(header["method"])
        events: list[tuple[int, Event, dict[str, Any]]] = []
        total, payer, facts = total_line(totals, delta), header, _facts(header)
        before = digest(raw)
        starts, resumed, head, finished, count, last_round, last = [Start()], [], None, False, 0, 0, 0
        for number, data in lines:
            blank = _unlinked(data, before)
            line: dict[str, Any] = {"kind": "event", "previous": before}
            if blank is None:
                line = _parse(data)
                blank = encode({**line, "previous": ""})
            # a run may die between its end lines and its summary
            if finished and line.get("kind") != "resume":
                raise CheckFailed("stands behind the end line")
            if line.get("previous") != before:
                raise CheckFailed("does not follow from the line before (changed, removed or swapped lines)")
            if account and line.get("kind") == "run":
                _within_budget(payer, totals)
                header = _run(line, header)
                facts = _facts(header)
                starts.append(Start(before, number, count))
                last_round = 0
            elif line.get("kind") == "resume":
                last_round = _resume(line, header)
                resumed.append(last_round)
                finished = False
            elif line.get("kind") == "end":
                end = {"kind": "end", "events": count, "total": total}
                if "account" in header and _is_digest(line.get("account")):  # versions before wrote none
                    end["account"] = line["account"]
                if data != encode({**end, "previous": before}):
                    raise CheckFailed(f"is not the end of the {count} events before it")
                finished, head = True, line.get("account")
            else:
                round_, event, line, totals = _charge(blank, totals, facts)
                if round_ < last_round:
                    raise CheckFailed(f"round {round_} stands behind round {last_round}")
                total, payer, count = line["total"], header, count + 1
                last_round, last = round_, max(last, round_)
                if keep:
                    events.append((round_, event, {**line, "previous": before}))
            before = digest(data)
        if strand.torn and finished and header["noise"] == "seeded":
            raise CheckFailed("the beginning of a line stands behind the end line")
        _within_budget(payer, totals)
        done, kept = finished and not strand.torn, (tuple(starts), tuple(resumed), head)
        return VerifiedLedger(header, tuple(events), count, last, totals, done, strand.torn, *kept)
    except CheckFailed as error:
        raise CheckFailed(f"{strand.path}: line {number}: {error}") from None


def _facts(header: dict[str, Any]) -> tuple[Any, ...]:
    """What a header says that its events are held against."""
    names = ("records", "adjacency", "trust", "colluders")
    return header["budget"]["delta"], *map(header.get, names)


def _unlinked(data: bytes, before: str) -> bytes | None:
    """Bytes of an event's line that follows from the digest ``before``, without it; None of any other line."""
    linked = data.startswith(b'{"kind":"event"') and data.endswith(b'"previous":"%b"}' % before.encode())
    return data[: -len(before) - 2] + b'"}' if linked else None


@lru_cache(maxsize=4 * SHARED)  # most agents of a run have the same lines, but for their chains
def _charge(data: bytes, totals: Totals, facts: tuple[Any, ...]) -> tuple[int, Event, dict[str, Any], Totals]:
    """Round, event and line of a checked event, whose ``previous`` is empty, and the totals with it; all shared."""
    line = _parse(data)
    delta, records, adjacency, trust, colluders = facts
    event, round_ = _event(line, records)
    if (relation := relation_of(event)) not in ("replace-one", adjacency):
        raise CheckFailed(f"holds for {relation}, the header is of {adjacency}")
    if isinstance(event, DiscreteGaussian):
        if (event.parts > 1) != (trust == "masked"):  # masked where the header says so, and nowhere else
            raise CheckFailed(f"has noise of {event.agents} agents, which its header does not say")
        if event.colluders != (colluders or 0):
            raise CheckFailed(f"colluders is {event.colluders}, the header's is {colluders or 0}")
    try:
        totals = grown(totals, event)
        if event_bytes(round_, event, totals, delta, "") != data:
            totals = moments.as_booked(totals, line, delta)
            _compare(line, event_line(round_, event, totals, delta, ""))
    except ArithmeticError:
        raise CheckFailed(f"{event.mechanism}: its cost exceeds every number") from None
    return round_, event, line, totals


def _run(line: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """Header of another run of an account; records, delta, order and relation are the account's."""
    header = {key: value for key, value in {**line, "kind": "header"}.items() if key != "previous"}
    _check_header(header)
    for name, own, asked in (
        ("agent", first["agent"], header["agent"]),
        ("records", first["records"], header["records"]),
        ("order", first["order"], header["order"]),
        ("adjacency", first["adjacency"], header["adjacency"]),
        ("delta", first["budget"]["delta"], header["budget"]["delta"]),
    ):
        if own != asked:
            raise CheckFailed(f"{name} is {shown(asked)}, the account's is {shown(own)}")
    return header


def _resume(line: dict[str, Any], header: dict[str, Any]) -> int:
    """Round from which a run goes on, whose noise no seed can make again; charges before it stand."""
    round_ = line.get("round")
    if list(line) != ["kind", "round", "previous"] or not is_count(round_, 0) or header["noise"] != "private":
        raise CheckFailed("is not the resumption of a private run")
    return int(str(round_))


def _check_header(line: dict[str, Any]) -> None:
    if line.get("kind") != "header":
        raise CheckFailed("is not a header")
    if line.get("schema") not in (1, SCHEMA):
        raise CheckFailed(f"schema {shown(line.get('schema'))} is not one this version reads (1, {SCHEMA})")
    for name, good in _HEADER.items():
        if (name not in line and name not in _ABSENT) or not good(line.get(name)):
            raise CheckFailed(f"{name} = {shown(line.get(name))} is out of range")
    values: dict[str, Any] = {
        name: line.get(name) for name in _HEADER if name not in ("neighbours", "budget", "admmnet")
    }
    header = Header(
        neighbours=tuple(line["neighbours"]), version=line["admmnet"], **line["budget"], **values
    ).line()
    alone = not line["neighbours"]  # agents of a network have neighbours, and replace-one
    if (line.get("trust") is None) != (line.get("colluders") is None):
        raise CheckFailed("trust and colluders stand together, or neither does")
    if header != line or encode(header) != encode(line) or (line["adjacency"] == "zero-out" and not alone):
        raise CheckFailed(f"is not a replace-one header, nor a zero-out one: {', '.join(header)}")


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_budget(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"epsilon", "delta"}:
        return False
    epsilon, delta = value["epsilon"], value["delta"]
    return epsilon is delta is None or (is_positive(epsilon) and is_positive(delta) and delta < 1)


_ABSENT = ("account", "mode", "delta_clipping", "loss", "weight", "trust", "colluders")
"""Keys that some headers lack: without an account, of schema 1, of baselines, with a loss of ours, with weight 1,
where nothing is masked."""
_HEADER: dict[str, Callable[[Any], bool]] = {
    "agent": lambda value: is_count(value, 0),
    "neighbours": lambda value: isinstance(value, list) and all(is_count(j, 0) for j in value),
    "records": is_count,
    "adjacency": lambda value: value in ("replace-one", "zero-out"),
    "budget": _is_budget,
    "accountant": lambda value: value in ("proven", "published"),
    "order": lambda value: value is None or (is_positive(value) and value > 1),
    "account": lambda value: value is None or _is_digest(value),
    "noise": lambda value: value in ("private", "seeded"),
    "mode": lambda value: value in (None, "simulation", "private"),
    "loss": lambda value: value is None or isinstance(value, str),
    "weight": lambda value: value is None or is_positive(value),
    "trust": lambda value: value in (None, "masked"),
    "colluders": lambda value: value is None or is_count(value, 0),
    "delta_clipping": lambda value: value is None or (is_positive(value) and value <= 1),
    **dict.fromkeys(
        ("method", "algorithm", "preprocessing", "admmnet"), lambda value: isinstance(value, str)
    ),
}


def _parse(data: bytes) -> dict[str, Any]:
    def constant(name: str) -> float:
        raise ValueError(name)

    try:
        line = json.loads(data, parse_constant=constant)
    except (ValueError, RecursionError):
        raise CheckFailed("is not JSON") from None
    try:
        if isinstance(line, dict) and encode(line) == data:
            return line
    except (ValueError, RecursionError):  # 1e999, a lone surrogate, too deep
        pass
    raise CheckFailed("is not in the canonical form that admmnet writes")


def _event(line: dict[str, Any], records: int) -> tuple[Event, int]:
    round_, mechanism, values = line.get("round"), line.get("mechanism"), line.get("parameters")
    if (
        line.get("kind") != "event"
        or not isinstance(round_, int)
        or not is_count(round_, 0)
        or not isinstance(mechanism, str)
        or not isinstance(values, dict)
    ):
        raise CheckFailed("is neither an event nor the end")
    try:
        event = from_parameters(mechanism, values)
    except AdmmnetError as error:
        raise CheckFailed(str(error)) from None
    if encode(values) != encode(parameters(event)):
        raise CheckFailed("parameters are not in the canonical form that admmnet writes")
    if isinstance(event, SubsampledGaussian) and event.steps > 1:  # coins of one step need none: Theorem 24
        batch = event.rate * records
        if round(batch) < 1 or abs(batch - round(batch)) > TOLERANCE * batch:
            raise CheckFailed(f"rate is {event.rate!r}, no whole batch of the header's {records} records")
    if isinstance(event, ObjectivePerturbation | GammaNorm):
        if event.records != records:
            raise CheckFailed(f"records is {event.records}, the header's is {records}")
        slope = 0.5 * event.sensitivity * event.records  # G, under replace-one
        if isinstance(event, ObjectivePerturbation) and not _close(event.lipschitz, slope):
            right = 2.0 * event.lipschitz / event.records
            raise CheckFailed(f"sensitivity is {event.sensitivity!r}, under replace-one {right!r}")
        if event.logistic and not _close(event.curvature, 0.25 * slope * slope):
            raise CheckFailed(f"curvature is {event.curvature!r}, for a logistic loss lipschitz^2/4")
    return event, round_


def _compare(line: dict[str, Any], expected: dict[str, Any], where: str = "") -> None:
    if list(line) != list(expected):
        raise CheckFailed(
            f"{where or 'line'} has the keys {shown(list(line))}, expected {', '.join(expected)}"
        )
    for key, right in expected.items():
        wrong, name = line[key], f"{where}{key}"
        if isinstance(right, dict) and isinstance(wrong, dict):
            if key != "parameters":  # they were compared as they were read
                _compare(wrong, right, f"{name}.")
        elif type(wrong) is not type(right) or not (
            _close(wrong, right) if isinstance(right, float) else wrong == right
        ):
            raise CheckFailed(f"{name} is {shown(wrong)}, recomputed {right!r}")


def _close(wrong: float, right: float) -> bool:
    same_sign = math.copysign(1.0, wrong) == math.copysign(1.0, right)  # tells -0.0 from 0.0
    return same_sign and abs(wrong - right) <= TOLERANCE * min(abs(wrong), abs(right))


def _within_budget(header: dict[str, Any], totals: Totals) -> None:
    if header["budget"]["delta"] is None:
        return
    epsilon, delta = float(header["budget"]["epsilon"]), float(header["budget"]["delta"])
    spent: float | None
    if header["accountant"] == "proven":
        spent, limit, what = totals.epsilon_proven(delta), epsilon, "epsilon_spent"
    elif totals.alone is not None:
        spent, limit, what = totals.epsilon_published(delta), epsilon, "the published epsilon"
    else:
        spent, limit, what = totals.rho_published, loose_rho(epsilon, delta), "the published rho"
    if spent is None or not spent <= limit * (1.0 + TOLERANCE + SLACK):
        raise CheckFailed(f"{what} comes to {spent!r}, above the budget's {limit!r}")
