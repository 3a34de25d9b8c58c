"""admmnet agent: over hosts each start of its run but the last has ended by a fault (docs/protocol.md)."""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from admmnet.cli.flags import asked, event_flags, explain_flag, output_flags, talks, telling
from admmnet.cli.run import Progress
from admmnet.cli.settings import DEFAULTS, SettingsCommand, given_in, leave, refuse_beside_resume, tell
from admmnet.config.modes import check_mode
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.config.toml import load_config, read_values
from admmnet.errors import AdmmnetError, CheckFailed, RequestError, RunError, StartEnded
from admmnet.faults.model import read_schedule
from admmnet.forms import read_form
from admmnet.graph.specs import is_random
from admmnet.identity.keys import Identity, forbid_dumps
from admmnet.library import run
from admmnet.log import Hearer, say
from admmnet.record.finish import take_end
from admmnet.record.folder import SUMMARY, default_folder, is_begun
from admmnet.record.forms import Summary
from admmnet.record.receipts import Receipts
from admmnet.running.accounts import restore
from admmnet.running.arguments import public_settings, resumed_config, resuming
from admmnet.running.closing import fits
from admmnet.running.events import LINE, Reporter
from admmnet.running.starts import HostJournal
from admmnet.running.topics import TOPICS
from admmnet.transport.hosts import Keys, Network, read_network, read_secret, secret_path
from admmnet.transport.zmq.meeting import Standing, setting
from admmnet.transport.zmq.member import Finished, Member, RunEnded
from admmnet.transport.zmq.wire import End


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--id", "number", required=True, metavar="I|NAME", help="number or name of the agent")
@click.option("--network", "network_file", required=True, metavar="FILE", help="the network file")
@click.option("--secret", metavar="FILE", help="its key file (default: keys/agent-00I.secret.toml beside it)")
@output_flags
@event_flags
@explain_flag
@click.option(
    "--started", type=click.Choice(("heard", "answered")), hidden=True, help="standard input is its starter's"
)
def agent(
    config: str | None, number: str, network_file: str, secret: str | None, started: str | None, **flags: Any
) -> None:
    """Run agent I of a network by itself; the others run in processes of their own, here or elsewhere.

    The graph comes from the network file (`admmnet network init` makes one), all other settings are those of
    `run` and must be the same at every agent. This agent's ledger and the network's figures go to a run folder
    of its own.
    """
    out, resume = flags["out"], flags["resume"]
    if resume == AUTO and out is not None and (Path(out) / SUMMARY).exists():
        if talks():
            print(f"nothing to do: {out} holds the finished run")
        leave(read_form(Summary, Path(out) / SUMMARY))  # a service that starts it again need know no more
        return
    forbid_dumps()  # of a process that holds secret keys
    network = read_network(network_file)
    own, folder = network.agent(number), Path(network_file).parent
    if flags["round_deadline"] is not None:
        raise RequestError("--round-deadline does not go with `admmnet agent`: give it to the relay")
    if started is None and resume not in (None, AUTO):
        refuse_beside_resume(config)
    given, settings = agent_settings(config, flags, network)
    check_mode(settings)
    identity = read_secret(secret_path(folder, own) if secret is None else Path(secret), own)
    if started is None:
        summary = _alone(network, own, given, settings, identity)
    else:
        threading.Thread(target=_mourn, args=(folder, settings.shutdown_deadline), daemon=True).start()
        reporter = Reporter(answered=(answered := started == "answered"))
        with Hearer(reporter.event, "info", own), telling(agent=own):
            summary = _together(open_agent(network, own, given, None, identity), settings, reporter, answered=answered)
    leave(summary)


def _together(member: Member, settings: RunConfig, reporter: Reporter, *, answered: bool) -> Any:
    """Run one of the processes that one command has started, of which none goes on without the others."""
    how: dict[str, Any] = {"stoppable": answered, "debug": bool(asked("debug"))}
    try:
        member.meet(Standing())
        result = run(settings, world=member, on_start=reporter.start, on_round=reporter.round, **how)
    except StartEnded as error:
        sys.exit(error.exit_code)  # the starter hears why from its source, or from the relay
    member.finish()
    return result.summary


