"""Where the agents of a network are: network.toml, and one key pair an agent (docs/hosts.md).

The network file is public and the same everywhere: the graph, every agent's address and public keys, those of
before, too. Secret keys lie in a file of their own, on their agent's host alone.
"""

import hashlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from admmnet.errors import RequestError, printable
from admmnet.files import refusing
from admmnet.form_errors import said
from admmnet.graph.checks import Collector
from admmnet.graph.simple import Graph, parts_of
from admmnet.identity.keys import check_identity
from admmnet.transport.hosts.keys import as_toml, check_key, read_toml

_TCP = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.%\w]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_ANYWHERE = (ipaddress.ip_address("0.0.0.0"), ipaddress.ip_address("::"))


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One agent as the others see it, and as the network file has it."""

    agent: Annotated[int, msgspec.Meta(ge=0)]
    address: str = ""
    """Where its neighbours reach it: ``tcp://HOST:PORT`` or ``ipc://PATH``; "" where they cannot."""
    public_key: str | None = None
    """Z85, 40 letters; None without CURVE."""
    identity: str | None = None
    """Public half of its signing key, which every agent of a network has."""
    records: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Most records that it is believed to hold; None for any number."""
    dial: Literal["both", "out"] = "both"
    """Whether its neighbours dial it, too, or it has no address and dials them alone."""
    former: tuple[str, ...] = ()
    """Signing keys that it had before: their signatures still count."""
    revoked: tuple[str, ...] = ()
    """Signing keys that others may have had: their signatures prove nothing by themselves."""

    @property
    def exposed(self) -> bool:
        """Whether its messages leave the machine."""
        return self.address.startswith("tcp://") and not is_loopback(host_of(self.address))

    def listens_at(self) -> str:
        """Address to bind: a host name becomes its IPv4 number, because ZeroMQ binds to numbers alone.

        The neighbours' sockets look a name up in IPv4 alone, too; an IPv6 number is written as one.
        """
        if self.address.startswith("ipc://"):
            return self.address
        host, port = host_of(self.address), self.address.rpartition(":")[2]
        if _number(host) is None:
            try:
                found = socket.getaddrinfo(host, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
                host = str(found[0][4][0])
            except OSError as error:
                raise RequestError(
                    f"agent {self.agent}: the host of its address {self.address} cannot be resolved to an IPv4 number: "
                    f"{error.strerror}"
                ) from None
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


@dataclass(frozen=True)
class Network:
    """A graph of agents with their addresses and public keys."""

    topology: str
    """The spec or the file's name that the edges came from."""
    edges: tuple[tuple[int, int], ...]
    """Smaller number first, in order."""
    peers: tuple[Peer, ...]
    """In the order of their numbers, 0 to N-1."""
    curve: bool
    """Whether links are encrypted and authenticated."""
    topology_seed: int = 0

    def neighbours(self, agent: int) -> tuple[int, ...]:
        """Return the agents that share an edge with this one, in order."""
        return tuple(sorted(i + j - agent for i, j in self.edges if agent in (i, j)))

    @property
    def exposed(self) -> tuple[Peer, ...]:
        """Agents whose messages leave the machine in clear."""
        return () if self.curve else tuple(peer for peer in self.peers if peer.exposed)

    @property
    def digest(self) -> str:
        """Digest of what must be the same in every process's network file.

        Addresses need not be: a host may be known by another address behind a gate.
        """
        peers = [[peer.agent, peer.public_key, peer.identity, peer.records] for peer in self.peers]
        content = repr([self.topology, self.curve, sorted(self.edges), peers])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def graph(self) -> Graph:
        """Return the graph: nodes 0..N-1 and edges in order."""
        return Graph(len(self.peers), self.edges)


def host_of(address: str) -> str:
    """Host of a tcp address, without the brackets of IPv6."""
    return address.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def port_of(address: str) -> int:
    """Port of a tcp address; 0 of others."""
    return int(address.rpartition(":")[2]) if address.startswith("tcp://") else 0


