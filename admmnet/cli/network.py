"""admmnet network init."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admmnet.config.checks import check_graph_seed
from admmnet.errors import RequestError

if TYPE_CHECKING:
    from admmnet.transport.hosts.keys import Keys
    from admmnet.transport.hosts.network import Network

FIRST_PORT = 5570
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]+))?")


@click.group(
    short_help="Make the network file and the keys of agents on several hosts.", no_args_is_help=False
)
def network() -> None:
    """Make the network file and the keys of agents on several hosts (docs/hosts.md)."""


@network.command()
@click.argument("topology", metavar="TOPOLOGY")
@click.option(
    "--hosts",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="one host[:port] a line, one line an agent",
)
@click.option(
    "--out", "-o", required=True, type=click.Path(path_type=Path), metavar="DIR", help="folder to write"
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=FIRST_PORT,
    metavar="N",
    help="port of a host's first agent; the next ones count up",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of a random graph (default: 0)"
)
@click.option("--plain", is_flag=True, help="no keys: whoever watches the network reads and forges messages")
def init(topology: str, hosts: Path, out: Path, port: int, seed: int, plain: bool) -> None:
    """Write DIR/network.toml and one key pair an agent for the graph TOPOLOGY (file or spec).

    Line i of the hosts file is the host of agent i; lines may repeat.
    """
    from admmnet.graph import load_topology
    from admmnet.transport.hosts.keys import Keys
    from admmnet.transport.hosts.network import Peer, make_network

    check_graph_seed(topology, seed)
    graph = load_topology(topology, seed=seed)
    addresses = addresses_of(hosts, len(graph), port)
    keys = [] if plain else [Keys.fresh() for _ in addresses]
    peers = [Peer(i, address, None if plain else keys[i].public) for i, address in enumerate(addresses)]
    name = Path(topology).name if Path(topology).exists() else topology
    made = make_network(name, graph.edges(), peers, curve=not plain, topology_seed=seed, source=str(hosts))
    write_folder(made, keys, out)
    _tell(made, out)


def addresses_of(hosts: Path, agents: int, port: int) -> list[str]:
    """Address of every agent from a hosts file: a line without a port gets the host's next free one."""
    try:
        text = hosts.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot read the hosts file {hosts}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestError(f"{hosts} is no hosts file: not UTF-8 text") from None
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    if len(lines) != agents:
        few = "repeat the line of a host that runs several agents"
        remedy = few if len(lines) < agents else "leave out the hosts without one"
        raise RequestError(f"{hosts} has {len(lines)} hosts for {agents} agents: {remedy}")
    parsed = [_parse(hosts, number, line) for number, line in lines]
    taken = {(host, given) for host, given in parsed if given is not None}
    addresses, following = [], dict.fromkeys((host for host, _ in parsed), port)
    for host, given in parsed:
        while given is None:
            if following[host] > 65535:
                raise RequestError(
                    f"{hosts}: {host} has no ports left above --port {port}; take a smaller one"
                )
            if (host, following[host]) not in taken:
                given = following[host]
            following[host] += 1
        addresses.append(f"tcp://{host}:{given}")
    return addresses


def _parse(hosts: Path, number: int, line: str) -> tuple[str, int | None]:
    match = _HOST.fullmatch(line)
    if match is None or (match["port"] and not 1 <= int(match["port"][:6]) <= 65535):
        raise RequestError(
            f"{hosts}, line {number}: {line!r} is not host or host:port with a port of 1 to 65535; "
            "an IPv6 number goes in [brackets]"
        )
    return match["host"], int(match["port"]) if match["port"] else None


def write_folder(network: Network, keys: list[Keys], out: Path) -> None:
    """Write network.toml and the key files into a new or empty folder: keys are never replaced."""
    from admmnet.transport.hosts.keys import secret_path, write_keys
    from admmnet.transport.hosts.network import write_network

    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise RequestError(f"the folder {out} is not empty: name another one with --out")
        if keys:
            (out / "keys").mkdir(mode=0o700)
    except OSError as error:
        raise RequestError(f"cannot make the folder {out}: {error.strerror}") from None
    write_network(network, out / "network.toml")
    for agent, pair in enumerate(keys):
        write_keys(secret_path(out, agent), agent, pair)


def _tell(network: Network, out: Path) -> None:
    from admmnet.transport.hosts.keys import secret_path

    curve, width = network.curve, max(len(peer.address) for peer in network.peers)
    print(f"{out / 'network.toml'}: {len(network.peers)} agents, {len(network.edges)} edges")
    print(f"  agent  {'address':<{width}}  neighbours{'' if not network.curve else '  secret key'}")
    for peer in network.peers:
        around = ",".join(map(str, network.neighbours(peer.agent)))
        key = str(secret_path(out, peer.agent)) if network.curve else ""
        print(f"  {peer.agent:<5}  {peer.address:<{width}}  {around:<10}  {key}".rstrip())
    print("next:")
    secrets = ", and to each host its own agents' secret keys" if curve else ""
    print(f"  copy network.toml to every host{secrets}")
    if curve:
        print("  never copy the others' secrets; delete them here when they are where they belong")
    secret = " --secret agent-00I.secret.toml" if network.curve else ""
    print(f"  on the host of agent I: admmnet agent --id I --network network.toml{secret} --data ... -o DIR")
    if network.exposed:
        print(
            f"admmnet: warning: --plain: agent {network.exposed[0].agent} ({network.exposed[0].address}) and others "
            "are reached without encryption: whoever is on the network can read and forge what agents send",
            file=sys.stderr,
        )
