"""Where the agents of a network meet: network.toml (docs/hosts.md).

It is public and the same everywhere: the graph, the relay's address and key, and every agent's public keys.
"""

import hashlib
import os
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from admmnet.errors import RequestError
from admmnet.files import read_toml, refusing
from admmnet.form_errors import said
from admmnet.graph.checks import Collector
from admmnet.graph.simple import Graph
from admmnet.identity.keys import check_identity
from admmnet.transport.hosts.keys import as_toml, check_key

NAMED = r"^[A-Za-z][A-Za-z0-9._-]*\Z"
"""Names of agents: no number, so that none is taken for another agent's."""
_ADDRESS = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})|ipc://.+")


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One agent as the others see it, and as the network file has it."""

    agent: Annotated[int, msgspec.Meta(ge=0)]
    identity: str
    """Public half of its signing key."""
    public_key: str | None = None
    """Public half of the key of its line, Z85; None where all agents are on one machine."""
    records: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Most records that it is believed to hold; None for any number."""
    name: Annotated[str, msgspec.Meta(pattern=NAMED, max_length=40)] | None = None
    """Name by which people know it."""

    @property
    def called(self) -> str:
        """The agent in messages."""
        return f"agent {self.agent}" if self.name is None else f"agent {self.agent} ({self.name})"


@dataclass(frozen=True)
class Network:
    """A graph of agents with their public keys, and where they meet."""

    topology: str
    """The spec or the file's name that the edges came from."""
    edges: tuple[tuple[int, int], ...]
    """Smaller number first, in order."""
    peers: tuple[Peer, ...]
    """In the order of their numbers, 0 to N-1."""
    relay: str
    """``tcp://HOST:PORT``, encrypted, or ``ipc://PATH`` on one machine."""
    relay_key: str | None = None
    topology_seed: int = 0

    def neighbours(self, agent: int) -> tuple[int, ...]:
        """Return the agents that share an edge with this one, in order."""
        return tuple(sorted(i + j - agent for i, j in self.edges if agent in (i, j)))

    @property
    def digest(self) -> str:
        """Digest of what must be the same in every process's network file: all but the relay."""
        peers = [[peer.agent, peer.public_key, peer.identity, peer.records, peer.name] for peer in self.peers]
        content = repr([self.topology, sorted(self.edges), peers])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def agent(self, asked: str) -> int:
        """Number of an agent that is asked for by number or name; RequestError if there is none."""
        known = {str(peer.agent): peer.agent for peer in self.peers} | {
            str(p.name): p.agent for p in self.peers if p.name
        }
        if asked not in known:
            names = ", ".join(peer.name for peer in self.peers if peer.name)
            also = f", or {names}" if names else ""
            raise RequestError(f"--id {asked}: the network file has the agents 0 to {len(self.peers) - 1}{also}")
        return known[asked]

    def graph(self) -> Graph:
        """Return the graph: nodes 0..N-1 and edges in order."""
        return Graph(len(self.peers), self.edges)

    def listens_at(self) -> str:
        """Address that the relay binds: a host name becomes its IPv4 number, because ZeroMQ binds to numbers alone."""
        if self.relay.startswith("ipc://") or "[" in self.relay:
            return self.relay
        host, _, port = self.relay.removeprefix("tcp://").rpartition(":")
        try:
            return f"tcp://{socket.getaddrinfo(host, None, family=socket.AF_INET)[0][4][0]}:{port}"
        except OSError as error:
            raise RequestError(f"the relay's address {self.relay} cannot be resolved: {error.strerror}") from None


def make_network(
    topology: str,
    edges: Sequence[tuple[int, int]],
    peers: Iterable[Peer],
    relay: str,
    relay_key: str | None = None,
    *,
    topology_seed: int = 0,
    source: str = "the network",
) -> Network:
    """Return the checked network; a fault names `source`."""
    listed = sorted(peers, key=lambda peer: peer.agent)
    if not _ADDRESS.fullmatch(relay):
        raise RequestError(f"{source}: relay = {relay!r} is no address: it must be tcp://HOST:PORT or ipc://PATH")
    if relay.startswith("tcp://") and relay_key is None:
        raise RequestError(f"{source}: a relay at tcp:// needs relay_key")
    if relay_key is not None:
        check_key(relay_key, f"{source}: relay_key")
    if [peer.agent for peer in listed] != list(range(len(listed))):
        raise RequestError(f"{source}: the agents must be numbered 0 to {len(listed) - 1}, each once")
    seen: dict[str, int] = {}
    for peer in listed:
        check_identity(peer.identity, f"{source}: agent {peer.agent}: identity")
        if relay_key is not None:
            check_key(peer.public_key, f"{source}: agent {peer.agent}: public_key")
        for key in filter(None, (peer.identity, peer.public_key, peer.name)):
            if seen.setdefault(key, peer.agent) != peer.agent:
                raise RequestError(f"{source}: agents {seen[key]} and {peer.agent} have the same key or name: {key}")
    collector = Collector(source)
    for peer in listed:
        collector.agent(peer.agent)
    for edge in edges:
        if max(edge) >= len(listed):
            raise RequestError(f"{source}: edge {edge[0]}-{edge[1]}: there is no such agent under [[agents]]")
        collector.edge(*edge)
    return Network(topology, collector.graph().edges, tuple(listed), relay, relay_key, topology_seed)


class _Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    topology: Annotated[str, msgspec.Meta(min_length=1)]
    topology_seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    relay: str
    relay_key: str | None = None
    edges: list[tuple[int, int]]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    network: _Table
    agents: list[Peer]


def read_network(path: str | os.PathLike[str]) -> Network:
    """Network in a TOML file; keys, addresses, agents and edges are all checked."""
    source, tables = os.fspath(path), read_toml(Path(path), "network file", "; `admmnet network init` makes one")
    try:
        found = msgspec.convert(tables, _File)
    except msgspec.ValidationError as error:
        raise RequestError(f"{source}: {said(error, tables)} (docs/hosts.md)") from None
    table = found.network
    if not table.topology.isprintable():
        raise RequestError(f"{source}: network.topology = {table.topology!r} must be a graph's name, as printable text")
    more = {"topology_seed": table.topology_seed, "source": source}
    return make_network(table.topology, table.edges, found.agents, table.relay, table.relay_key, **more)  # type: ignore[arg-type]


def write_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network so that ``read_network`` gives it back."""
    edges = [f"[{i}, {j}]" for i, j in network.edges]
    rows = [", ".join(edges[start : start + 8]) for start in range(0, len(edges), 8)]
    head = [f"topology = {as_toml(network.topology)}", f"topology_seed = {network.topology_seed}"]
    head += [f"relay = {as_toml(network.relay)}  # where all agents dial; the others need not listen"]
    head += [] if network.relay_key is None else [f"relay_key = {as_toml(network.relay_key)}"]
    text = "# The agents, their graph and keys. Public, and the same file at every agent.\n[network]\n"
    text += "\n".join(head) + "\nedges = [\n" + "".join(f"    {row},\n" for row in rows) + "]\n"
    for peer in network.peers:
        lines = [f"agent = {peer.agent}", f"identity = {as_toml(peer.identity)}"]
        lines += [] if peer.public_key is None else [f"public_key = {as_toml(peer.public_key)}"]
        lines += [] if peer.records is None else [f"records = {peer.records}"]
        lines += [] if peer.name is None else [f"name = {as_toml(peer.name)}"]
        text += "\n[[agents]]\n" + "\n".join(lines) + "\n"
    with refusing(f"write the network file {path}"):
        Path(path).write_text(text, encoding="utf-8", newline="\n")
