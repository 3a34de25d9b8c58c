"""Networks named by a short spec such as ``ring:5``; the random ones are those of the networkx generators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from inspect import signature
from itertools import combinations, pairwise, product
from random import Random
from typing import Any, NamedTuple

from admmnet.errors import RequestError, short
from admmnet.graph.simple import MAX_EDGES, MAX_NODES, Graph, check_topology, parts_of
from admmnet.registry import Registry, closest

FAST_ABOVE = 1000
"""Nodes above which erdos-renyi uses the linear-time generator instead of the quadratic one."""
WHOLE = "(-?[0-9]{1,12})"


class Family(NamedTuple):
    """Graphs with a name: the form of their specs, one of them, and what makes a graph of the numbers.

    ``make`` of a ``random`` family takes a seed, too; ``remedy`` says of the numbers what helps where no seed gives a
    connected graph. A package adds a family by a function of the spec's numbers, such as ``def wheel(n: int) ->
    nx.Graph``; ``float`` parameters read numbers with a point, and one called ``seed`` makes the family random.
    """

    form: str
    example: str
    make: Callable[..., Graph]
    random: bool = False
    remedy: Callable[..., str] = lambda *_: "choose other numbers"


def build_spec(spec: str, seed: int) -> Graph:
    """Network of a spec, one of the forms of `SPECS`; the random ones try seeds from `seed` on."""
    if seed < 0:
        raise RequestError(f"topology {spec}: seed must be 0 or more, got {seed}")
    name, texts = _parts(spec)
    if name not in TOPOLOGIES:
        raise RequestError(f"topology {short(spec)}: {_unknown(name, spec.split(':')[1:])}")
    family = TOPOLOGIES[name]
    try:
        numbers = _numbers(family, texts)
        if not family.random:
            return family.make(*numbers)
        for attempt in range(seed, seed + 1000):
            graph = family.make(*numbers, attempt)
            if len(parts_of(graph)) == 1:
                return graph
            if attempt - seed + 1 >= max(20, 1_000_000 // len(graph)):  # a bound on the work as well as on the number
                break
        raise RequestError(f"no connected graph with seeds {seed} to {attempt}; {family.remedy(*numbers)}")
    except RequestError as error:
        raise RequestError(f"topology {short(spec)}: {error}") from None


def is_random(topology: str) -> bool:
    """Whether a seed decides the graph of this spec or file."""
    name, _ = _parts(topology)
    return name in TOPOLOGIES and TOPOLOGIES[name].random


def check_seed(name: str, topology: str, seed: int) -> None:
    """Raise RequestError for a seed, called ``name``, that does not decide the graph of this spec or file."""
    if seed and not is_random(topology):
        raise RequestError(
            f"{name} {seed} goes with a random graph, not topology = {topology!r}: "
            "leave it out, or name a random graph such as erdos-renyi:20:0.3"
        )


def _parts(spec: str) -> tuple[str, list[str]]:
    """Name and numbers; ``package.module:function`` is one name."""
    name, *values = spec.split(":")
    if values and name not in TOPOLOGIES.own and values[0].isidentifier():
        name = f"{name}:{values.pop(0)}"
    return name, values


def _adapted(found: Any, _: str) -> Family:
    """Family of an outside package's function of numbers, and perhaps a seed."""
    if isinstance(found, Family):
        return found
    parameters = dict(signature(found, eval_str=True).parameters)
    random = parameters.pop("seed", None) is not None
    letters = ["P" if kind.annotation is float else "N" for kind in parameters.values()]
    name = found.__name__.replace("_", "-")

    def make(*numbers: Any) -> Graph:
        import networkx as nx

        try:
            graph = found(*numbers[:-1], seed=numbers[-1]) if random else found(*numbers)
        except (ValueError, nx.NetworkXError) as error:
            raise RequestError(str(error)) from None
        if random and not nx.is_connected(graph):
            return Graph(len(graph))  # whatever its labels are: the next seed is tried
        return check_topology(graph, name)

    example = ":".join([name, *("0.5" if letter == "P" else "8" for letter in letters)])
    return Family(":".join([name, *letters]), example, make, random)


