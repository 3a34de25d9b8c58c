"""docs/hosts.md and protocol.md: keys, deadlines, events, figures, kinds of frames and tests are those of the code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from functools import partial

from admmnet import RunConfig
from admmnet.running.metrics import FIGURES
from admmnet.transport.hosts.network import Peer, _Table
from admmnet.transport.zmq.wire import LIMIT, LOG, Kind
from tests import doc_pages
from tests.doc_pages import ROOT

section, wire = partial(doc_pages.section, "hosts.md"), partial(doc_pages.section, "protocol.md")


def test_every_fault_names_a_test_that_exists() -> None:
    named = re.findall(r"`(test_\w+)`", wire("Faults that were tried"))
    assert len(set(named)) == len(named) > 20
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert set(named) - set(re.findall(r"def (test_\w+)\(", tests)) == set()


def test_frames_are_described() -> None:
    frames = wire("Wire")
    assert {kind.name for kind in Kind} <= set(re.findall(r"`(\w+)`", frames))
    assert f"at most {LIMIT // 2**20} MiB" in frames
    assert f"the last {LOG} at most" in frames


def test_deadlines_have_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `--([\w-]+)` \| (\d+|auto) \|", section("Deadlines"), re.MULTILINE))
    defaults = {field.name.replace("_", "-"): field.default for field in fields(RunConfig)}
    assert {name: value if value == "auto" else float(value) for name, value in rows.items()} == {
        name: value for name, value in defaults.items() if name.endswith("-deadline") or name == "give-up"
    }


def test_keys_of_the_network_file() -> None:
    text = section("The network file")
    (example,) = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    content = tomllib.loads(example)
    network, agent = _Table.__struct_fields__, Peer.__struct_fields__
    assert (list(content["network"]), list(content["agents"][0])) == (list(network), list(agent))
    assert {*network, *agent} <= set(re.findall(r"`(\w+)`", text))


def test_events_are_those_that_the_program_tells() -> None:
    told = set(re.findall(r"(?<![.\w])say\(\s*\"([\w-]+)\"", "".join(path.read_text() for path in doc_pages.MODULES)))
    listed = [line.split("|")[1] for line in section("Log").splitlines() if line.startswith("| `")]
    assert told == set(re.findall(r"`([\w-]+)`", "".join(listed)))


def test_figures_are_those_that_are_served() -> None:
    listed = [line.split("|")[1] for line in section("Figures").splitlines() if line.startswith("| `")][1:]
    named = {name.removesuffix("_total") for name in re.findall(r"`(\w+)`", "".join(listed))}
    assert named == set(FIGURES)
