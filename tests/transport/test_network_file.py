"""The network file, its addresses and the key files: checked where they are read."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from admmnet import RequestError, load_topology
from admmnet.identity.keys import Identity
from admmnet.transport.hosts.keys import Z85, Keys, Secrets, check_key, read_secrets, write_secrets
from admmnet.transport.hosts.network import (
    Network,
    Peer,
    check_address,
    is_loopback,
    make_network,
    numbers_of,
    read_network,
    write_network,
)

PUBLIC = [Keys.fresh().public for _ in range(4)]
SIGNING = [Identity.fresh().public for _ in range(4)]


def plain(agents: int = 3, topology: str = "path:3") -> Network:
    peers = [Peer(i, f"tcp://127.0.0.1:{5570 + i}", identity=SIGNING[i]) for i in range(agents)]
    return make_network(topology, load_topology(topology).edges(), peers, curve=False)


def with_keys() -> Network:
    peers = [Peer(i, f"tcp://node-{i}.example:5570", PUBLIC[i], SIGNING[i]) for i in (2, 0, 1)]
    peers[0] = replace(peers[0], records=500, former=(SIGNING[3],), revoked=("0" * 64, "1" * 64))
    return make_network("star.edges", [[2, 0], [0, 1]], peers, curve=True, topology_seed=7)


@pytest.mark.parametrize("network", [plain(), with_keys()], ids=["plain", "curve"])
def test_a_network_is_read_as_it_was_written(network: Network, tmp_path: Path) -> None:
    write_network(network, tmp_path / "network.toml")
    again = read_network(tmp_path / "network.toml")
    assert again == network


def test_order_and_comments_do_not_matter(tmp_path: Path) -> None:
    network = with_keys()
    assert [peer.agent for peer in network.peers] == [0, 1, 2]
    assert network.edges == ((0, 1), (0, 2))
    assert [network.neighbours(i) for i in range(3)] == [(1, 2), (0,), (0,)]
    assert sorted(network.graph().edges) == [(0, 1), (0, 2)]
    write_network(network, tmp_path / "network.toml")
    head, *agents = (tmp_path / "network.toml").read_text().split("[[agents]]")
    (tmp_path / "network.toml").write_text(
        "# ours\n" + head.replace("[0, 1], [0, 2]", "[2, 0], [1, 0]") + "[[agents]]" + "\n[[agents]]".join(agents[::-1])
    )
    assert read_network(tmp_path / "network.toml") == network


GOOD = f"""
[network]
topology = "path:2"
curve = true
edges = [[0, 1]]

[[agents]]
agent = 0
address = "tcp://a:5570"
public_key = "{PUBLIC[0]}"
identity = "{SIGNING[0]}"