def _unknown(name: str, numbers: list[str]) -> str:
    if re.search(r"[/\\]|\.\w+$", name):
        return "no such file: correct the path"
    close = closest(name, TOPOLOGIES)
    hint = ""
    if close is not None:
        example = TOPOLOGIES[close].example
        meant = ":".join([close, *numbers])
        hint = f"; did you mean {meant if meant.count(':') == example.count(':') else example}?"
    known = ", ".join((*SPECS, "edges:0-1,1-2"))
    return f"unknown{hint}\nGive a file (.edges, .csv, .json, .graphml, .gml, .adjlist) or one of {known}"


def _numbers(family: Family, texts: list[str]) -> list[Any]:
    """Numbers of a spec: P and RADIUS may have a point, RxC are two."""
    form, letters = family.form, family.form.split(":")[1:]
    _need(len(texts) == len(letters), f"expected {form}, for example {family.example}")
    found: list[Any] = []
    for letter, text in zip(letters, texts, strict=True):
        read: Any = int
        pattern, wanted = WHOLE, "a whole number"
        if letter in ("P", "RADIUS"):
            read, pattern, wanted = float, "(.*)", "a number"
        elif letter == "RxC":
            pattern, wanted = f"{WHOLE}x{WHOLE}", "two whole numbers such as 3x4"
        match = re.fullmatch(pattern, text, re.ASCII)
        try:
            found += map(read, match.groups() if match else ("",))
        except ValueError:
            raise RequestError(f"{letter} must be {wanted}, got {short(text)}; the form is {form}") from None
    return found


def _need(held: bool, message: str) -> None:
    if not held:
        raise RequestError(message)


def _sized(nodes: int, edges: float) -> int:
    """Number of nodes of a graph with about so many edges, if a network may have as many."""
    _need(nodes >= 2, f"a network needs at least 2 agents, got {nodes}")
    _need(nodes <= MAX_NODES, f"{nodes:,} agents are beyond the limit of {MAX_NODES:,}")
    _need(edges <= MAX_EDGES, f"about {edges:,.0f} edges, the limit is {MAX_EDGES:,}; choose a sparser graph")
    return nodes


def _drawn(generator: str, *numbers: float, seed: int) -> Graph:
    """Graph of a random generator of networkx, connected or not."""
    import networkx as nx

    graph = getattr(nx, generator)(*numbers, seed=seed)
    return Graph(len(graph), graph.edges)


def _ring(n: int) -> Graph:
    _need(n >= 3, f"a ring needs N >= 3 agents, got {n}; for two agents use path:2")
    return Graph(_sized(n, n), pairwise((*range(n), 0)))


def _grid(rows: int, columns: int, least: int = 1) -> Graph:
    """Edges to the right and down; of a torus, at ``least`` 3, also round the back: with 2 rows they were parallel."""
    torus, n = least > 1, rows * columns
    kind, hint = ("torus", "; use grid") if torus else ("grid", "")
    _need(min(rows, columns) >= least, f"a {kind} needs R >= {least} and C >= {least}, got {rows}x{columns}{hint}")
    _sized(n, 2 * n - (0 if torus else rows + columns))
    edges = []
    for row, column in product(range(rows), range(columns)):
        if torus or column + 1 < columns:
            edges.append((row * columns + column, row * columns + (column + 1) % columns))
        if torus or row + 1 < rows:
            edges.append((row * columns + column, (row + 1) % rows * columns + column))
    return Graph(n, edges)


def _erdos_renyi(n: int, p: float, seed: int) -> Graph:
    _need(0 < p <= 1, f"erdos-renyi needs 0 < P <= 1, got {p}")
    if _sized(n, p * n * (n - 1) / 2) > FAST_ABOVE:
        return _drawn("fast_gnp_random_graph", n, p, seed=seed)
    coin = Random(seed).random  # as gnp_random_graph of networkx draws, which tosses none where p = 1
    return Graph(n, [edge for edge in combinations(range(n), 2) if p >= 1 or coin() < p])


