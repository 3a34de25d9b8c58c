"""admmnet network init | rotate | revoke."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from admmnet.cli.flags import PATH, out_flag
from admmnet.errors import RequestError, counted
from admmnet.files import refusing

if TYPE_CHECKING:
    from admmnet.transport.hosts.keys import Secrets
    from admmnet.transport.hosts.network import Network, Peer

FIRST_PORT = 5570
_OUT = out_flag("DIR", "folder to write")
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]+))?")


@click.group(no_args_is_help=False)
def network() -> None:
    """Make the network file and the keys of agents on several hosts (docs/hosts.md)."""


@network.command()
@click.argument("topology", metavar="TOPOLOGY")
@click.option("--hosts", required=True, type=PATH, metavar="FILE", help="one host[:port] an agent and line")
@_OUT
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=FIRST_PORT,
    metavar="N",
    help="port of a host's first agent; the next count up",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of a random graph")
@click.option("--plain", is_flag=True, help="no CURVE keys: anyone there can read messages")
def init(topology: str, hosts: Path, out: Path, port: int, seed: int, plain: bool) -> None:
    """Write DIR/network.toml and one key file an agent for the graph TOPOLOGY (file or spec).

    Line i of the hosts file is the host of agent i, or `out` where nobody can dial it; lines may repeat.
    """
    from admmnet.graph import network_of
    from admmnet.graph.specs import check_seed
    from admmnet.transport.hosts.network import Peer, make_network

    check_seed("--seed", topology, seed)
    graph = network_of(topology, seed=seed)
    addresses = addresses_of(hosts, len(graph), port)
    found = [Peer(i, address, dial="both" if address else "out") for i, address in enumerate(addresses)]
    made = [renewed(peer, curve=not plain) for peer in found]
    peers, secrets = [peer for peer, _ in made], {i: secrets for i, (_, secrets) in enumerate(made)}
    name = Path(topology).name if Path(topology).exists() else topology
    network = make_network(name, graph.edges, peers, curve=not plain, topology_seed=seed, source=str(hosts))
    write_folder(network, secrets, out)
    _tell(network, out)


_FILE = click.argument("file", type=PATH, metavar="FILE")
_AGENTS = click.option(
    "--agent", "agents", type=click.IntRange(min=0), multiple=True, metavar="I", help="this agent; may be repeated"
)


@network.command()
@_FILE
@_AGENTS
@click.option("--keep-curve", is_flag=True, help="new signing keys alone; the CURVE keys stay")
@_OUT
def rotate(file: Path, agents: tuple[int, ...], keep_curve: bool, out: Path) -> None:
    """Write DIR/network.toml with new keys for all agents, or some, of the network FILE; between runs.

    Their signing keys of before stay listed as former ones, so that earlier run folders still verify.
    """
    _renew(file, agents, out, lost=False, keep_curve=keep_curve)


@network.command()
@_FILE
@_AGENTS
@_OUT
def revoke(file: Path, agents: tuple[int, ...], out: Path) -> None:
    """As rotate, for agents whose secrets others may have: what their keys have signed proves nothing any more.

    Earlier run folders still verify, and `admmnet ledger verify --network` says whose keys in them were revoked.
    """
    if not agents:
        raise RequestError("name each agent whose keys others may have: --agent I, repeated")
    _renew(file, agents, out, lost=True)


def renewed(peer: Peer, *, curve: bool) -> tuple[Peer, Secrets]:
    """An agent with new keys, and its secrets; without ``curve`` the CURVE key stays as it is."""
    from admmnet.identity.keys import Identity
    from admmnet.transport.hosts.keys import Keys, Secrets

    keys, identity = Keys.fresh() if curve else None, Identity.fresh()
    key = peer.public_key if keys is None else keys.public
    return replace(peer, public_key=key, identity=identity.public), Secrets(keys, identity)


def _renew(file: Path, agents: Sequence[int], out: Path, *, lost: bool, keep_curve: bool = False) -> None:
    """Write a network again, with new keys for some agents (none named: all); those of before are listed."""
    from admmnet.transport.hosts.network import make_network, read_network

    network = read_network(file)
    secrets: dict[int, Secrets] = {}
    count = len(network.peers)
    if agents and max(agents) >= count:
        raise RequestError(f"--agent {max(agents)}: {file} has the agents 0 to {count - 1}")
    chosen = sorted(set(agents)) or list(range(count))
    peers = list(network.peers)
    for i in chosen:
        old = peers[i]
        former, revoked = (*old.former, str(old.identity)), old.revoked
        if lost:  # an old key file may be where the new one was taken from
            former, revoked = (), revoked + former
        listed = replace(old, former=former, revoked=revoked)
        peers[i], secrets[i] = renewed(listed, curve=network.curve and not keep_curve)
    made = make_network(
        network.topology,
        network.edges,
        peers,
        curve=network.curve,
        topology_seed=network.topology_seed,
        source=str(file),
    )
    write_folder(made, secrets, out)
    before = "revoked" if lost else "former"
    print(f"{out / 'network.toml'}: new keys for {len(chosen)} of {count} agents; the old keys are {before}")
    print("next, when no run is under way:")
    print("  copy network.toml to every host: a host with the old one is refused")
    if network.curve and keep_curve:
        print("  on each host put the new table [identity] in place of the old one, the last of its key file:")
        print(r"  sed -i '/^\[identity\]/,$d' agent-00I.secret.toml && cat new.secret.toml >> agent-00I.secret.toml")
    else:
        print("  replace the key files of these agents on their hosts; delete them here then")


def addresses_of(hosts: Path, agents: int, port: int) -> list[str]:
    """Address of every agent from a hosts file, "" for `out`: a line without a port gets the host's next free one."""
    try:
        with refusing(f"read the hosts file {hosts}"):
            text = hosts.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"{hosts} is no hosts file: not UTF-8 text") from None
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    if len(lines) != agents:
        few = "repeat the line of a host that runs several agents"
        remedy = few if len(lines) < agents else "leave out the hosts without one"
        raise RequestError(f"{hosts} has {counted(len(lines), 'host')} for {counted(agents, 'agent')}: {remedy}")
    parsed = [("", 0) if line == "out" else _parse(hosts, number, line) for number, line in lines]
    taken = {(host, given) for host, given in parsed if given is not None}
    addresses, following = [], dict.fromkeys((host for host, _ in parsed), port)
    for host, given in parsed:
        while given is None:
            if following[host] > 65535:
                raise RequestError(f"{hosts}: {host} has no ports left above --port {port}; take a smaller one")
            if (host, following[host]) not in taken:
                given = following[host]
            following[host] += 1
        addresses.append(f"tcp://{host}:{given}" if host else "")
    return addresses


