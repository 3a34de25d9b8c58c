"""admmnet network init."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from admmnet.cli.flags import out_flag
from admmnet.errors import RequestError
from admmnet.files import refusing


@click.group(no_args_is_help=False)
def network() -> None:
    """Make the network file and the keys of agents on several hosts (docs/hosts.md)."""


@network.command()
@click.argument("topology", metavar="TOPOLOGY")
@click.option("--relay", required=True, metavar="HOST:PORT", help="where the relay listens, and all agents dial")
@out_flag("DIR", "folder to write")
@click.option("--names", metavar="A,B,...", help="names of the agents, in order")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of a random graph")
def init(topology: str, relay: str, names: str | None, out: Path, seed: int) -> None:
    """Write DIR/network.toml and a key file for each agent of the graph TOPOLOGY (file or spec) and the relay."""
    from admmnet.graph import network_of
    from admmnet.graph.specs import check_seed
    from admmnet.identity.keys import Identity
    from admmnet.transport.hosts.keys import Keys, secret_path, write_secret
    from admmnet.transport.hosts.network import NAMED, Peer, make_network, write_network

    check_seed("--seed", topology, seed)
    graph = network_of(topology, seed=seed)
    own, identities = Identity.fresh(), [Identity.fresh() for _ in graph]
    called: list[Any] = [None] * len(graph) if names is None else [word.strip() for word in names.split(",")]
    if len(called) != len(graph):
        raise RequestError(f"--names has {len(called)} names, and {topology} {len(graph)} agents: give one each")
    for word in called:
        if word is not None and (re.fullmatch(NAMED, word) is None or len(word) > 40):
            raise RequestError(f"--names: {word!r} is no name: a letter, then letters, digits, dots, dashes")
    peers = [
        Peer(i, identity.public, Keys.of(identity).public, name=called[i]) for i, identity in enumerate(identities)
    ]
    name = Path(topology).name if Path(topology).exists() else topology
    key = Keys.of(own).public
    made = make_network(name, graph.edges, peers, f"tcp://{relay}", key, topology_seed=seed, source="--relay")
    with refusing(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise RequestError(f"the folder {out} is not empty: name another one with --out")
        (out / "keys").mkdir(mode=0o700)
    write_network(made, out / "network.toml")
    write_secret(secret_path(out, None), None, own)
    for i, identity in enumerate(identities):
        write_secret(secret_path(out, i), i, identity)
    print(f"{out / 'network.toml'}: {len(peers)} agents, {len(made.edges)} edges, relay at {made.relay}")
    print("next:")
    print("  copy network.toml to every host, to each its own agents' key files, and relay.secret.toml to the relay's")
    print("  never copy the others' key files; delete them here when they are where they belong")
    print("  on the relay's host: admmnet relay --network network.toml --secret relay.secret.toml --out runs/relay")
    print(
        "  on the host of agent I: admmnet agent --id I --network network.toml --secret agent-00I.secret.toml "
        "settings.toml --out runs/today --resume auto --log agent.log"
    )
