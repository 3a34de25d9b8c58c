"""admmnet relay: where the agents of a network meet."""

from __future__ import annotations

from pathlib import Path

import click

from admmnet.cli.flags import PATH, event_flags, out_flag, telling
from admmnet.errors import RequestError

_SECONDS = click.FloatRange(min=0.1, max=1e6)


@click.command()
@click.option("--network", "network_file", required=True, type=PATH, metavar="FILE", help="the network file")
@click.option("--secret", type=PATH, metavar="FILE", help="its key file (default: keys/relay.secret.toml beside it)")
@out_flag("DIR", "folder that keeps the end of the run")
@click.option("--quorum", metavar="Q|all", help="fewest agents that go on after a fault (more than half)")
@click.option(
    "--strikes", type=click.IntRange(min=1), default=5, show_default=True, help="faults until one is left out"
)
@click.option(
    "--connect-deadline", type=_SECONDS, default=60.0, show_default=True, help="until the next agent has come"
)
@click.option("--heartbeat-deadline", type=_SECONDS, default=10.0, show_default=True, help="without a sign of life")
@click.option(
    "--round-deadline", type=_SECONDS, help="for an agent's part of a round (20 times the longest, at least 60)"
)
@click.option(
    "--regroup-deadline", type=_SECONDS, default=600.0, show_default=True, help="until others go on after a fault"
)
@event_flags
def relay(
    network_file: Path,
    secret: Path | None,
    out: Path,
    quorum: str | None,
    strikes: int,
    connect_deadline: float,
    heartbeat_deadline: float,
    round_deadline: float | None,
    regroup_deadline: float,
) -> None:
    """Pass on the messages of a network's agents, which all dial here; it holds no records.

    It ends once all agents have finished, and keeps the end of the run in DIR for those that come later.
    """
    from admmnet.files import raise_descriptors, refusing
    from admmnet.identity.keys import Identity, verify
    from admmnet.record.finish import Ends
    from admmnet.running.topics import TOPICS
    from admmnet.transport.hosts.keys import Keys, read_secret, secret_path
    from admmnet.transport.hosts.network import read_network
    from admmnet.transport.zmq.relay import Relay, Terms, forward

    network = read_network(network_file)
    agents = len(network.peers)
    least = agents // 2 + 1
    asked = {None: str(least), "all": str(agents)}.get(quorum, quorum)
    if not str(asked).isdecimal() or not least <= int(str(asked)) <= agents:
        raise RequestError(
            f"--quorum {quorum}: it must be from {least}, more than half of {agents} agents, to {agents}"
        )
    keys = Keys.of(read_secret(secret or secret_path(network_file.parent, None), None))
    if keys.public != network.relay_key:
        raise RequestError(f"{network_file} lists another key of the relay than its key file has")
    with refusing(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    raise_descriptors()  # strangers may hold many for the length of a handshake
    keys_are = Identity.fresh()
    assert verify(keys_are.public, keys_are.sign(b""), b"")  # imports what could not be opened later
    deadlines = strikes, connect_deadline, heartbeat_deadline, round_deadline, regroup_deadline
    with telling() as figures:
        one = Relay(network, Terms(int(str(asked)), *deadlines), TOPICS, Ends(network, out), keys, out)
        if figures is not None:
            figures.live = one.figures
        try:
            forward(one)
        finally:
            one.close()
