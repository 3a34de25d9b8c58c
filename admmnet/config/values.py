"""What a program may give instead of the text that a file has: graphs, classes, functions, numbers, tables of numpy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Real
from typing import Any

from admmnet.errors import RequestError
from admmnet.methods import METHODS

TEXTS = ("label", "positive", "centre")
"""Settings whose numbers are texts, as in a file."""


def as_in_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file has them; RequestError if a graph is no network, or a class or function will not do."""
    values = dict(given)
    for name in TEXTS:
        if isinstance(values.get(name), Real) and not isinstance(values[name], bool):
            values[name] = f"{values[name]:.17g}"
    if callable(values.get("algorithm")):
        values["algorithm"] = METHODS.called(values["algorithm"])
    if callable(values.get("loss")):
        from admmnet.solvers.losses import LOSSES  # imports numpy

        values["loss"] = LOSSES.called(values["loss"])
    if not isinstance(values.get("topology"), str | os.PathLike | None):
        values |= _edges(values)
    if isinstance(values.get("schema"), Mapping):
        try:
            values["schema"] = _plain(values["schema"])
        except RecursionError:
            raise RequestError("schema holds itself: give a table of texts, numbers, lists and tables") from None
    return values


def _edges(values: Mapping[str, Any]) -> dict[str, Any]:
    """Topology and number of agents of a graph."""
    from admmnet.graph.checks import check_topology
    from admmnet.graph.files import EDGES

    graph, agents = check_topology(values["topology"], "topology"), values.get("agents")
    if agents not in (None, len(graph)):
        raise RequestError(
            f"the graph has {len(graph)} nodes, and agents = {agents!r}: leave agents out, or give another graph"
        )
    return {"topology": EDGES + ",".join(f"{i}-{j}" for i, j in graph.edges), "agents": len(graph)}


def _plain(value: Any) -> Any:
    """Table with lists and Python's numbers, such as a file can hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value
