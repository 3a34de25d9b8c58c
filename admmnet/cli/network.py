"""admmnet topology make | show, admmnet network init, and admmnet relay: the graph of agents, and where they meet."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from admmnet.cli import flags
from admmnet.cli.flags import PATH, event_flags, json_flag, out_flag, telling
from admmnet.errors import RequestError
from admmnet.files import raise_descriptors, refusing

_SEED = click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of a random graph")


@click.group(no_args_is_help=False)
def topology() -> None:
    """Make and inspect graphs of agents: files, or specs such as ring:5 (docs/simulate.md)."""


@topology.command()
@click.argument("spec")
@_SEED
@out_flag("FILE", "graph file to write")
def make(spec: str, seed: int, out: Path) -> None:
    """Write the graph of SPEC to a file; its ending chooses the format."""
    from admmnet.graph import network_of, write_topology
    from admmnet.graph.specs import check_seed

    check_seed("--seed", spec, seed)
    graph = network_of(spec, seed=seed)
    write_topology(graph, out)
    print(f"{out}: {len(graph)} agents, {len(graph.edges)} edges")


@topology.command()
@click.argument("source", metavar="FILE|SPEC")
@_SEED
@click.option("--plot", metavar="FILE", help="also draw it: .png, .svg or .pdf")
@json_flag
def show(source: str, seed: int, plot: str | None) -> None:
    """Show a graph's size, degrees and spectral facts."""
    from admmnet.graph import describe, network_of
    from admmnet.graph.specs import check_seed

    check_seed("--seed", source, seed)
    graph = network_of(source, seed=seed)
    if plot is not None:
        from admmnet.report.run_plot import plot_graph

        plot_graph(graph.networkx, Path(plot), title=source)
    facts = describe(graph)
    said = ["diameter and spectra are found for at most 1,000 agents"] if facts.diameter is None else []
    said += [] if plot is None else [f"picture: {plot}"]
    flags.show(asdict(facts), *said, title=source)


@click.group(no_args_is_help=False)
def network() -> None:
    """Make the network file and the keys of agents on several hosts (docs/hosts.md)."""


@network.command()
@click.argument("topology", metavar="TOPOLOGY")
@click.option("--relay", required=True, metavar="HOST:PORT", help="where the relay listens, and all agents dial")
@out_flag("DIR", "folder to write")
@click.option("--names", metavar="A,B,...", help="names of the agents, in order")
@_SEED
def init(topology: str, relay: str, names: str | None, out: Path, seed: int) -> None:
    """Write DIR/network.toml and a key file for each agent of the graph TOPOLOGY (file or spec) and the relay."""
    from admmnet.graph import network_of
    from admmnet.graph.specs import check_seed
    from admmnet.identity.keys import Identity
    from admmnet.transport.hosts import NAMED, Keys, Peer, make_network, secret_path, write_network, write_secret

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


def _deadline(name: str, default: float | None, help: str) -> Callable[[flags.Command], flags.Command]:
    """Return a flag for seconds."""
    how: dict[str, Any] = {"type": click.FloatRange(min=0.1, max=1e6), "default": default}
    return click.option(f"--{name}-deadline", name, help=help, show_default=default is not None, **how)


@click.command()
@click.option("--network", "network_file", required=True, type=PATH, metavar="FILE", help="the network file")
@click.option("--secret", type=PATH, metavar="FILE", help="its key file (default: keys/relay.secret.toml beside it)")
@out_flag("DIR", "folder that keeps the end of the run")
@click.option("--quorum", metavar="Q|all", help="fewest agents that go on after a fault (more than half)")
@click.option(
    "--strikes", type=click.IntRange(min=1), default=5, show_default=True, help="faults until one is left out"
)
@_deadline("connect", 60.0, "until the next agent has come")
@_deadline("heartbeat", 10.0, "without a sign of life")
@_deadline("round", None, "for an agent's part of a round (20 times the longest, at least 60)")
@_deadline("regroup", 600.0, "until others go on after a fault")
@event_flags
def relay(network_file: Path, secret: Path | None, out: Path, quorum: str | None, **terms: Any) -> None:
    """Pass on the messages of a network's agents, which all dial here; it holds no records.

    It ends once all agents have finished, and keeps the end of the run in DIR for those that come later.
    """
    from admmnet.identity.keys import Identity, verify
    from admmnet.masking import StartKey
    from admmnet.record.finish import keep_end, kept_end
    from admmnet.running.topics import TOPICS
    from admmnet.transport.hosts import Keys, read_network, read_secret, secret_path
    from admmnet.transport.zmq.meeting import seals
    from admmnet.transport.zmq.relay import Relay, Terms, forward

    network = read_network(network_file)
    agents = len(network.peers)
    least = agents // 2 + 1
    asked = str({None: least, "all": agents}.get(quorum, quorum))
    if not asked.isdecimal() or not least <= int(asked) <= agents:
        raise RequestError(
            f"--quorum {quorum}: it must be from {least}, more than half of {agents} agents, to {agents}"
        )
    keys = Keys.of(read_secret(secret or secret_path(network_file.parent, None), None))
    if keys.public != network.relay_key:
        raise RequestError(f"{network_file} lists another key of the relay than its key file has")
    with refusing(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    raise_descriptors()  # strangers may hold many for the length of a handshake
    own = Identity.fresh()  # imports what could not be opened later
    assert verify(own.public, own.sign(b""), b"")
    assert seals(StartKey().public)
    with telling() as figures:
        one = Relay(
            network, Terms(int(asked), **terms), TOPICS, keys, out, partial(keep_end, network, out), kept_end(out)
        )
        if figures is not None:
            figures.live = one.figures
        try:
            forward(one)
        finally:
            one.close()