def _alone(network: Network, own: int, given: RunConfig, settings: RunConfig, identity: Identity) -> Any:
    """Run an agent on a host of its own, in as many starts as it takes; return its summary."""
    if settings.out is None and settings.resume is None:
        settings = settings.changed(out=str(default_folder(f"{settings.algorithm}-agent-{own:03d}")))
    folder, held = _folder_of(settings), settings.resume is not None
    if not held and is_begun(folder):
        raise RequestError(f"the run folder {folder} is not empty: name another one with --out, or add --resume auto")
    with telling(agent=own) as figures:
        journal, progress = HostJournal(folder, own, len(network.peers), seeded=settings.seeded, held=held), Progress()
        click.get_current_context().call_on_close(journal.let_go)
        member = open_agent(network, own, given, journal, identity)
        member.receipts, cause = Receipts(folder, network, own), ""
        if figures is not None:
            figures.live = lambda: member.figures
        how: dict[str, Any] = {"on_start": progress.start, "on_round": progress.round, "stoppable": False}
        summary: Any = None
        try:
            while summary is None:
                try:
                    _next_start(member, journal, cause)
                    with progress:
                        result = run(settings, world=member, debug=bool(asked("debug")), **how)
                    tell(result, progress.advice)
                    summary = result.summary
                except StartEnded as error:
                    settings, cause = _going_on(member, settings, error), str(error)
        except Finished as finished:
            try:
                take_end(folder, finished.end)
            except CheckFailed as error:
                raise RunError(f"this agent does not take the end that most agents have signed: {error}") from None
            journal.delete()
            print(f"admmnet: {folder} has finished with the model that most agents have signed", file=sys.stderr)
            summary = read_form(Summary, folder / SUMMARY)
        except RunEnded as error:
            if error.older and settings.account is not None:
                try:
                    restore(Path(settings.account), own, settings.budget_of(own)[0])
                except AdmmnetError as wrong:
                    error.args = (f"{error}; {wrong}",)
            raise
    member.finish()
    return summary


def _folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


def _next_start(member: Member, journal: HostJournal, cause: str) -> None:
    """Form the next start; Finished once the run has ended, with its end, which is signed here if it is its, too."""
    gc.collect()  # frames of a start that has ended hold its arrays, in cycles
    start = member.meet(journal.standing())
    journal.begun(start, member.settings, len(member.graph.edges), cause)
    assert journal.run is not None
    member.key = journal.run.key
    if start.rule != "finish":
        return
    if (end := journal.staged()) is None:
        end = member.wanted()
        fault = fits(journal.folder, member.rank, journal.models, end)
        if fault is not None or end.digest != start.end or not journal.sign(start.end):
            say("refused", f"the end that others have signed is not signed here: {fault}", "warning")
            end = End("", {})
    member.end_with(end)


def _going_on(member: Member, settings: RunConfig, error: StartEnded) -> RunConfig:
    """Return the settings with which a run goes on after a start has ended; raise what ends the run."""
    if isinstance(error, RunEnded):
        raise error
    member.lose(None, str(error))  # if nobody has left it here yet
    text = f"{error}; going on with the agents that are there"
    say("start-ended", text, "warning")
    print(f"admmnet: {text}", file=sys.stderr, flush=True)
    return resuming(settings.changed(resume=AUTO, out=str(_folder_of(settings))))


def agent_settings(config: str | None, flags: Mapping[str, Any], network: Network) -> tuple[RunConfig, RunConfig]:
    """Settings of an agent as they were given, and as its run goes on with them.

    They are those of ``run``, with the graph of the network file, which no setting may contradict.
    """
    if flags.get("transport") is not None:
        raise RequestError("--transport does not go with `admmnet agent`: its neighbours are reached by ZeroMQ")
    given, remedy = given_in(flags), "leave it out, the graph comes from the network file"
    asked = {**({} if config is None else read_values(Path(config))), **given}
    given, settings = given | {"transport": "zmq"}, None
    if config is None and given.get("resume", AUTO) != AUTO:
        settings = resumed_config(given["resume"], given)
        asked, remedy = settings.flat, f"give the network file that the run in {given['resume']} began with"
    if asked.get("transport", "auto") not in ("auto", "zmq"):
        raise RequestError(f"transport = {asked['transport']!r} does not go with `admmnet agent`: leave it out")
    own: dict[str, Any] = {"agents": len(network.peers)}
    if asked.get("topology_schedule") is None:  # a graph that no seed decides has 0
        seed = network.topology_seed if is_random(network.topology) else 0
        own |= {"topology": network.topology, "topology_seed": seed}
    for name, value in own.items():
        if asked.get(name, value) != value:
            raise RequestError(f"{name} = {asked[name]!r}, but the network file says {value!r}: {remedy}")
    asked_for = settings or load_config(config, given | own, DEFAULTS)
    settings = resuming(asked_for) if asked_for.resume == AUTO else asked_for
    if settings.baseline:
        raise RequestError(f"{settings.algorithm} has no agents: `admmnet baseline` runs it in one place")
    return asked_for, settings


def open_agent(
    network: Network, number: int, settings: RunConfig, journal: HostJournal | None, identity: Identity
) -> Member:
    """Process of an agent whose settings are as they were given, with a line to the relay.

    An agent without a journal is one of those that one command has started, in one folder.
    """
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
        journal=journal,
    )


def _mourn(private: Path, seconds: float) -> None:
    """Wait for the death of the starter; then remove its folder and end this process, even one that hangs."""
    line = select.poll()
    line.register(LINE, 0)  # its end alone
    line.poll()
    shutil.rmtree(private, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(seconds)
    os._exit(RunError.exit_code)
