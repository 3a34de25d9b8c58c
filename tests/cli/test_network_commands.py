"""admmnet network init, relay and agent: the files that they write and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet.transport.hosts import Keys, read_network, read_secret
from tests.command_runs import Admmnet


@pytest.fixture
def network(admmnet: Admmnet, tmp_path: Path) -> Path:
    told = admmnet.ok("network", "init", "ring:3", "--relay", "relay.example:7000", "-o", tmp_path / "net").out
    assert "3 agents, 3 edges, relay at tcp://relay.example:7000" in told
    return tmp_path / "net"


def test_each_has_its_key(network: Path) -> None:
    found = read_network(network / "network.toml")
    assert (found.edges, found.topology) == (((0, 1), (0, 2), (1, 2)), "ring:3")
    for peer in found.peers:
        own = read_secret(network / f"keys/agent-00{peer.agent}.secret.toml", peer.agent)
        assert (own.public, Keys.of(own).public) == (peer.identity, peer.public_key)
    assert Keys.of(read_secret(network / "keys/relay.secret.toml", None)).public == found.relay_key
    assert {oct(path.stat().st_mode)[-3:] for path in (network / "keys").iterdir()} == {"600"}


def test_agents_have_the_names_that_are_given(admmnet: Admmnet, tmp_path: Path) -> None:
    words = ("network", "init", "ring:3", "--relay", "a:1", "-o", tmp_path / "net", "--names")
    for names, told in (
        ("north,south", "--names has 2 names, and ring:3 3 agents"),
        ("north,2,south", "--names: '2' is no name"),
        ("north,south,north", "agents 0 and 2 have the same key or name: north"),
    ):
        assert told in admmnet.refused(*words, names)
    admmnet.ok(*words, "north, east,south")
    assert [peer.name for peer in read_network(tmp_path / "net/network.toml").peers] == ["north", "east", "south"]
    agent = ("agent", "--network", tmp_path / "net/network.toml", "--id")
    assert "--id west: the network file has the agents 0 to 2, or north, east, south" in admmnet.refused(*agent, "west")
    (tmp_path / "net/keys/agent-001.secret.toml").unlink()
    assert "agent-001.secret.toml" in admmnet.refused(*agent, "east", "--algorithm", "pp-admm", "--seed", "1")


def test_what_is_refused(network: Path, admmnet: Admmnet, tmp_path: Path) -> None:
    init, relay = ("network", "init", "ring:3", "--relay"), ("relay", "--network", network / "network.toml", "-o")
    assert "is not empty" in admmnet.refused(*init, "a:1", "-o", network)  # keys are never replaced
    for address in ("nowhere", "a b:1", "a:", "a:123456"):
        assert "is no address" in admmnet.refused(*init, address, "-o", tmp_path / "other")
    for quorum in ("1", "4", "most"):  # two parts could have it
        assert "more than half of 3 agents" in admmnet.refused(*relay, network / "end", "--quorum", quorum)
    admmnet.ok(*init, "a:1", "-o", tmp_path / "other")
    secret = ("--secret", tmp_path / "other/keys/relay.secret.toml")
    assert "lists another key of the relay" in admmnet.refused(*relay, network / "end", *secret)
