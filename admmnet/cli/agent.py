"""admmnet agent: one agent by itself."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import asked, event_flags, explain_flag, output_flags, talks, telling
from admmnet.cli.settings import DEFAULTS, SettingsCommand, given_in, leave, refuse_beside_resume, tell
from admmnet.config.modes import check_mode
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.config.toml import load_config, read_values
from admmnet.errors import AdmmnetError, CheckFailed, RequestError, RunError, StartEnded
from admmnet.graph.specs import is_random
from admmnet.log import Hearer

if TYPE_CHECKING:
    from admmnet.identity.keys import Identity
    from admmnet.running.starts import HostJournal
    from admmnet.transport.hosts.network import Network
    from admmnet.transport.zmq.member import Member


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--id", "number", required=True, metavar="I|NAME", help="number or name of the agent")
@click.option("--network", "network_file", required=True, metavar="FILE", help="the network file")
@click.option("--secret", metavar="FILE", help="its key file (default: keys/agent-00I.secret.toml beside it)")
@output_flags
@event_flags
@explain_flag
@click.option(
    "--parent", type=int, hidden=True, help="starter's pipe: its end ends the agent; all write one run folder"
)
@click.option("--report", type=int, hidden=True, help="line for progress")
@click.option("--answered", is_flag=True, hidden=True, help="the starter answers every round")
def agent(
    config: str | None,
    number: str,
    network_file: str,
    secret: str | None,
    parent: int | None,
    report: int | None,
    answered: bool,
    **flags: Any,
) -> None:
    """Run agent I of a network by itself; the others run in processes of their own, here or elsewhere.

    The graph comes from the network file (`admmnet network init` makes one), all other settings are those of
    `run` and must be the same at every agent. This agent's ledger and the network's figures go to a run folder
    of its own.
    """
    from admmnet.cli.again import Starts, folder_of, only_start
    from admmnet.cli.progress import Progress
    from admmnet.forms import read_form
    from admmnet.identity.keys import forbid_dumps
    from admmnet.library import run
    from admmnet.record.folder import SUMMARY, default_folder, is_begun
    from admmnet.record.forms import Summary
    from admmnet.record.receipts import Receipts
    from admmnet.running.accounts import restore
    from admmnet.running.closing import take_end
    from admmnet.running.reports import Reporter
    from admmnet.running.starts import HostJournal
    from admmnet.transport.hosts.keys import read_secret, secret_path
    from admmnet.transport.hosts.network import read_network
    from admmnet.transport.zmq.member import Finished, OlderCopy, RunEnded
    from admmnet.transport.zmq.transport import figures_of

    if flags["resume"] == AUTO and flags["out"] is not None and (Path(flags["out"]) / SUMMARY).exists():
        if talks():
            print(f"nothing to do: {flags['out']} holds the finished run")
        leave(read_form(Summary, Path(flags["out"]) / SUMMARY))  # a service that starts it again need know no more
        return
    forbid_dumps()  # of a process that holds secret keys
    network = read_network(network_file)
    own = network.agent(number)
    if flags["round_deadline"] is not None:
        raise RequestError("--round-deadline does not go with `admmnet agent`: give it to the relay")
    if parent is None and flags["resume"] not in (None, AUTO):
        refuse_beside_resume(config)
    given, settings = agent_settings(config, flags, network)
    if settings.out is None and settings.resume is None:
        settings = settings.changed(out=str(default_folder(f"{settings.algorithm}-agent-{own:03d}")))
    if parent is not None:
        private, seconds = Path(network_file).parent, settings.shutdown_deadline
        threading.Thread(target=_mourn, args=(parent, private, seconds), daemon=True).start()
    check_mode(settings)
    secret_file = secret_path(Path(network_file).parent, own) if secret is None else Path(secret)
    identity = read_secret(secret_file, own)
    progress = Progress()
    reporter = None if report is None else Reporter(report, answered=answered)
    teller = reporter or progress
    relayed = Hearer(reporter.event, "info", own) if reporter else nullcontext()
    how: dict[str, Any] = {"on_start": teller.start, "on_round": teller.round, "stoppable": answered}
    how["debug"] = bool(asked("debug"))
    folder = folder_of(settings)
    if parent is None and settings.resume is None and is_begun(folder):
        raise RequestError(f"the run folder {folder} is not empty: name another one with --out, or add --resume auto")
    with relayed, telling(agent=own) as figures:
        journal = starts = None
        if parent is None:
            held = settings.resume is not None
            journal = HostJournal(folder, own, len(network.peers), seeded=settings.seeded, held=held)
            click.get_current_context().call_on_close(journal.let_go)
        member = open_agent(network, own, given, journal, identity)
        if journal is not None:
            starts = Starts(member, journal, folder)
            member.receipts = Receipts(folder, network, own)
        if figures is not None:
            figures.live = lambda: figures_of(member)
        try:
            while True:
                try:
                    world = only_start(member) if starts is None else starts.next()
                    with progress:
                        result = run(settings, world=world, **how)
                    tell(result, progress.told)
                    summary = result.summary
                    break
                except StartEnded as error:
                    if starts is None:
                        raise
                    settings = starts.ended(settings, error)
        except Finished as finished:
            try:
                take_end(folder, finished.end)
            except CheckFailed as error:
                raise RunError(f"this agent does not take the end that most agents have signed: {error}") from None
            if journal is not None:
                journal.delete()
            print(f"admmnet: {folder} has finished with the model that most agents have signed", file=sys.stderr)
            summary = read_form(Summary, folder / SUMMARY)  # type: ignore[assignment]
        except OlderCopy as error:
            if settings.account is not None:
                try:
                    restore(Path(settings.account), own, settings.budget_of(own)[0])
                except AdmmnetError as wrong:
                    error.args = (f"{error}; {wrong}",)
            raise
        except RunEnded as error:
            if report is not None:
                sys.exit(error.exit_code)  # the starter hears why from its source
            raise
    member.finish()
    leave(summary)


def agent_settings(config: str | None, flags: Mapping[str, Any], network: Network) -> tuple[RunConfig, RunConfig]:
    """Settings of an agent as they were given, and as its run goes on with them.

    They are those of ``run``, with the graph of the network file, which no setting may contradict.
    """
    if flags.get("transport") is not None:
        raise RequestError("--transport does not go with `admmnet agent`: its neighbours are reached by ZeroMQ")
    given = given_in(flags)
    if config is None and "resume" in given and given["resume"] != AUTO:
        resumed = _resumed(given, network)
        return resumed, resumed
    asked = {**({} if config is None else read_values(Path(config))), **given}
    if asked.get("transport", "auto") not in ("auto", "zmq"):
        raise RequestError(f"transport = {asked['transport']!r} does not go with `admmnet agent`: leave it out")
    own: dict[str, Any] = {"agents": len(network.peers)}
    if asked.get("topology_schedule") is None:
        own |= {"topology": network.topology, "topology_seed": _graph_seed(network)}
    for name, value in own.items():
        if asked.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            raise RequestError(
                f"{name} = {asked[name]!r}, but the network file says {value!r}: leave {flag} out, the graph comes "
                "from the network file"
            )
    asked_for = settings = load_config(config, given | own | {"transport": "zmq"}, DEFAULTS)
    if settings.resume == AUTO:
        from admmnet.running.arguments import resuming

        settings = resuming(settings)
    if settings.baseline:
        raise RequestError(f"{settings.algorithm} has no agents: `admmnet baseline` runs it in one place")
    return asked_for, settings


def _graph_seed(network: Network) -> int:
    """Seed of the graph as a run's settings have it: 0 where none decides the graph."""
    return network.topology_seed if is_random(network.topology) else 0


