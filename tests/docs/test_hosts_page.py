"""docs/hosts.md and protocol.md: keys, deadlines, events, figures, and kinds of frames are those of the code."""

from __future__ import annotations

import re
import tomllib
from functools import partial

from admmnet.config.run_config import known_settings
from admmnet.running.metrics import FIGURES
from admmnet.running.topics import TABLE
from admmnet.transport.hosts import Peer, _Table
from admmnet.transport.zmq import wire as topics
from admmnet.transport.zmq.meeting import Here
from admmnet.transport.zmq.wire import KEPT, LARGEST, PIECE, Failed, Hello, Kind, Signature, Word
from tests import doc_pages

PAGES = {"per_agent", "encoding.json", "metrics.csv"}
"""Other names in that section."""
section, wire = partial(doc_pages.section, "hosts.md"), partial(doc_pages.section, "protocol.md")


def test_frames_are_described() -> None:
    frames = wire("Wire")
    assert {kind.name for kind in Kind} <= set(re.findall(r"`(\w+)`", frames))
    assert {f"{size // 2**20} MiB" for size in (PIECE, LARGEST, KEPT)} <= set(re.findall(r"\b\d+ MiB", frames))


def test_every_value_that_is_told_is_on_the_page() -> None:
    """A value that is added to a word, and of which the page does not say where it comes from, is seen here."""
    words = (Here, Word, Hello, Signature, Failed)
    told = {name for word in words for name in word.__struct_fields__}
    for topic, (form, _) in TABLE.items():
        told |= {f"{topic}.{name}" for name in getattr(form, "__struct_fields__", ())} or {topic}
    told |= {topics.ROWS, topics.TOTAL, topics.ERROR, topics.END}
    assert len(told) > 50
    assert told == set(re.findall(r"`([\w.]+)`", wire("Told values"))) - PAGES


def test_deadlines_have_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `--([\w-]+)` \| (\d+|auto) \|", section("Deadlines"), re.MULTILINE))
    defaults = {name.replace("_", "-"): own.default for name, own in known_settings().items()}
    assert {name: value if value == "auto" else float(value) for name, value in rows.items()} == {
        name: value for name, value in defaults.items() if name.endswith("-deadline")
    }


def test_keys_of_the_network_file() -> None:
    text = section("The network file")
    (example,) = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    content = tomllib.loads(example)
    network, agent = _Table.__struct_fields__, Peer.__struct_fields__
    assert (list(content["network"]), list(content["agents"][0])) == (list(network), list(agent))
    assert {*network, *agent} <= set(re.findall(r"`(\w+)`", text))


def test_events_are_those_that_the_program_tells() -> None:
    texts = "".join(path.read_text() for path in doc_pages.MODULES)
    told = set(re.findall(r"(?:(?<![.\w])say|self\._tell)\(\s*\"([\w-]+)\"", texts))
    listed = [line.split("|")[1] for line in section("Log").splitlines() if line.startswith("| `")]
    assert told == set(re.findall(r"`([\w-]+)`", "".join(listed)))


def test_figures_are_those_that_are_served() -> None:
    listed = [line.split("|")[1] for line in section("Figures").splitlines() if line.startswith("| `")][1:]
    named = {name.removesuffix("_total") for name in re.findall(r"`(\w+)`", "".join(listed))}
    assert named == set(FIGURES)