def numbers_of(own: Peer, neighbours: Iterable[Peer]) -> list[str]:
    """Numbers of the hosts that neighbours' connections come from, in the family that an agent listens in.

    Empty, so that all may come, where one of them is not known: a name that does not resolve, ipc, another family, an
    agent without address.
    """
    family = socket.AF_INET6 if "[" in own.address else socket.AF_INET
    numbers: set[str] = set()
    for peer in neighbours:
        if not peer.address.startswith("tcp://") or "%" in peer.address:
            return []
        try:
            found = socket.getaddrinfo(host_of(peer.address), None, family=family, type=socket.SOCK_STREAM)
        except OSError:
            return []
        numbers |= {str(place[4][0]) for place in found}
    return sorted(numbers)


def is_loopback(host: str) -> bool:
    """Whether what goes to this host stays on this machine."""
    number = _number(host)
    return host.lower() == "localhost" or (number is not None and number.is_loopback)


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def check_address(address: object, where: str) -> str:
    """Return an address that others can connect to; if it is none, the error names `where`."""
    if isinstance(address, str):
        if address.startswith("ipc://") and len(address) > len("ipc://") and address.isprintable():
            return address
        match = _TCP.fullmatch(address)
        if match and match["host"].startswith("[") and _number(match["host"].strip("[]")) is None:
            match = None
        if match and _number(match["host"].strip("[]")) in _ANYWHERE:
            raise RequestError(f"{where}: {address!r} is no host: give the name that the others know it by")
        if match and 1 <= int(match["port"]) <= 65535:
            return address
    raise RequestError(
        f"{where}: {address!r} is no address: it must be tcp://HOST:PORT, port 1 to 65535, or ipc://PATH"
    )


# network.toml


def make_network(
    topology: str,
    edges: Iterable[Sequence[int]],
    peers: Iterable[Peer],
    *,
    curve: bool,
    topology_seed: int = 0,
    source: str = "network",
) -> Network:
    """Network of checked parts: edges are a topology, and agents, addresses and keys belong together.

    If not, the error names `source`.
    """
    listed = list(peers)
    collector, seen, known = Collector(source), dict[str, int](), set[int]()
    for peer in listed:
        if peer.agent in known:
            raise collector.fault(f"agent {peer.agent} is listed twice under [[agents]]")
        known.add(collector.agent(peer.agent))
        _check_peer(peer, curve, source)
        signing = [("signing key", key) for key in (peer.identity, *peer.former, *peer.revoked)]
        for what, value in (("address", peer.address), ("public_key", peer.public_key), *signing):
            if value and seen.setdefault(value, peer.agent) != peer.agent:
                raise collector.fault(
                    f"agents {seen[value]} and {peer.agent} have the same {what}: {value}; give each its own"
                )
    for edge in edges:
        for end in edge:
            if collector.agent(end) not in known:
                raise collector.fault(f"edge {edge[0]}-{edge[1]}: agent {end} has no address under [[agents]]")
        collector.edge(*edge)
    graph = collector.graph()
    _check_dialling(graph, {peer.agent for peer in listed if peer.dial == "out"}, source)
    ordered = tuple(sorted(listed, key=lambda peer: peer.agent))
    return Network(topology, graph.edges, ordered, curve, topology_seed)


def _check_dialling(graph: Graph, out: Set[int], source: str) -> None:
    """Refuse an edge of two agents that only dial, and show a graph without such edges."""
    closed = [(i, j) for i, j in graph.edges if {i, j} <= out]
    if not closed:
        return
    i, j = closed[0]
    message = (
        f'{source}: agents {i} and {j} share an edge, and both only dial (dial = "out"): neither reaches the other'
    )
    listening = min(set(graph) - out, default=None)
    if listening is None:
        raise RequestError(f"{message}; give one of them an address")
    edges = [edge for edge in graph.edges if edge not in closed]
    edges += [(listening, min(part)) for part in parts_of(Graph(len(graph), edges)) if listening not in part]
    shown = " ".join(f"{min(edge)}-{max(edge)}" for edge in sorted(edges))
    raise RequestError(f"{message}; give one of them an address, or take a graph without such edges: {shown}")


