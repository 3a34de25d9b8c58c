"""Graphs that take turns, from a text file (docs/simulate.md): each line gives rounds and their graph."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from admmnet.errors import RequestError, short
from admmnet.graph import network_of
from admmnet.graph.files import fields_of, listed, paired, text_of
from admmnet.graph.simple import Collector, Graph

SEED_STEP = 1000
"""Between the seeds of random graphs of two lines; a spec tries at most as many seeds."""
Edges = tuple[tuple[int, int], ...]


class Span(NamedTuple):
    """Rounds first to last, inclusive; None for an open end."""

    first: int
    last: int | None

    @classmethod
    def read(cls, text: str) -> Span | None:
        """Rounds such as ``3``, ``3-9`` or ``3-``; None if the text is none of these."""
        match = re.fullmatch(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?", text, re.ASCII)
        if match is None:
            return None
        first = int(match[1])
        return cls(first, first if match[2] is None else int(match[3]) if match[3] else None)

    def __str__(self) -> str:
        return f"{self.first}-{'' if self.last is None else self.last}"


class GraphSchedule(Struct, frozen=True):
    """Which graph is there when."""

    source: str
    """Name of the file."""
    spans: tuple[Span, ...]
    """Ascending, without gaps from round 0 on."""
    edges: tuple[Edges, ...]
    """Of the graph of each span, (lower, higher) ends in sorted order."""
    repeat: int | None
    """Rounds after which the schedule starts anew."""
    graph: Graph
    """Union of all graphs: what the run calls its graph."""

    @property
    def digest(self) -> str:
        """sha256 of the schedule, for processes that must agree on it."""
        content = repr((self.spans, self.edges, self.repeat, len(self.graph)))
        return hashlib.sha256(content.encode()).hexdigest()

    def at(self, round: int) -> int:
        """Place of a round's graph in ``edges``."""
        turn = round if self.repeat is None else round % self.repeat
        return bisect_right(self.spans, turn, key=lambda span: span.first) - 1

    def check_rounds(self, rounds: int) -> None:
        """Refuse a run that is longer than the schedule."""
        last = self.spans[-1].last
        if self.repeat is None and last is not None and last < rounds - 1:
            raise RequestError(
                f"{self.source}: the schedule ends with round {last}, but the run has rounds 0 to {rounds - 1}: leave "
                f"the end of the last line open, or add 'repeat {last + 1}'"
            )


def read_schedule(path: Path, *, agents: int | None = None, seed: int = 0) -> GraphSchedule:
    """Schedule in a file, for a network of ``agents`` if given.

    Lines are ``FIRST-LAST GRAPH``, rounds inclusive, ``FIRST-`` with an open end, ``FIRST`` for one round; a graph is
    a spec, a file (relative to the schedule's folder), ``edges 0-1 2-3 ...`` or ``none``; at most one line ``repeat
    ROUNDS``; ``#`` comments. The k-th graph, if random, is tried with seed + 1000 k first.
    """
    lines, repeat = _lines(path)
    spans = _checked_spans(path, [(number, span) for number, span, _ in lines], repeat)
    graphs = [_edges(path, number, words, seed + SEED_STEP * k) for k, (number, _, words) in enumerate(lines)]
    sizes = {size: number for (number, _, _), (_, size) in zip(lines, graphs, strict=True) if size is not None}
    count = agents if agents is not None else max(sizes, default=None)
    wrong = [size for size in sizes if size != count]
    if wrong:
        other = "--agents says" if agents is not None else f"line {sizes[max(sizes)]} has"
        raise RequestError(
            f"{path}, line {sizes[wrong[0]]}: a graph of {wrong[0]} agents where {other} {count}: all graphs of a "
            "schedule need the same agents; list single edges with 'edges 0-1 2-3'"
        )
    collector = Collector(f"{path}: union of its graphs")
    for i in range(count or 0):
        collector.agent(i)
    for edge in sorted({edge for edges, _ in graphs for edge in edges}):
        if count is not None and edge[1] >= count:
            raise RequestError(
                f"{path}: agent {edge[1]} is beyond the {count} agents of the other graphs or of --agents"
            )
        collector.edge(*edge)
    return GraphSchedule(str(path), spans, tuple(edges for edges, _ in graphs), repeat, collector.graph())


def _lines(path: Path) -> tuple[list[tuple[int, Span, list[str]]], int | None]:
    found, repeat = [], None
    for number, (head, *words) in fields_of(text_of(path)):
        line = short(" ".join((head, *words)))
        if head == "repeat":
            if repeat is not None or len(words) != 1 or not re.fullmatch(r"[1-9][0-9]{0,8}", words[0], re.ASCII):
                raise RequestError(
                    f"{path}, line {number}: expected one line 'repeat ROUNDS' with a whole number of at least 1, got "
                    f"{line}"
                )
            repeat = int(words[0])
            continue
        span = Span.read(head)
        if span is None or not words:
            raise RequestError(
                f"{path}, line {number}: expected rounds and a graph such as '0-9 ring:5', '10- mine.edges', '3 edges "
                f"0-1 2-3' or '4 none', got {line}"
            )
        found.append((number, span, words))
    if not found:
        raise RequestError(f"{path}: no graph in it; write lines such as '0-9 ring:5'")
    return found, repeat


def _checked_spans(path: Path, lines: list[tuple[int, Span]], repeat: int | None) -> tuple[Span, ...]:
    expected = 0
    for place, (number, span) in enumerate(lines):
        where = f"{path}, line {number}: rounds {span}"
        if span.first != expected:
            told = "overlap with the line before" if span.first < expected else "leave a gap"
            raise RequestError(
                f"{where} {told}: expected them to start with {expected}; '{expected} none' is a round without edges"
            )
        if span.last is None:
            if place < len(lines) - 1:
                raise RequestError(f"{where} have an open end, which only the last line may have")
            break
        if span.last < span.first:
            raise RequestError(f"{where}: the last round must be at least the first, {span.first}")
        expected = span.last + 1
    last = lines[-1][1].last
    if repeat is not None and (last is None or last + 1 != repeat):
        end = "are open-ended" if last is None else f"end with round {last}"
        raise RequestError(
            f"{path}: 'repeat {repeat}' repeats rounds 0 to {repeat - 1}, but the lines {end}: end them with round "
            f"{repeat - 1}" + ("" if last is None else f", or write 'repeat {last + 1}'")
        )
    return tuple(span for _, span in lines)


def _edges(path: Path, number: int, words: list[str], seed: int) -> tuple[Edges, int | None]:
    """Edges of one line's graph, and its number of agents if it has one."""
    where = f"{path}, line {number}"
    if words[0] == "edges":
        if not words[1:]:
            raise RequestError(f"{where}: expected edges such as 'edges 0-1 2-3', or 'none', got no edge")
        return paired(words[1:], where).edges, None
    if len(words) != 1:
        raise RequestError(f"{where}: expected one graph, got {short(' '.join(words))}")
    if words[0] == "none":
        return (), None
    file = path.parent / words[0]
    try:
        if file.suffix.lower() == ".edges":  # need not join all agents
            return listed(text_of(file), str(file)).edges, None
        graph = network_of(file if file.exists() else words[0], seed=seed)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    return tuple(graph.edges), len(graph)