def _small_world(n: int, k: int, p: float, seed: int) -> Graph:
    _need(2 <= k < n, f"small-world needs 2 <= K < N, got K={k} with N={n}")
    _need(k % 2 == 0, f"small-world needs an even K, got {k}; use {k - 1} or {k + 1}")
    _need(0 <= p <= 1, f"small-world needs 0 <= P <= 1, got {p}")
    return _drawn("watts_strogatz_graph", _sized(n, n * k / 2), k, p, seed=seed)


def _regular(n: int, k: int, seed: int) -> Graph:
    _need(2 <= k < n, f"regular needs 2 <= K < N, got K={k} with N={n}")
    _need(n * k % 2 == 0, f"regular needs N*K even, got {n}*{k}; change N or K by 1")
    _sized(n, n * k / 2)
    # pairing seldom succeeds near the complete graph; its complement is as regular and easy to draw
    if k > (n - 1) / 2:
        others = _drawn("random_regular_graph", n - 1 - k, n, seed=seed)
        return Graph(n, set(combinations(range(n), 2)).difference(others.edges))
    return _drawn("random_regular_graph", k, n, seed=seed)


def _barabasi_albert(n: int, m: int, seed: int) -> Graph:
    _need(1 <= m < n, f"barabasi-albert needs 1 <= M < N, got M={m} with N={n}")
    return _drawn("barabasi_albert_graph", _sized(n, m * (n - m)), m, seed=seed)


def _geometric(n: int, radius: float, seed: int) -> Graph:
    _need(0 < radius <= 2, f"geometric needs 0 < RADIUS <= 2 (agents lie in the unit square), got {radius}")
    edges = min(1.0, math.pi * radius**2) * n * (n - 1) / 2
    return _drawn("random_geometric_graph", _sized(n, edges), radius, seed=seed)


def _rarer(n: int, p: float) -> str:
    enough = min(1.0, (math.log(n) + 2) / n)  # connected with probability about exp(-e^-2)
    return f"the probability P={p} is too small for {n} agents, raise it ({enough:.2g} is often enough)"


_OURS = (
    Family("ring:N", "ring:5", _ring),
    Family("path:N", "path:5", lambda n: Graph(_sized(n, n - 1), pairwise(range(n)))),
    Family("star:N", "star:5", lambda n: Graph(_sized(n, n - 1), product((0,), range(1, n)))),
    Family("complete:N", "complete:5", lambda n: Graph(_sized(n, n * (n - 1) / 2), combinations(range(n), 2))),
    Family("grid:RxC", "grid:3x4", _grid),
    Family("torus:RxC", "torus:3x4", lambda rows, columns: _grid(rows, columns, 3)),
    Family("erdos-renyi:N:P", "erdos-renyi:20:0.3", _erdos_renyi, True, _rarer),
    Family(
        *("small-world:N:K:P", "small-world:20:4:0.1", _small_world, True),
        lambda n, k, p: f"K={k} neighbours are too few for P={p}, raise K or lower P",
    ),
    Family(
        *("regular:N:K", "regular:20:3", _regular, True),
        lambda n, k: f"K={k} neighbours are too few, raise K to 3 or more",
    ),
    Family("barabasi-albert:N:M", "barabasi-albert:20:2", _barabasi_albert, True),
    Family(
        *("geometric:N:RADIUS", "geometric:20:0.4", _geometric, True),
        lambda n, radius: f"the radius {radius} is too small for {n} agents, raise it",
    ),
)
SPECS = tuple(family.example for family in _OURS)
"""An example of every family of ours."""
TOPOLOGIES: Registry[Family] = Registry(
    "topology", "admmnet.topologies", {family.form.split(":")[0]: family for family in _OURS}, _adapted
)
"""Families of graphs by name."""
