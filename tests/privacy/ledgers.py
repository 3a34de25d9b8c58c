"""Ledgers for the tests of verification: honest, changed, and forged with every hash right."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from admmnet import RunConfig
from admmnet.errors import CheckFailed
from admmnet.forms import encode
from admmnet.privacy.budget import Charges, Totals, empty, grown
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.events import Event
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.form import NO_DIGEST, Header, Line, event_start, total_line, with_digest
from admmnet.privacy.ledger.lines import digest
from tests.planned import Planned

from .published_agents import PublishedAgent, published

FACTS = PublishedAgent(7000, 2, 1.0, 1e-4)
PP = RunConfig(algorithm="pp-admm", method="published", accountant="published", rounds=3, eta=0.5, beta=10.0**-3.5)
IPP = PP.changed(algorithm="ipp-admm", accountant="proven", max_releases=2, gate_share=0.1)
MASKS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80)

Lines = list[dict[str, Any]]
Change = Callable[[Lines], Any]


def put(line: int, *inside: str, **values: Any) -> Change:
    """Return the change that writes values into a line, or into the table at ``inside`` of it."""
    return lambda lines: reduce(getitem, inside, lines[line]).update(values)


def noise_of(setting: RunConfig) -> Planned:
    """What an agent's rounds charge, and under which contract."""
    _, (plan,) = published([FACTS], setting)
    return plan


def header_of(contract: Contract, algorithm: str = "pp-admm", **who: Any) -> Header:
    words = {"agent": 0, "neighbours": (1, 4), "records": 7000, "noise": "seeded", "mode": "simulation"}
    return Header.of(contract, algorithm=algorithm, admmnet="0.1.0", preprocessing="public-bounds", **words | who)


def under(charges: Charges, epsilon: float = 1.0, accountant: str = "published", form: str = "published") -> Contract:
    """Contract whose plan is these charges, whatever they come to."""
    worst, promise = Totals.of(charges, form), Promise(epsilon, 1e-4, accountant)
    limit = Filter.of(epsilon, 1e-4, worst) if accountant == "proven" else Filter.published(1e-4, worst)
    return Contract(promise, limit, form=form)


def limited(limit: Filter, form: str = "published") -> Contract:
    """Contract of a limit that keeps epsilon 1."""
    return Contract(Promise(1.0, 1e-4), limit, form=form)


HEADER = header_of(noise_of(PP).contract)


def write(path: Path, setting: RunConfig = PP, rounds: int = 1, *, finished: bool = True) -> bytes:
    """Ledger of an honest run."""
    noise = noise_of(setting)
    path.unlink(missing_ok=True)
    ledger = Ledger(path, header_of(noise.contract, setting.algorithm), durable=False)
    for round_ in range(rounds):
        ledger.charge(round_, noise.objective, *noise.gate[(round_ > 0) :][:1])
        if not noise.gate or round_ != 1:
            ledger.charge(round_, noise.release[-1])
    if finished:
        ledger.end()
        ledger.close()
    else:
        ledger.commit()
    return path.read_bytes()


def fault(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(CheckFailed) as caught:
        audit.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 600
    return message


def fails(path: Path, data: bytes) -> bool:
    """Whether verification refuses; any other exception passes through."""
    path.write_bytes(data)
    try:
        audit.read(path)
    except CheckFailed:
        return True
    return False


def chained(lines: Lines) -> bytes:
    """Hash every line again, as an attacker would who may write the whole file."""
    out: list[bytes] = []
    for line in lines:
        out.append(encode({**line, "previous": digest(out[-1])} if out else line))
    return b"\n".join([*out, b""])


def builtins(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(line))
    return found


def parsed(data: bytes) -> Lines:
    return [json.loads(line) for line in data.splitlines()]


def forged(header: Header, events: list[tuple[int, Event]]) -> bytes:
    """Write a ledger with every cost, total and hash right, whatever the contract says."""
    contract = header.contract
    totals, lines = empty(contract.form), [builtins(header.line)]
    for round_, event in events:
        totals = grown(totals, event)
        lines.append(json.loads(with_digest(event_start(round_, event, totals, contract), NO_DIGEST)))
    lines.append(
        {"kind": "end", "events": len(events), "total": to_builtins(total_line(totals, contract)), "previous": ""}
    )
    return chained(lines)