def _resumed(given: Mapping[str, Any], network: Network) -> RunConfig:
    """Settings of an agent that goes on: those in its run folder."""
    from admmnet.running.resume import resumed_config

    settings = resumed_config(given["resume"], {**given, "transport": "zmq"})
    own = (network.topology, _graph_seed(network), len(network.peers))
    theirs = (settings.topology, settings.topology_seed, settings.agents)
    if settings.topology_schedule is None and theirs != own:
        raise RequestError(
            f"the run in {given['resume']} is of {theirs[0]} with {theirs[2]} agents, the network file of "
            f"{own[0]} with {own[2]}: give the network file that it began with"
        )
    return settings


def open_agent(
    network: Network, number: int, settings: RunConfig, journal: HostJournal | None, identity: Identity
) -> Member:
    """Process of an agent whose settings are as they were given, with a line to the relay.

    An agent without a journal is one of those that one command has started, in one folder.
    """
    from admmnet.faults.schedule import read_schedule
    from admmnet.running.arguments import public_settings
    from admmnet.running.topics import TOPICS
    from admmnet.transport.hosts.keys import Keys
    from admmnet.transport.zmq.meeting import setting
    from admmnet.transport.zmq.member import Member

    file, digest = settings.topology_schedule, None
    if file is not None:
        digest = read_schedule(Path(file), agents=settings.agents, seed=settings.graph_seed).digest
    own, agents = network.peers[number], len(network.peers)
    keys = Keys.of(identity) if network.relay_key is not None else None
    if identity.public != own.identity or (keys is not None and keys.public != own.public_key):
        raise RequestError(
            f"the key of agent {number} is not the one that the network file lists: one is of another network"
        )
    public = public_settings(settings, schedule=digest, digests=journal is not None)
    given = {name: setting(value) for name, value in public.items()}
    return Member(
        network,
        number,
        settings=given if journal is None or journal.run is None else journal.run.settings,
        keys=keys,
        identity=identity,
        topics=TOPICS,
        connect=settings.connect_deadline,
        heartbeat=settings.heartbeat_deadline,
        quorum=max(agents // 2 + 1, min(agents, (settings.colluders or 0) + 2)),
        shared_folder=journal is None,
    )


def _mourn(parent: int, private: Path, seconds: float) -> None:
    """Wait for the death of the starter; then remove its folder and end this process, even one that hangs."""
    line = select.poll()
    line.register(parent, 0)  # its end alone
    line.poll()
    shutil.rmtree(private, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(seconds)
    os._exit(RunError.exit_code)
