"""docs/hosts.md: every test that it names exists, every kind of frame and verdict of the code is in it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from admmnet import RunConfig
from admmnet.transport.hosts.network import _AGENT_KEYS, _NETWORK_KEYS
from admmnet.transport.zmq.mailbox import Verdict
from admmnet.transport.zmq.session import PATIENCE
from admmnet.transport.zmq.wire import HEADER, MAGIC, Kind

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_\w+)`", PAGE)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_fault_names_a_test_that_exists() -> None:
    rows = [line for line in section("Faults that were tried").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"\| `test_\w+` \|$", row)] == []
    assert len(NAMED) == len(set(NAMED)) == len(rows)
    defined = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    assert sorted(set(NAMED) - defined) == []


def test_frames_are_described() -> None:
    wire, rules = section("Wire"), section("Rules for frames")
    assert {kind.name for kind in Kind} <= set(re.findall(r"`([A-Z]+)`", wire))
    assert f"`{MAGIC.decode()}`" in wire
    sizes = [
        int(size) for row in re.findall(r"^\| ([\d, ]+) \|", wire, re.MULTILINE) for size in row.split(", ")
    ]
    assert sum(sizes) == HEADER
    silent = {Verdict.NOW, Verdict.KNOWN}
    assert {str(verdict) for verdict in Verdict if verdict not in silent} <= set(
        re.findall(r"`(\w+)`", rules)
    )
    assert PATIENCE == 8
    assert "eight of them" in rules


def test_deadlines_have_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `--([\w-]+)` \| (\d+) \|", section("Deadlines"), re.MULTILINE))
    defaults = {field.name.replace("_", "-"): field.default for field in fields(RunConfig)}
    assert {name: float(value) for name, value in rows.items()} == {
        name: value for name, value in defaults.items() if name.endswith("-deadline")
    }


def test_keys_of_the_network_file() -> None:
    text = section("The network file")
    (example,) = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    content = tomllib.loads(example)
    assert list(content["network"]) == list(_NETWORK_KEYS)
    assert list(content["agents"][0]) == list(_AGENT_KEYS)
    assert set(_NETWORK_KEYS + _AGENT_KEYS) <= set(re.findall(r"`(\w+)`", text))
