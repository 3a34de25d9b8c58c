"""One process of a ZeroMQ network that does what every transport must: ``zmq_conforming.py FOLDER RANK``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from admmnet.graph.tree import spanning_tree
from admmnet.transport import World
from admmnet.transport.begun import Begun
from admmnet.transport.hosts.keys import Keys, read_secret
from admmnet.transport.hosts.network import read_network
from admmnet.transport.zmq.meeting import Standing
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.topics import Topic, Topics
from admmnet.transport.zmq.transport import ZmqWorld
from tests.transport.conformance import CHECKS as ALL
from tests.transport.spoken import connected
from tests.transport.sum_checks import SUM_CHECKS, sum_rounds


def sums(world: World) -> None:
    """Of one agent a process, on any tree."""
    for spec in (f"path:{world.size}", f"complete:{world.size}"):
        with connected(world, spec) as (transport, graph):
            tree = spanning_tree(graph)
            sum_rounds(transport, graph, lambda round, tree=tree: tree, lambda round, i: True)  # type: ignore[misc]
            sum_rounds(transport, graph, lambda round, tree=tree: tree, lambda round, i: (round + i) % 3 == 0)  # type: ignore[misc]
            sum_rounds(transport, graph, lambda round, tree=tree: tree if round % 2 else None, lambda round, i: True)  # type: ignore[misc]


ANY = Topics({"ready": Topic(Any)})
"""Of a run that says anything."""
CHECKS = (*(check for check in ALL if check not in SUM_CHECKS), sums)


def main(folder: Path, rank: int) -> None:
    network, identity = read_network(folder / "network.toml"), read_secret(folder / str(rank), rank)
    keys = None if network.relay_key is None else Keys.of(identity)
    own: dict[str, Any] = {"keys": keys, "identity": identity, "connect": 20.0, "heartbeat": 20.0}
    member = Member(network, rank, settings={}, topics=ANY, quorum=len(network.peers), **own)
    start = member.meet(Standing())
    world = ZmqWorld(member, Begun(start.name, 0, tuple(start.members), tuple(start.edges)))
    for check in CHECKS:
        check(world)
    sys.stdout.write(f"{len(CHECKS)} checks hold, {member.dropped} frames were dropped\n")
    world.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
