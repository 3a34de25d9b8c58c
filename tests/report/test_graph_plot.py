"""Drawings of networks: every format, deterministic, refused where they cannot be made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from admmnet.errors import RequestError
from admmnet.graph import load_topology
from admmnet.report.graph_plot import SUFFIXES, plot_graph

pytest.importorskip("matplotlib")

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_graphs_give_equal_files(suffix: str, tmp_path: Path) -> None:
    graph = load_topology("small-world:20:4:0.1")
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        plot_graph(graph, path, {i: i / 2 for i in range(19)}, label="epsilon", title="spent")
    assert first.read_bytes().startswith(STARTS[suffix])
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "spec", ["path:2", "ring:3", "complete:5", "grid:3x4", "star:61", "geometric:200:0.2"]
)
def test_every_shape_is_drawn_without_a_warning(spec: str, tmp_path: Path) -> None:
    plot_graph(load_topology(spec), str(tmp_path / "graph.svg"))
    text = (tmp_path / "graph.svg").read_text(encoding="utf-8")
    assert f"<!-- {len(load_topology(spec))} agents" in text


def test_pyplot_and_displays_are_left_alone(tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    plot_graph(load_topology("ring:5"), tmp_path / "ring.png")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_wrong_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = load_topology("ring:5")
    with pytest.raises(RequestError, match=r"a drawing ends in \.png, \.svg, \.pdf, got '\.jpg'"):
        plot_graph(ring, tmp_path / "ring.jpg")
    with pytest.raises(RequestError, match="a value for agent 7, which the graph has not"):
        plot_graph(ring, tmp_path / "ring.png", {7: 1.0})
    with pytest.raises(RequestError, match="1001 agents are too many to draw, the limit is 1000"):
        plot_graph(load_topology("ring:1001"), tmp_path / "ring.png")
    with pytest.raises(RequestError, match="cannot be written: No such file"):
        plot_graph(ring, tmp_path / "nowhere" / "ring.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RequestError, match=r"pip install 'admmnet\[plot\]'"):
        plot_graph(ring, tmp_path / "ring.png")
    assert list(tmp_path.iterdir()) == []