def _check_peer(peer: Peer, curve: bool, source: str) -> None:
    where = f"{source}: agent {peer.agent}"
    if peer.dial == "out":
        if peer.address:
            raise RequestError(f'{where}: its address {peer.address} would not be used with dial = "out"; remove one')
    elif not peer.address:
        raise RequestError(f'{where} has no address: give it one, or dial = "out" if it cannot be dialled')
    else:
        check_address(peer.address, f"{where}: address")
    if peer.identity is None:
        raise RequestError(f"{where} has no identity: make the network anew with `admmnet network init`")
    check_identity(peer.identity, f"{where}: identity {printable(str(peer.identity), 80)!r}")
    if peer.identity in (*peer.former, *peer.revoked):
        raise RequestError(f"{where}: its identity is listed among the former or revoked ones: make new keys")
    for key in (*peer.former, *peer.revoked):
        check_identity(key, f"{where}: former or revoked {printable(str(key), 80)!r}")
    if not curve:
        if peer.public_key is not None:
            raise RequestError(f"{where}: public_key would not be used with curve = false; remove one of them")
        return
    if peer.address.startswith("ipc://"):
        raise RequestError(f"{where}: curve = true is for tcp addresses; {peer.address} stays on the machine")
    if peer.public_key is None:
        raise RequestError(f"{where} has no public_key, which curve = true needs")
    check_key(peer.public_key, f"{where}: public_key {peer.public_key!r}")


class _Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    topology: Annotated[str, msgspec.Meta(min_length=1)]
    topology_seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    curve: bool
    edges: list[tuple[int, int]]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    network: _Table
    agents: list[Peer]


def read_network(path: str | os.PathLike[str]) -> Network:
    """Network in a TOML file; keys, addresses, agents and edges are all checked."""
    source, tables = os.fspath(path), read_toml(Path(path), "network file")
    try:
        found = msgspec.convert(tables, _File)
    except msgspec.ValidationError as error:
        raise RequestError(f"{source}: {said(error, tables)} (docs/hosts.md)") from None
    table = found.network
    if not table.topology.isprintable():
        raise RequestError(f"{source}: network.topology = {table.topology!r} must be a graph's name, as printable text")
    return make_network(
        table.topology, table.edges, found.agents, curve=table.curve, topology_seed=table.topology_seed, source=source
    )


def write_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network so that ``read_network`` gives it back."""
    edges = [f"[{i}, {j}]" for i, j in network.edges]
    rows = [", ".join(edges[start : start + 8]) for start in range(0, len(edges), 8)]
    parts = [
        "# The agents, their addresses and links. Public, and the same file at every agent.\n"
        "[network]\n"
        f"topology = {as_toml(network.topology)}\n"
        f"topology_seed = {network.topology_seed}\n"
        f"curve = {str(network.curve).lower()}  # whether links are encrypted and authenticated\n"
        "edges = [\n" + "".join(f"    {row},\n" for row in rows) + "]\n"
    ]
    for peer in network.peers:
        lines = [f"agent = {peer.agent}", f"address = {as_toml(peer.address)}" if peer.address else 'dial = "out"']
        lines += [] if peer.public_key is None else [f"public_key = {as_toml(peer.public_key)}"]
        lines += [f"identity = {as_toml(str(peer.identity))}"]
        lines += [] if peer.records is None else [f"records = {peer.records}"]
        for name, keys in (("former", peer.former), ("revoked", peer.revoked)):
            lines += [f"{name} = [{', '.join(map(as_toml, keys))}]"] if keys else []
        parts.append("[[agents]]\n" + "\n".join(lines) + "\n")
    with refusing(f"write the network file {path}"):
        Path(path).write_text("\n".join(parts), encoding="utf-8", newline="\n")
