"""Agents on several hosts: the network file, and the files of secrets (docs/hosts.md).

network.toml is public and the same everywhere: the graph, the relay's address and key, and every agent's public keys.
An agent has one secret, of its signing key; the key of its encrypted line follows from it.
"""

import hashlib
import json
import os
import re
import socket
import stat
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from admmnet.errors import RequestError
from admmnet.files import read_toml, refusing
from admmnet.form_errors import said
from admmnet.forms import ready
from admmnet.graph.simple import Collector, Graph
from admmnet.identity.keys import Identity, check_identity, statement

NAMED = r"^[A-Za-z][A-Za-z0-9._-]*\Z"
"""Names of agents: no number, so that none is taken for another agent's."""
_ADDRESS = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})|ipc://.+")


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair in Z85."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, identity: Identity) -> "Keys":
        """The pair that belongs to a signing key."""
        import zmq
        from zmq.utils import z85

        secret = z85.encode(hashlib.sha256(statement("line", bytes.fromhex(identity.secret))).digest())
        return cls(zmq.curve_public(secret).decode(), secret.decode())


def check_key(key: object, where: str) -> str:
    """Return a public CURVE key; if it is none, the error names ``where``."""
    from zmq.utils import z85

    try:
        if isinstance(key, str) and len(key) == 40 and len(z85.decode(key)) == 32:
            return key
    except (ValueError, KeyError, struct.error):  # what z85 says of other letters, and of too large a number
        pass
    raise RequestError(f"{where} is no key: it must be 40 letters of Z85, as `admmnet network init` writes it")


def secret_path(folder: Path, agent: int | None) -> Path:
    """Key file of an agent, or the relay's, below the folder of the network file."""
    return folder / "keys" / ("relay.secret.toml" if agent is None else f"agent-{agent:03d}.secret.toml")


def write_secret(path: Path, agent: int | None, identity: Identity) -> None:
    """Write the key file of an agent, or the relay's."""
    whose, number = ("the relay", "") if agent is None else (f"agent {agent}", f"agent = {agent}\n")
    head = f"# Key of {whose}. Keep this file on its host alone, readable by its user alone.\n[identity]\n{number}"
    with refusing(f"write the key file {path}"):  # an existing one is never replaced, its owner alone can read it
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{head}public = {as_toml(identity.public)}\nsecret = {as_toml(identity.secret)}\n")


def read_secret(path: str | os.PathLike[str], agent: int | None) -> Identity:
    """Signing key in a key file; one that is missing, open to other users, or of another agent is refused."""
    source = Path(path)
    with refusing(f"read the key file {source}"):
        mode = stat.S_IMODE(source.stat().st_mode)
    # systemd shows the access list of a credential as its group's; its folder is open to the service's user alone
    service = os.environ.get("CREDENTIALS_DIRECTORY")
    given = service is not None and source.resolve().parent == Path(service).resolve()
    if mode & (0o007 if given else 0o077):
        raise RequestError(
            f"the key file {source} is open to other users (mode {mode:04o}): chmod 600 {source}; "
            "if others may have read it, make new keys: admmnet network init"
        )
    table = read_toml(source, "key file").get("identity")
    if not isinstance(table, dict) or not isinstance(table.get("secret"), str) or table.get("agent") != agent:
        whose = "the relay" if agent is None else f"agent {agent}"
        raise RequestError(f"{source} is not the key file of {whose}: it has no such table [identity]")
    identity = Identity.of(table["secret"], f"{source}: secret")
    if identity.public != check_identity(table.get("public"), f"{source}: public"):
        raise RequestError(f"{source}: the public half of the key does not belong to the secret one")
    return identity


def as_toml(value: str) -> str:
    """Text as TOML: a JSON string of printable letters is one."""
    return json.dumps(value, ensure_ascii=False)


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


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table [network] of the file."""

    topology: Annotated[str, msgspec.Meta(min_length=1)]
    """The spec or the file's name that the edges came from."""
    topology_seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    relay: str
    """``tcp://HOST:PORT``, encrypted, or ``ipc://PATH`` on one machine."""
    relay_key: str | None = None
    edges: tuple[tuple[int, int], ...]
    """Smaller number first, in order."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    network: _Table
    agents: list[Peer]


class Network(_Table, frozen=True, kw_only=True):
    """A graph of agents with their public keys, and where they meet."""

    peers: tuple[Peer, ...]
    """In the order of their numbers, 0 to N-1."""

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
    listed, keyed = sorted(peers, key=lambda peer: peer.agent), relay_key is not None
    if not _ADDRESS.fullmatch(relay):
        raise RequestError(f"{source}: relay = {relay!r} is no address: it must be tcp://HOST:PORT or ipc://PATH")
    if relay.startswith("tcp://") and not keyed:
        raise RequestError(f"{source}: a relay at tcp:// needs relay_key")
    if keyed:
        check_key(relay_key, f"{source}: relay_key")
    if [peer.agent for peer in listed] != list(range(len(listed))):
        raise RequestError(f"{source}: the agents must be numbered 0 to {len(listed) - 1}, each once")
    seen: dict[str, int] = {}
    collector = Collector(source)
    for peer in listed:
        check_identity(peer.identity, f"{source}: agent {peer.agent}: identity")
        if keyed:
            check_key(peer.public_key, f"{source}: agent {peer.agent}: public_key")
        for key in filter(None, (peer.identity, peer.public_key, peer.name)):
            if seen.setdefault(key, peer.agent) != peer.agent:
                raise RequestError(f"{source}: agents {seen[key]} and {peer.agent} have the same key or name: {key}")
        collector.agent(peer.agent)
    for edge in edges:
        if max(edge) >= len(listed):
            raise RequestError(f"{source}: edge {edge[0]}-{edge[1]}: there is no such agent under [[agents]]")
        collector.edge(*edge)
    joined = tuple(collector.graph().edges)
    about = {"topology": topology, "topology_seed": topology_seed, "relay": relay, "relay_key": relay_key}
    return Network(**about, edges=joined, peers=tuple(listed))  # type: ignore[arg-type]


def read_network(path: str | os.PathLike[str]) -> Network:
    """Network in a TOML file; keys, addresses, agents and edges are all checked."""
    source, tables = os.fspath(path), read_toml(Path(path), "network file", "; `admmnet network init` makes one")
    try:
        found = msgspec.convert(tables, ready(_File))
    except msgspec.ValidationError as error:
        raise RequestError(f"{source}: {said(error, tables)} (docs/hosts.md)") from None
    if not found.network.topology.isprintable():
        raise RequestError(
            f"{source}: network.topology = {found.network.topology!r} must be a graph's name, as printable text"
        )
    return make_network(**msgspec.structs.asdict(found.network), peers=found.agents, source=source)


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
