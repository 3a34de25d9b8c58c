"""What every transport must do holds over MPI and ZeroMQ. As a program ``FOLDER RANK``: one process of ZeroMQ."""

from __future__ import annotations

import sys
import threading
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.graph.simple import Tree, spanning_tree
from admmnet.identity.keys import Identity
from admmnet.log import Hearer
from admmnet.transport import World
from admmnet.transport.hosts import Keys, Peer, make_network, read_network, read_secret, write_network, write_secret
from admmnet.transport.zmq.meeting import Standing
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.relay import Relay, Terms, forward
from admmnet.transport.zmq.wire import Topic, Topics
from tests.transport.conformance import (
    carry_out,
    collected,
    gather_brings_json_values_in_rank_order,
    heard,
    run_ahead,
    summed,
)

from .launch import mpirun, start_all
from .proxy import free_port

pytestmark = pytest.mark.processes
ANY = Topics({"ready": Topic(Any)})
"""Of a run that says anything."""


def vectors(world: World) -> None:
    """Of one agent a process."""
    for spec in (f"path:{world.size}", f"complete:{world.size}"):
        carry_out(world, spec, run_ahead, heard(), collected(1), collected(4))
        carry_out(world, spec, heard(lambda t, i: np.full(1 if i == 1 else 60_000 + i, t + i / 7)), rounds=3)


def sums(world: World) -> None:
    """Of one agent a process, on any tree."""
    for spec in (f"path:{world.size}", f"complete:{world.size}"):
        for how in ({}, {"speak": lambda round, i: (round + i) % 3 == 0}, {"tree": every_second}):
            carry_out(world, spec, summed(**how))


def every_second(graph: Any, round: int) -> Tree | None:
    return spanning_tree(graph) if round % 2 else None


CHECKS = (gather_brings_json_values_in_rank_order, vectors, sums)


def conform(folder: Path, rank: int) -> None:
    network, identity = read_network(folder / "network.toml"), read_secret(folder / str(rank), rank)
    keys = None if network.relay_key is None else Keys.of(identity)
    own: dict[str, Any] = {"keys": keys, "identity": identity, "connect": 20.0, "heartbeat": 20.0}
    member = Member(network, rank, settings={}, topics=ANY, quorum=len(network.peers), **own)
    member.meet(Standing())
    for check in CHECKS:
        check(member)
    sys.stdout.write(f"{len(CHECKS)} checks hold, {member.dropped} frames were dropped\n")
    member.close()


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_mpi_conforms(ranks: int) -> None:
    ended = mpirun(ranks, "-m", "tests.transport.conformance")
    assert ended.code == 0, ended.err
    assert f"checks hold on {ranks} ranks of mpi" in ended.out


@pytest.mark.parametrize(("size", "curve"), [(2, True), (3, False), (4, True), (5, False)])
def test_zmq_conforms(size: int, curve: bool, tmp_path: Path) -> None:
    """Of a complete network, with a relay in this process."""
    own, identities = Identity.fresh(), [Identity.fresh() for _ in range(size)]
    peers = [Peer(i, one.public, Keys.of(one).public) for i, one in enumerate(identities)]
    address = f"tcp://127.0.0.1:{free_port()}" if curve else f"ipc://{tmp_path}/relay"
    keys = Keys.of(own) if curve else None
    network = make_network(
        "test", [*combinations(range(size), 2)], peers, address, None if keys is None else keys.public
    )
    write_network(network, tmp_path / "network.toml")
    for i, one in enumerate(identities):
        write_secret(tmp_path / str(i), i, one)
    relay, over = Relay(network, Terms(size), ANY, keys=keys), threading.Event()
    thread = threading.Thread(target=forward, args=(relay, over.is_set))
    thread.start()
    words = [sys.executable, "-m", "tests.processes.test_conformance", str(tmp_path)]
    try:
        ends = start_all([[*words, str(i)] for i in range(size)])
    finally:
        over.set()
        thread.join()
        relay.close()
    for ended in ends:
        assert (ended.code, ended.out) == (0, f"{len(CHECKS)} checks hold, 0 frames were dropped\n"), ended.err


def test_a_relay_of_too_few_agents_is_silent_until_one_comes(tmp_path: Path) -> None:
    peers, said = [Peer(i, Identity.fresh().public) for i in range(3)], list[dict[str, Any]]()
    relay = Relay(make_network("test", [(0, 1), (1, 2)], peers, f"ipc://{tmp_path}/relay"), Terms(2), ANY)
    relay.strikes.out |= {0: "late", 1: "late"}
    with Hearer(said.append):
        for _ in range(3):
            relay.serve(0.3)
    relay.close()
    assert said == []


if __name__ == "__main__":
    conform(Path(sys.argv[1]), int(sys.argv[2]))
