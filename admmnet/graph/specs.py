"""Networks named by a short spec such as ``ring:5``; the random ones are those of the networkx generators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from inspect import signature
from itertools import combinations, pairwise, product
from random import Random
from typing import Any, NamedTuple

from admmnet.errors import RequestError, short
from admmnet.graph.checks import MAX_EDGES, MAX_NODES, check_topology
from admmnet.graph.simple import Graph, parts_of
from admmnet.registry import Registry, closest

FAST_ABOVE = 1000
"""Nodes above which erdos-renyi uses the linear-time generator instead of the quadratic one."""


class _Plan(NamedTuple):
    nodes: int
    edges: float  # expected number
    make: Callable[[int], Graph]  # takes a seed
    remedy: str = ""  # of a random graph that comes out unconnected; "" if it never does


class Family(NamedTuple):
    """Graphs with a name: the form of their specs, one of them, how numbers become a plan, whether a seed decides.

    A package adds a family by a function of the spec's numbers, such as ``def wheel(n: int) -> nx.Graph``; ``float``
    parameters read numbers with a point, and one called ``seed`` makes the family random.
    """

    form: str
    example: str
    plan: Callable[..., _Plan]
    random: bool = False


_FAMILIES: dict[str, Family | str] = {}


def _family(form: str, example: str, random: bool = False) -> Callable[[Callable[..., _Plan]], None]:
    """Register a family of ours under the name that its form starts with."""

    def register(plan: Callable[..., _Plan]) -> None:
        _FAMILIES[form.split(":")[0]] = Family(form, example, plan, random)

    return register


class _Bad(Exception):
    """A parameter is out of range; becomes a RequestError that names the spec."""


def build_spec(spec: str, seed: int) -> Graph:
    """Network of a spec, one of the forms of `SPECS`; the random ones try seeds from `seed` on."""
    if seed < 0:
        raise RequestError(f"topology {spec}: seed must be 0 or more, got {seed}")
    try:
        plan = _plan(spec)
    except _Bad as error:
        raise RequestError(f"topology {short(spec)}: {error}") from None
    if not plan.remedy:
        return plan.make(seed)
    tries = max(20, min(1000, 1_000_000 // plan.nodes))  # a bound on the work as well as on the number
    for attempt in range(seed, seed + tries):
        graph = plan.make(attempt)
        if len(parts_of(graph)) == 1:
            return graph
    raise RequestError(f"topology {spec}: no connected graph with seeds {seed} to {seed + tries - 1}; {plan.remedy}")


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

    def plan(*numbers: float) -> _Plan:
        def make(seed: int) -> Graph:
            import networkx as nx

            try:
                graph = found(*numbers, seed=seed) if random else found(*numbers)
            except (ValueError, nx.NetworkXError) as error:
                raise RequestError(f"topology {name}: {error}") from None
            if random and not nx.is_connected(graph):
                return Graph(len(graph))  # whatever its labels are: the next seed is tried
            return check_topology(graph, f"topology {name}")

        first = make(0)
        remedy = "choose other numbers" if random else ""
        return _Plan(len(first), len(first.edges), make, remedy)

    example = ":".join([name, *("0.5" if letter == "P" else "8" for letter in letters)])
    return Family(":".join([name, *letters]), example, plan, random)


def _plan(spec: str) -> _Plan:
    name, values = _parts(spec)
    if name not in TOPOLOGIES:
        raise _Bad(_unknown(name, spec.split(":")[1:]))
    family = TOPOLOGIES[name]
    _, *letters = family.form.split(":")
    if len(values) != len(letters):
        raise _Bad(f"expected {family.form}, for example {family.example}")
    numbers: list[Any] = []
    for letter, text in zip(letters, values, strict=True):
        numbers += _parse(letter, text, family.form)
    plan = family.plan(*numbers)
    if plan.nodes < 2:
        raise _Bad(f"a network needs at least 2 agents, got {plan.nodes}")
    if plan.nodes > MAX_NODES:
        raise _Bad(f"{plan.nodes:,} agents are beyond the limit of {MAX_NODES:,}")
    if plan.edges > MAX_EDGES:
        raise _Bad(f"about {plan.edges:,.0f} edges, the limit is {MAX_EDGES:,}; choose a sparser graph")
    return plan


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


def _parse(letter: str, text: str, form: str) -> list[int] | list[float]:
    if letter in ("P", "RADIUS"):
        try:
            return [float(text)]
        except ValueError:
            raise _Bad(f"{letter} must be a number, got {short(text)}; the form is {form}") from None
    parts = text.split("x") if letter == "RxC" else [text]
    if len(parts) != 1 + (letter == "RxC") or not all(re.fullmatch(r"-?[0-9]{1,12}", part, re.ASCII) for part in parts):
        wanted = "two whole numbers such as 3x4" if letter == "RxC" else "a whole number"
        raise _Bad(f"{letter} must be {wanted}, got {short(text)}; the form is {form}")
    return [int(part) for part in parts]


def _drawn(generator: str, *numbers: float, seed: int) -> Graph:
    """Graph of a random generator of networkx, connected or not."""
    import networkx as nx

    graph = getattr(nx, generator)(*numbers, seed=seed)
    return Graph(len(graph), graph.edges)


def _need(held: bool, message: str) -> None:
    if not held:
        raise _Bad(message)


@_family("ring:N", "ring:5")
def _ring(n: int) -> _Plan:
    _need(n >= 3, f"a ring needs N >= 3 agents, got {n}; for two agents use path:2")
    return _Plan(n, n, lambda seed: Graph(n, [(i, (i + 1) % n) for i in range(n)]))


@_family("path:N", "path:5")
def _path(n: int) -> _Plan:
    return _Plan(n, n - 1, lambda seed: Graph(n, pairwise(range(n))))


@_family("star:N", "star:5")
def _star(n: int) -> _Plan:
    return _Plan(n, n - 1, lambda seed: Graph(n, [(0, i) for i in range(1, n)]))


@_family("complete:N", "complete:5")
def _complete(n: int) -> _Plan:
    return _Plan(n, n * (n - 1) / 2, lambda seed: Graph(n, combinations(range(n), 2)))


@_family("grid:RxC", "grid:3x4")
def _grid(rows: int, columns: int) -> _Plan:
    _need(rows >= 1 and columns >= 1, f"a grid needs R >= 1 and C >= 1, got {rows}x{columns}")
    n = rows * columns
    return _Plan(n, 2 * n - rows - columns, lambda seed: Graph(n, _grid_edges(rows, columns)))


def _grid_edges(rows: int, columns: int, periodic: bool = False) -> Iterator[tuple[int, int]]:
    """Edges to the right and down; of a torus also round the back."""
    for row, column in product(range(rows), range(columns)):
        if periodic or column + 1 < columns:
            yield row * columns + column, row * columns + (column + 1) % columns
        if periodic or row + 1 < rows:
            yield row * columns + column, (row + 1) % rows * columns + column


@_family("torus:RxC", "torus:3x4")
def _torus(rows: int, columns: int) -> _Plan:
    # with 2 rows the edge round the back is parallel to the one in front
    _need(rows >= 3 and columns >= 3, f"a torus needs R >= 3 and C >= 3, got {rows}x{columns}; use grid")
    n = rows * columns
    return _Plan(n, 2 * n, lambda seed: Graph(n, _grid_edges(rows, columns, periodic=True)))


@_family("erdos-renyi:N:P", "erdos-renyi:20:0.3", random=True)
def _erdos_renyi(n: int, p: float) -> _Plan:
    _need(0 < p <= 1, f"erdos-renyi needs 0 < P <= 1, got {p}")

    def make(seed: int) -> Graph:
        if n > FAST_ABOVE:
            return _drawn("fast_gnp_random_graph", n, p, seed=seed)
        coin = Random(seed).random  # as gnp_random_graph of networkx draws, which tosses none where p = 1
        return Graph(n, [edge for edge in combinations(range(n), 2) if p >= 1 or coin() < p])

    enough = min(1.0, (math.log(n) + 2) / n) if n > 1 else 1.0  # connected with probability about exp(-e^-2)
    remedy = f"the probability P={p} is too small for {n} agents, raise it ({enough:.2g} is often enough)"
    return _Plan(n, p * n * (n - 1) / 2, make, remedy)


@_family("small-world:N:K:P", "small-world:20:4:0.1", random=True)
def _small_world(n: int, k: int, p: float) -> _Plan:
    _need(2 <= k < n, f"small-world needs 2 <= K < N, got K={k} with N={n}")
    _need(k % 2 == 0, f"small-world needs an even K, got {k}; use {k - 1} or {k + 1}")
    _need(0 <= p <= 1, f"small-world needs 0 <= P <= 1, got {p}")
    remedy = f"K={k} neighbours are too few for P={p}, raise K or lower P"
    return _Plan(n, n * k / 2, lambda seed: _drawn("watts_strogatz_graph", n, k, p, seed=seed), remedy)


@_family("regular:N:K", "regular:20:3", random=True)
def _regular(n: int, k: int) -> _Plan:
    _need(2 <= k < n, f"regular needs 2 <= K < N, got K={k} with N={n}")
    _need(n * k % 2 == 0, f"regular needs N*K even, got {n}*{k}; change N or K by 1")

    def make(seed: int) -> Graph:
        # pairing seldom succeeds near the complete graph; its complement is as regular and easy to draw
        if k > (n - 1) / 2:
            others = _drawn("random_regular_graph", n - 1 - k, n, seed=seed)
            return Graph(n, set(combinations(range(n), 2)).difference(others.edges))
        return _drawn("random_regular_graph", k, n, seed=seed)

    return _Plan(n, n * k / 2, make, f"K={k} neighbours are too few, raise K to 3 or more")


@_family("barabasi-albert:N:M", "barabasi-albert:20:2", random=True)
def _barabasi_albert(n: int, m: int) -> _Plan:
    _need(1 <= m < n, f"barabasi-albert needs 1 <= M < N, got M={m} with N={n}")
    return _Plan(n, m * (n - m), lambda seed: _drawn("barabasi_albert_graph", n, m, seed=seed))


@_family("geometric:N:RADIUS", "geometric:20:0.4", random=True)
def _geometric(n: int, radius: float) -> _Plan:
    _need(0 < radius <= 2, f"geometric needs 0 < RADIUS <= 2 (agents lie in the unit square), got {radius}")
    remedy = f"the radius {radius} is too small for {n} agents, raise it"
    edges = min(1.0, math.pi * radius**2) * n * (n - 1) / 2
    return _Plan(n, edges, lambda seed: _drawn("random_geometric_graph", n, radius, seed=seed), remedy)


SPECS = tuple(family.example for family in _FAMILIES.values() if isinstance(family, Family))
"""An example of every family of ours."""
TOPOLOGIES: Registry[Family] = Registry("topology", "admmnet.topologies", _FAMILIES, _adapted)
"""Families of graphs by name."""