[[agents]]
agent = 1
address = "tcp://b:5570"
public_key = "{PUBLIC[1]}"
identity = "{SIGNING[1]}"
"""

FAULTS = {
    "no toml": ("[network]", "[network", "is not a TOML file"),
    "no network": ("[network]", "[else]", "unknown key `else`"),
    "no curve": ("curve = true\n", "", "network: missing key `curve`"),
    "unknown key": ("curve =", "curves = 1\ncurve =", "network: unknown key `curves`"),
    "unknown agent key": ("agent = 1\n", "agent = 1\nport = 3\n", "agents[1]: unknown key `port`"),
    "an address for nobody": ('address = "tcp://b:5570"\n', 'address = "tcp://b:5570"\ndial = "out"\n', "remove one"),
    "no address": ('address = "tcp://b:5570"\n', "", 'agent 1 has no address: give it one, or dial = "out"'),
    "no port": ("tcp://b:5570", "tcp://b", "'tcp://b' is no address"),
    "port 0": ("tcp://b:5570", "tcp://b:0", "port 1 to 65535"),
    "port too large": ("tcp://b:5570", "tcp://b:65536", "port 1 to 65535"),
    "wildcard": ("tcp://b:5570", "tcp://0.0.0.0:5570", "is no host"),
    "same address": ("tcp://b:5570", "tcp://a:5570", "agents 0 and 1 have the same address"),
    "same agent": ("agent = 1", "agent = 0", "agent 0 is listed twice"),
    "gap": ("agent = 1", "agent = 2", "edge 0-1: agent 1 has no address"),
    "negative": ("agent = 1", "agent = -1", "agents[1].agent: expected a whole number of at least 0; it is -1"),
    "same key": (PUBLIC[1], PUBLIC[0], "agents 0 and 1 have the same public_key"),
    "no key": (f'public_key = "{PUBLIC[1]}"', "", "agent 1 has no public_key"),
    "short key": (PUBLIC[1], PUBLIC[1][:-1], "is no key"),
    "key too large": (PUBLIC[1], "#" * 40, "is no key"),
    "no identity": (f'identity = "{SIGNING[1]}"', "", "agent 1 has no identity"),
    "same identity": (SIGNING[1], SIGNING[0], "agents 0 and 1 have the same signing key"),
    "short identity": (SIGNING[1], SIGNING[1][:-1], "is no signing key: it must be 64 hexadecimal digits"),
    "identity of a kind": (f'"{SIGNING[1]}"', "[3]", "agents[1].identity: expected text or null; it is [3]"),
    "still a former one": ("agent = 1\n", f'agent = 1\nformer = ["{SIGNING[1]}"]\n', "its identity is listed among"),
    "was revoked": ("agent = 1\n", f'agent = 1\nrevoked = ["{SIGNING[1]}"]\n', "its identity is listed among"),
    "another's former": ("agent = 1\n", f'agent = 1\nformer = ["{SIGNING[0]}"]\n', "have the same signing key"),
    "no list": ("agent = 1\n", "agent = 1\nformer = 3\n", "agents[1].former: expected a list; it is 3"),
    "no former key": ("agent = 1\n", "agent = 1\nformer = [[]]\n", "agents[1].former[0]: expected text; it is []"),
    "no records": (
        "agent = 1\n",
        "agent = 1\nrecords = 0\n",
        "agents[1].records: expected a whole number of at least 1; it is 0",
    ),
    "half a record": (
        "agent = 1\n",
        "agent = 1\nrecords = 1.5\n",
        "agents[1].records: expected a whole number or null; it is 1.5",
    ),
    "key without curve": ("curve = true", "curve = false", "would not be used"),
    "ipc": ("tcp://b:5570", "ipc:///run/b", "curve = true is for tcp"),
    "self-loop": ("[[0, 1]]", "[[0, 1], [1, 1]]", "self-loop 1-1"),
    "parallel": ("[[0, 1]]", "[[0, 1], [1, 0]]", "parallel edge 1-0"),
    "stranger": ("[[0, 1]]", "[[0, 1], [1, 2]]", "agent 2 has no address"),
    "unconnected": ("[[0, 1]]", "[]", "not connected"),
    "no pair": ("[[0, 1]]", "[[0, 1, 2]]", "network.edges[0]: expected a list of length 2; it is [0, 1, 2]"),
    "text": ("[[0, 1]]", '[["a", "b"]]', "network.edges[0][0]: expected a whole number; it is 'a'"),
    "flat": ("[[0, 1]]", "[0, 1]", "network.edges[0]: expected a list; it is 0"),
    "no name": ('"path:2"', '""', "network.topology: expected text of length at least 1; it is ''"),
    "seed": (
        "curve =",
        "topology_seed = -1\ncurve =",
        "network.topology_seed: expected a whole number of at least 0; it is -1",
    ),
    "name": ('"path:2"', "3", "network.topology: expected text; it is 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_network_file_is_refused(fault: str, tmp_path: Path) -> None:
    old, new, message = FAULTS[fault]
    path = tmp_path / "network.toml"
    path.write_text(GOOD)
    assert len(read_network(path).peers) == 2
    assert GOOD.count(old) == 1
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(RequestError) as caught:
        read_network(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_network_file(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no network file"):
        read_network(tmp_path / "network.toml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="not UTF-8"):
        read_network(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("address", "good", "leaves"),
    [
        ("tcp://127.0.0.1:1", True, False),
        ("tcp://localhost:65535", True, False),
        ("tcp://[::1]:5570", True, False),
        ("tcp://10.1.2.3:5570", True, True),
        ("tcp://node-b.example:5570", True, True),
        ("tcp://[fe80::1]:5570", True, True),
        ("ipc:///run/user/x", True, False),
        ("ipc://", False, False),
        ("tcp://*:5570", False, False),
        ("tcp://[::]:5570", False, False),
        ("tcp://[zz]:5570", False, False),
        ("tcp://a b:5570", False, False),
        ("udp://a:5570", False, False),
        ("", False, False),
    ],
)
def test_addresses(address: str, good: bool, leaves: bool) -> None:
    if not good:
        with pytest.raises(RequestError, match=r"^here: "):
            check_address(address, "here")
        return
    assert check_address(address, "here") == address
    assert Peer(0, address).exposed is leaves


def test_an_address_to_bind_is_a_number() -> None:
    assert Peer(0, "tcp://10.1.2.3:5570").listens_at() == "tcp://10.1.2.3:5570"
    assert Peer(0, "tcp://[::1]:5570").listens_at() == "tcp://[::1]:5570"
    assert Peer(0, "ipc:///run/x").listens_at() == "ipc:///run/x"
    host = Peer(0, "tcp://localhost:5570").listens_at().removeprefix("tcp://").rpartition(":")[0]
    assert is_loopback(host)
    assert host != "localhost"
    with pytest.raises(RequestError, match=r"agent 3: .* cannot be resolved"):
        Peer(3, "tcp://no-such-host.invalid:5570").listens_at()


@given(st.binary(min_size=32, max_size=32))
def test_every_key_of_32_bytes_is_one(key: bytes) -> None:
    from zmq.utils import z85

    text = z85.encode(key).decode()
    assert check_key(text, "key") == text
    assert set(text) <= set(Z85)


@pytest.mark.parametrize("key", [None, 3, "", "a" * 39, "a" * 41, "a" * 39 + " ", "~" * 40, "#" * 40])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(RequestError, match=r"^it is no key") as caught:
        check_key(key, "it")
    assert not isinstance(key, str) or len(key) < 10 or key not in str(caught.value)


# who dials


def dialling(out: set[int], topology: str) -> Network:
    peers = [
        Peer(i, "" if i in out else f"tcp://host:{5570 + i}", identity=SIGNING[i], dial="out" if i in out else "both")
        for i in range(4)
    ]
    return make_network(topology, load_topology(topology).edges(), peers, curve=False, source="hosts.txt")


def test_an_agent_may_only_dial(tmp_path: Path) -> None:
    network = dialling({1, 3}, "ring:4")
    write_network(network, tmp_path / "network.toml")
    assert (tmp_path / "network.toml").read_text().count('dial = "out"') == 2
    assert read_network(tmp_path / "network.toml") == network
    assert not network.peers[1].exposed
    own, *others = network.peers
    assert numbers_of(own, others) == []  # from where it dials is not known


@pytest.mark.parametrize(
    ("out", "topology", "message"),
    [
        ({2, 3}, "ring:4", "agents 2 and 3 share an edge, and both only dial"),
        ({2, 3}, "ring:4", "or take a graph without such edges: 0-1 0-3 1-2"),
        ({1, 2, 3}, "path:4", "or take a graph without such edges: 0-1 0-2 0-3"),
        ({0, 1, 2, 3}, "ring:4", "neither reaches the other; give one of them an address"),
    ],
)
def test_an_edge_of_two_that_only_dial_is_refused(out: set[int], topology: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        dialling(out, topology)
    assert str(caught.value).startswith("hosts.txt: ")
    assert message in str(caught.value)


# key files


def fresh() -> Secrets:
    return Secrets(Keys.fresh(), Identity.fresh())


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    path, secrets = tmp_path / "a.toml", fresh()
    assert secrets.keys is not None
    write_secrets(path, 3, secrets)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secrets(path, 3) == secrets
    assert secrets.keys.secret not in repr(secrets)
    assert secrets.identity.secret not in repr(secrets)
    assert zmq.curve_public(secrets.keys.secret.encode()).decode() == secrets.keys.public
    with pytest.raises(RequestError, match="cannot write the key file"):
        write_secrets(path, 3, fresh())
    assert read_secrets(path, 3) == secrets


def test_a_key_file_may_be_made_of_two(tmp_path: Path) -> None:
    secrets = fresh()
    write_secrets(tmp_path / "old", 3, secrets)
    curve = (tmp_path / "old").read_text().partition("[identity]")[0]
    write_secrets(tmp_path / "new", 3, Secrets(None, secrets.identity))
    assert read_secrets(tmp_path / "new", 3) == Secrets(None, secrets.identity)
    (tmp_path / "old").write_text(curve + (tmp_path / "new").read_text())
    assert read_secrets(tmp_path / "old", 3) == secrets


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_key_file_open_to_others_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    write_secrets(path, 3, fresh())
    path.chmod(mode)
    with pytest.raises(RequestError, match=rf"open to other users \(mode {mode:04o}\): chmod 600"):
        read_secrets(path, 3)
    path.chmod(0o400)
    read_secrets(path, 3)


def test_wrong_key_files(tmp_path: Path) -> None:
    one, two = fresh(), fresh()
    assert one.keys and two.keys  # noqa: PT018
    write_secrets(tmp_path / "good", 3, one)
    with pytest.raises(RequestError, match="key file of agent 3, not of agent 4"):
        read_secrets(tmp_path / "good", 4)
    for name, mixed in {
        "curve": Secrets(Keys(one.keys.public, two.keys.secret), one.identity),
        "signing": Secrets(one.keys, Identity(one.identity.public, two.identity.secret)),
    }.items():
        write_secrets(tmp_path / name, 3, mixed)
        with pytest.raises(RequestError, match="does not belong to the secret") as caught:
            read_secrets(tmp_path / name, 3)
        assert two.keys.secret not in str(caught.value)
        assert two.identity.secret not in str(caught.value)
    with pytest.raises(RequestError, match="cannot read the key file"):
        read_secrets(tmp_path / "none", 3)
    write_secrets(tmp_path / "cut", 3, one)
    text, (curve, signing) = (tmp_path / "cut").read_text(), (one.keys.secret, one.identity.secret)
    for content in (
        *("", text[:-10], text.replace("[key]", "[keys]"), text.replace("[identity]", "[others]")),
        *(text.replace(curve, curve[1:]), text.replace(signing, signing[1:])),
        *(text.replace(f'"{signing}"', "3"), "key = 3\n", "identity = 3\n"),
    ):
        (tmp_path / "cut").write_text(content)
        with pytest.raises(RequestError) as caught:
            read_secrets(tmp_path / "cut", 3)
        assert curve[1:-10] not in str(caught.value)
        assert signing[1:-10] not in str(caught.value)


def test_connections_come_from_the_neighbours_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: None, *, family: int, type: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        known = {"10.0.0.7": ["10.0.0.7"], "node-a": ["10.0.0.8", "10.0.0.9"], "::1": ["::1"]}
        if host not in known or (":" in host) != (family == socket.AF_INET6):
            raise socket.gaierror
        return [(family, type, 6, "", (number, 0)) for number in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    own, number, name = (Peer(i, f"tcp://{host}:1") for i, host in enumerate(("10.0.0.1", "10.0.0.7", "node-a")))
    assert numbers_of(own, [number, name]) == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
    # one that is not known, and all may come
    assert numbers_of(own, [number, Peer(3, "tcp://nowhere:1")]) == []
    assert numbers_of(own, [number, Peer(3, "tcp://[::1]:1")]) == []
    assert numbers_of(Peer(0, "tcp://[::2]:1"), [Peer(3, "tcp://[::1]:1")]) == ["::1"]
    assert numbers_of(Peer(0, "ipc:///a"), [Peer(3, "ipc:///b")]) == []
