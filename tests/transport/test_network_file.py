"""network.toml and key files: what is written is read back, and what is wrong is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from admmnet.errors import RequestError
from admmnet.identity.keys import Identity
from admmnet.transport.hosts import (
    Keys,
    Network,
    Peer,
    make_network,
    read_network,
    read_secret,
    write_network,
    write_secret,
)

EDGES = [(0, 1), (1, 2)]
RELAY = "tcp://relay.example:5570"
WRONG = ["", "2", "a b", "é", "\\u001b[2J", "a" * 41]
"""What is no name of an agent."""
OWN = Identity.fresh()


def plain(agents: int) -> tuple[list[Peer], list[Identity]]:
    """Agents on one machine, and their keys."""
    identities = [Identity.fresh() for _ in range(agents)]
    return [Peer(i, one.public) for i, one in enumerate(identities)], identities


PEERS, IDENTITIES = plain(3)


def named(*names: str | None) -> list[Peer]:
    return [replace(peer, name=name) for peer, name in zip(PEERS, names, strict=True)]


def encrypted() -> Network:
    peers = [Peer(i, one.public, Keys.of(one).public) for i, one in enumerate(IDENTITIES)]
    return make_network("path:3", EDGES, peers, RELAY, Keys.of(OWN).public)


@pytest.mark.parametrize("network", [encrypted(), make_network("path:3", EDGES, named("a", None, "c-3"), "ipc:///r")])
def test_what_is_written_is_read_back(network: Network, tmp_path: Path) -> None:
    write_network(network, tmp_path / "network.toml")
    assert read_network(tmp_path / "network.toml") == network


def test_the_relay_may_move_and_nothing_else() -> None:
    network = encrypted()
    moved = make_network("path:3", EDGES, network.peers, "tcp://other:1", Keys.of(Identity.fresh()).public)
    fewer = make_network("path:3", [(0, 1), (0, 2)], network.peers, RELAY, network.relay_key)
    peers = [replace(network.peers[0], name="a"), *network.peers[1:]]
    called = make_network("path:3", EDGES, peers, RELAY, network.relay_key)
    assert moved.digest == network.digest
    assert len({network.digest, fewer.digest, called.digest}) == 3


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (RELAY, "relay.example", "is no address"),
        ("relay_key", "other_key", "other_key"),
        ("agent = 2", "agent = 3", "numbered 0 to 2"),
        ("agent = 2", "agent = 1", "numbered 0 to 2"),
        ("[1, 2]", "[1, 5]", "there is no such agent"),
        ("[1, 2]", "[0, 1]", "parallel edge"),
        ('identity = "', 'identity = "x', "is no signing key"),
        ('public_key = "', 'public_key = "x', "is no key"),
        ("relay_key = ", f'relay_key = "{"#" * 40}" #', "is no key"),
        *(("agent = 2", f'agent = 2\nname = "{name}"', "agents[2].name") for name in WRONG),
        ("topology = ", "topology = 7 #", "topology"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    write_network(encrypted(), path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RequestError, match=r"network\.toml") as caught:
        read_network(path)
    assert told in str(caught.value)


def test_an_agent_has_a_number_and_perhaps_a_name() -> None:
    network = make_network("path:3", EDGES, named("north", None, "south"), "ipc://relay")
    assert [network.agent(asked) for asked in ("0", "north", "1", "south")] == [0, 0, 1, 2]
    assert [peer.called for peer in network.peers] == ["agent 0 (north)", "agent 1", "agent 2 (south)"]
    for asked in ("3", "-1", "01", "None", "North", ""):
        with pytest.raises(RequestError, match=f"--id {asked}: .* has the agents 0 to 2, or north, south"):
            network.agent(asked)


def test_two_agents_have_two_keys_and_names() -> None:
    with pytest.raises(RequestError, match="agents 0 and 2 have the same key or name: north"):
        make_network("path:3", EDGES, named("north", None, "north"), "ipc://relay")
    peers = named(None, None, None)
    with pytest.raises(RequestError, match="agents 0 and 2 have the same key"):
        make_network("path:3", EDGES, [*peers[:2], replace(peers[0], agent=2)], "ipc://relay")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.chmod(0o640), "is open to other users"),
        (lambda path: path.unlink(), "there is no key file|No such file"),
        (lambda path: path.write_text("[identity]\nagent = 4\n"), "is not the key file of agent 3"),
        (lambda path: path.write_text(path.read_text().replace("public", "other")), "is no signing key"),
        (lambda path: path.write_text(path.read_text().replace(OWN.public, IDENTITIES[0].public)), "does not belong"),
        (lambda path: path.write_text("[identity\n"), "is not a TOML file"),
    ],
)
def test_a_key_file_is_its_owners(spoil: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    write_secret(path := tmp_path / "key", 3, OWN)
    assert read_secret(path, 3) == OWN
    assert Keys.of(OWN).secret not in path.read_text() + repr(Keys.of(OWN))
    spoil(path)
    with pytest.raises(RequestError, match=told) as caught:
        read_secret(path, 3)
    assert OWN.secret not in str(caught.value)


def test_a_credential_of_systemd_is_no_open_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its access list names the service's user, as if it were its group; others may not read it either."""
    write_secret(key := tmp_path / "key", 0, OWN)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    key.chmod(0o440)
    assert read_secret(key, 0) == OWN
    key.chmod(0o444)
    with pytest.raises(RequestError, match="is open to other users"):
        read_secret(key, 0)
