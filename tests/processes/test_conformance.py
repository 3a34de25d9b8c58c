from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from admmnet.identity.keys import Identity
from admmnet.transport.hosts.keys import Keys, write_secret
from admmnet.transport.hosts.network import Network, Peer, make_network, write_network
from admmnet.transport.zmq.relay import Relay, Terms, forward

from .launch import mpirun, start_all
from .proxy import free_ports
from .zmq_conforming import ANY, CHECKS

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_mpi_conforms(ranks: int) -> None:
    ended = mpirun(ranks, "-m", "tests.transport.conformance")
    assert ended.code == 0, ended.err
    assert f"checks hold on {ranks} ranks of mpi" in ended.out


@contextmanager
def relayed(folder: Path, size: int, *, curve: bool) -> Iterator[Network]:
    """A relay in this process, and what agents of a complete network need, in a folder."""
    own, identities = Identity.fresh(), [Identity.fresh() for _ in range(size)]
    peers = [Peer(i, one.public, Keys.of(one).public) for i, one in enumerate(identities)]
    address = f"tcp://127.0.0.1:{free_ports(1)[0]}" if curve else f"ipc://{folder}/relay"
    key = Keys.of(own).public if curve else None
    network = make_network("test", [*combinations(range(size), 2)], peers, address, key)
    write_network(network, folder / "network.toml")
    for i, one in enumerate(identities):
        write_secret(folder / str(i), i, one)
    relay, over = Relay(network, Terms(size), ANY, keys=Keys.of(own) if curve else None), threading.Event()
    thread = threading.Thread(target=forward, args=(relay, over.is_set))
    thread.start()
    try:
        yield network
    finally:
        over.set()
        thread.join()
        relay.close()


@pytest.mark.parametrize(("size", "curve"), [(2, True), (3, False), (4, True), (5, False)])
def test_zmq_conforms(size: int, curve: bool, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.processes.zmq_conforming", str(tmp_path)]
    with relayed(tmp_path, size, curve=curve):
        for ended in start_all([[*words, str(i)] for i in range(size)]):
            assert (ended.code, ended.out) == (0, f"{len(CHECKS)} checks hold, 0 frames were dropped\n"), ended.err
