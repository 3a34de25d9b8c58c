"""Which agents are solved together, and which process hosts them: decided by the graph alone, the same everywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from admmnet.errors import RequestError

if TYPE_CHECKING:
    from admmnet.graph.simple import Graph

SINGLE = 64
"""Up to this many agents every agent is a block of its own: small runs are bitwise equal everywhere."""
LARGEST, FEWEST = 128, 8
"""Above that: most agents of an automatic block, and how many blocks there are at least."""


Blocks = tuple[tuple[tuple[int, ...], ...], ...]
"""Of every process its blocks, each a tuple of agents that are solved together, in ascending order."""


def owners_of(blocks: Blocks) -> tuple[tuple[int, ...], ...]:
    """Agents of every process, ascending."""
    return tuple(tuple(sorted(i for block in own for i in block)) for own in blocks)


def automatic_block(agents: int, size: int) -> int:
    """Agents a block where the setting is ``auto``: it depends on the processes only where they outnumber blocks.

    Every process has one then: of as many agents each as there can be, the last of fewer, where that leaves none out.
    """
    wanted, most = 1 if agents <= SINGLE else min(LARGEST, agents // FEWEST), -(-agents // size)
    return max(1, min(wanted, most if -(-agents // most) == size else agents // size))


def layout(graph: Graph, block: int, size: int) -> Blocks:
    """Cut the agents into blocks and deal these to processes, neighbours close together.

    Agents are taken in their own order, or in the reverse Cuthill-McKee order where that makes the sum over
    edges of the distance between their places shorter. The blocks do not depend on the number of processes. With
    as many processes as agents, agent i is at process i.

    Parameters
    ----------
    graph : networkx.Graph
        Nodes 0 to N - 1.
    block : int
        Agents a block; the last one may have fewer.
    size : int
        Number of processes.

    Raises
    ------
    RequestError
        If there are more processes than agents or than blocks.
    """
    agents = len(graph)
    if size > agents:
        raise RequestError(
            f"{size} ranks for {agents} agents: there must be at most one rank an agent; "
            f"start {agents} ranks or fewer, or take a graph with more agents"
        )
    alone = size == agents or size == block == 1  # no neighbours to bring together
    order = list(range(agents)) if alone else _order(graph)
    blocks = [tuple(sorted(order[start : start + block])) for start in range(0, agents, block)]
    if size > len(blocks):
        raise RequestError(
            f"{size} ranks for {len(blocks)} blocks of {block} agents: there must be at most one rank a block; "
            f"start {len(blocks)} ranks or fewer, or lower --block to {agents // size}"
        )
    edges = [rank * len(blocks) // size for rank in range(size + 1)]
    return tuple(tuple(sorted(blocks[low:high])) for low, high in pairwise(edges))


def _order(graph: Graph) -> list[int]:
    import numpy as np  # here: the command line starts faster

    agents = len(graph)
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    natural = int(np.abs(edges[:, 0] - edges[:, 1]).sum())
    if natural <= len(edges):  # a path: no order is shorter
        return list(range(agents))
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    ends = np.concatenate([edges, edges[:, ::-1]])
    # sorted by rows and columns, so that the order of the edges in a file makes no difference
    matrix = coo_array((np.ones(len(ends)), ends.T), shape=(agents, agents)).tocsr()
    matrix.sort_indices()
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    place = np.empty(agents, dtype=np.int64)
    place[order] = np.arange(agents)
    distance = int(np.abs(place[edges[:, 0]] - place[edges[:, 1]]).sum())
    return [int(i) for i in order] if distance < natural else list(range(agents))