def _parse(hosts: Path, number: int, line: str) -> tuple[str, int | None]:
    match = _HOST.fullmatch(line)
    if match is None or (match["port"] and not 1 <= int(match["port"][:6]) <= 65535):
        raise RequestError(
            f"{hosts}, line {number}: {line!r} is not host or host:port with a port of 1 to 65535; "
            "an IPv6 number goes in [brackets]"
        )
    return match["host"], int(match["port"]) if match["port"] else None


def write_folder(network: Network, secrets: Mapping[int, Secrets], out: Path) -> None:
    """Write network.toml and key files into a new or empty folder: keys are never replaced."""
    from admmnet.transport.hosts.keys import secret_path, write_secrets
    from admmnet.transport.hosts.network import write_network

    with refusing(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise RequestError(f"the folder {out} is not empty: name another one with --out")
        (out / "keys").mkdir(mode=0o700)
    write_network(network, out / "network.toml")
    for agent, own in secrets.items():
        write_secrets(secret_path(out, agent), agent, own)


def _tell(network: Network, out: Path) -> None:
    from admmnet.transport.hosts.keys import secret_path

    width = max(len(peer.address or "only dials") for peer in network.peers)
    print(f"{out / 'network.toml'}: {len(network.peers)} agents, {len(network.edges)} edges")
    print(f"  agent  {'address':<{width}}  neighbours  key file")
    for peer in network.peers:
        around = ",".join(map(str, network.neighbours(peer.agent)))
        print(
            f"  {peer.agent:<5}  {peer.address or 'only dials':<{width}}  {around:<10}  {secret_path(out, peer.agent)}"
        )
    print("next:")
    print("  copy network.toml to every host, and to each host its own agents' key files")
    print("  never copy the others' key files; delete them here when they are where they belong")
    print(
        "  on the host of agent I: admmnet agent --id I --network network.toml --secret agent-00I.secret.toml "
        "settings.toml --out runs/today --resume auto --log agent.log"
    )
    if network.exposed:
        print(
            f"admmnet: warning: --plain: agent {network.exposed[0].agent} ({network.exposed[0].address}) and others "
            "are reached without encryption: anyone on the network can read and forge messages",
            file=sys.stderr,
        )
