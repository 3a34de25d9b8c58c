"""Ledgers for the tests of verification: honest, changed, and forged with every hash right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import CheckFailed
from admmnet.privacy import audit
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import AgentFacts, Noise, Setting, calibrate
from admmnet.privacy.chain import digest
from admmnet.privacy.events import Event
from admmnet.privacy.ledger import Header, Ledger, encode, event_line, total_line

FACTS = AgentFacts(7000, 2, 1.0, 1e-4)
PP = Setting(5, 3, 0.5, 10.0**-3.5, 1.0, 0.25, "published")
IPP = replace(PP, accountant="proven", gated=True, max_releases=2, gate_share=0.1, loss_clip=2.0)
HEADER = Header(
    0, (1, 4), 7000, 1.0, 1e-4, "published", "published", "pp-admm", "seeded", "public-bounds", "0.1.0"
)
MASKS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80)

Lines = list[dict[str, Any]]


def noise_of(setting: Setting) -> Noise:
    return calibrate([FACTS], setting).noise[0]


def write(path: Path, setting: Setting = PP, rounds: int = 1, *, finished: bool = True) -> bytes:
    """Ledger of an honest run."""
    noise = noise_of(setting)
    header = replace(
        HEADER, accountant=setting.accountant, algorithm="ipp-admm" if setting.gated else "pp-admm"
    )
    path.unlink(missing_ok=True)
    ledger = Ledger(path, header, noise.budget, durable=False)
    for round_ in range(rounds):
        if noise.gate is None:
            ledger.charge(round_, noise.objective, noise.release)
        else:
            ledger.charge(round_, noise.objective, noise.gate.later if round_ else noise.gate.first)
            if round_ != 1:
                ledger.charge(round_, noise.release)
    if finished:
        ledger.finish()
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


def parsed(data: bytes) -> Lines:
    return [json.loads(line) for line in data.splitlines()]


def forged(header: Header, events: list[tuple[int, Event]]) -> bytes:
    """Write a ledger with every cost, total and hash right, whatever the budget says."""
    totals, lines = Totals(header.method), [header.line()]
    for round_, event in events:
        totals.add(event)
        lines.append(event_line(round_, event, totals, header.delta, ""))
    lines.append(
        {"kind": "end", "events": len(events), "total": total_line(totals, header.delta), "previous": ""}
    )
    return chained(lines)
