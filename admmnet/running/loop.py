"""One run from settings to run folder: prepare, loop, close (docs/contributing.md, "Layers")."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from admmnet.config.modes import check_mode
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.config.toml import to_toml
from admmnet.errors import BudgetError, RequestError, RunError, counted
from admmnet.files import raise_descriptors, remedy, stay_open
from admmnet.graph.simple import Graph
from admmnet.holder.door import Door
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.log import say
from admmnet.masking import Masks
from admmnet.methods.blame import blaming
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.sums import SumMethod
from admmnet.privacy.ledger.account import FolderBehind
from admmnet.privacy.ledger.file import Journaled, Ledger
from admmnet.privacy.ledger.form import Header
from admmnet.record import folder as run_folder
from admmnet.record.journal import journals
from admmnet.rng import AgentStreams
from admmnet.running.accounts import note_begun
from admmnet.running.arguments import arguments, in_python, public_settings, resuming, world_of
from admmnet.running.chain import Chain
from admmnet.running.closing import TailAverage, answer, note_model, write_end
from admmnet.running.ends import speaking, terminating
from admmnet.running.entrance import prepare
from admmnet.running.events import Listener, OnRound, Outcome, outcome_of
from admmnet.running.graphs import located
from admmnet.running.journal import Journal, journal_of
from admmnet.running.loading import Loader, block_of
from admmnet.running.observer import Observer
from admmnet.running.party import Node, Party
from admmnet.running.plan import Plan
from admmnet.running.prologue import known_before, run_prologue
from admmnet.running.references import pooled_figure
from admmnet.running.rounds import Attempts, Rounds, agree_on_masks
from admmnet.running.summary import summarise
from admmnet.solvers.losses import LOSSES
from admmnet.transport import Transport, World, is_writer
from admmnet.transport.collective import as_one, end_all_on_error, install_exception_hook, share
from admmnet.transport.stall import STALL
from admmnet.version import __version__


def perform(
    config: RunConfig | None,
    settings: Mapping[str, Any],
    asked: SimpleNamespace,
    world: World | None,
    *,
    stoppable: bool,
    debug: bool,
) -> Outcome:
    """As ``admmnet.library.run``, whose arguments these are."""
    STALL.wait_for(settings.get("round_deadline", getattr(config, "round_deadline", AUTO)))
    # the processes first: where one of them alone is given something wrong, all say so
    world = world_of(world, settings.get("transport", getattr(config, "transport", "auto")))
    install_exception_hook(world)
    with as_one(world, quoting=world.name != "zmq"):
        config, given = arguments(world, config, settings, asked, stoppable=stoppable)
    raise_descriptors()
    ending = end_all_on_error(world, debug=debug, withhold=not config.simulation)
    loader = asked.loader if given is None else given.load
    # more threads a process than one are slower on few cores, and change the last bits
    with terminating(), ending, threadpool_limits(limits=1):
        try:
            if config.resume == AUTO and (Path(str(config.out)) / run_folder.SUMMARY).exists():
                for path in journals(Path(str(config.out))):  # a crash has kept them from being deleted
                    path.unlink(missing_ok=True)
                return outcome_of(Path(str(config.out)))
            with as_one(world):
                config = config if config.resume is None else resuming(config)
                check_mode(config)
            if config.transport == "zmq" and world.name != "zmq":
                from admmnet.running.spawn import run_spawned
                from admmnet.transport import World

                own, graph = located(config, World())
                config = config.changed(**own)
                on: tuple[Any, Any] = asked.on_start, asked.on_round
                return run_spawned(config, graph, *on, stoppable=stoppable, debug=debug, loader=loader)
            with blaming(config.chosen_method, RunError):
                return execute(config, world, loader, asked.on_start, asked.on_round, stoppable=stoppable)
        except RequestError as error:
            if loader is not None:  # a program's
                error.args = (in_python(str(error)),)
            raise
        except OSError as error:
            raise RunError(f"cannot write {error.filename or 'the run folder'}: {remedy(error)}") from error


def execute(
    config: RunConfig,
    world: World,
    loader: Loader | None,
    on_start: Callable[[Plan], None] | None,
    on_round: OnRound | None,
    *,
    stoppable: bool,
) -> Outcome:
    """Run what the settings say; arguments as of ``run``."""
    begun_at = time.perf_counter()
    with ExitStack() as opened:
        words = opened.enter_context(speaking())
        with as_one(world, quoting=config.simulation):
            plan = prepare(config, world, loader)
            for account in plan.accounts.values():
                opened.callback(account.close, commit=False)  # ledgers commit
            written = to_toml(plan.config) if plan.config.resume is None else None
            folder = run_folder.open_folder(plan.config.out, plan.settings.algorithm, written, world, opened)
        words |= {"folder": folder, "alone": not world.shared_folder}
        if on_start is not None:
            on_start(plan)
        whole = plan  # of all agents and edges, whoever takes part in this start
        if world.start is not None:
            plan = replace(plan, graph=Graph(len(plan.graph), world.start.edges))
        transport = world.connect(plan.graph, block_of(plan.config.sections.network))
        opened.callback(transport.close)
        begun = world.start if world.start is not None and world.start.journal is not None else None
        with as_one(world):
            journal = journal_of(plan, world, folder)
            masks, attempts = _masks(plan, transport)
            if attempts is not None and journal is not None and plan.config.resume is not None:
                first = min((stage.number for stage in plan.prologue.stages), default=0)
                journal.hold_void(transport, first, plan.faults)
            agents = _nodes(whole, transport, folder, journal, masks)
            opened.enter_context(threadpool_limits(limits=1))  # of scipy, too, which blocks have loaded by now
            party = Party(whole.method, whole.agents, agents)
            if world.start is not None and not plan.config.seeded:
                world.start.ledger = agents[0].ledger
            # keeps what was charged, whatever happens
            opened.push(partial(_close, agents, journal))
            start = 0 if begun is None else max(begun.round, 0)
            tail = TailAverage(plan.method.rounds)
            text = f"{plan.settings.algorithm} on {counted(len(plan.graph), 'agent')} begins in round {start}"
            number, size = 1 if begun is None else begun.number + 1, len(plan.graph) - len(transport.away)
            say("start", text, run=str(folder), start=number, round=start, rounds=plan.rounds, members=size)
            known = known_before(plan, transport, journal, folder)
            share(world)  # nobody has failed: from here on something may be charged
        if begun is not None:
            begun.journal.ready(begun.facts)
        if journal is not None:
            journal.open(agents)
        if plan.settings.account is not None:
            note_begun(Path(plan.settings.account), plan.accounts)
        data, found, lost = run_prologue(plan, transport, party, attempts, journal, folder, known)
        plan = replace(plan, data=data)
        chain = Chain(plan, transport, party)
        rounds = Rounds(plan, transport, party, attempts, journal, chain)
        past, fold = ({}, 0) if begun is None else (begun.journal.heard_rounds, begun.fold)
        for round in range(fold):
            chain.begin(round)
            if round not in past:  # others had gone on without this agent
                continue
            rounds.run(round, alone=True)
            if plan.method.measured(round) and plan.settings.answer == "tail":
                tail.add(round, party.models())
        listener, stopped = Listener(transport, on_round, stoppable=stoppable), False
        alone, every = plan.method.verb == "none", int(plan.config.measure_every)
        # of a start in which no round is left, the last one is observed again
        observer = Observer(plan, transport, party, folder, start if alone else min(start, plan.method.rounds - 1))
        opened.callback(observer.close)
        done = measured = start
        for round in count(done) if isinstance(plan.method, SingleSite) else range(done, plan.method.rounds):
            chain.begin(round)
            said = rounds.run(round)
            if alone and not said:
                break
            done = round + 1
            if not plan.method.measured(round):
                continue
            if round % every == 0 or done == plan.rounds:
                observer.observe(round, rounds.heard)
                measured = done
            if plan.settings.answer == "tail":
                tail.add(round, party.models(), observer.heard)
            if listener.heard(round, partial(observer.event, round, measured=measured == done)):
                stopped = done < plan.rounds
                break
        if not done:
            raise BudgetError("the budget does not afford the run: raise --epsilon")
        if measured < done or done == start:
            observer.observe(done - 1, rounds.heard)
        for agent in agents:
            agent.ledger.end()
            agent.ledger.close()
        theta = answer(plan, transport, observer, tail, party, done)
        note_model(plan, theta, folder, world)
        summary = summarise(
            replace(plan, graph=whole.graph),
            done,
            party,
            observer,
            transport,
            {"total": time.perf_counter() - begun_at, **rounds.seconds},
            (*plan.notes, *plan.advice, *lost, *rounds.notes(done), *(() if journal is None else journal.notes)),
            pooled_figure(plan, transport, loader, found),
            stopped=stopped,
        )
        if is_writer(transport):
            write_end(plan, observer, theta, summary, folder, transport)
        if world.shared_folder:
            share(world)  # no process returns before the folder is whole
        if journal is not None:
            journal.delete()
        say("finished", f"finished after {counted(done, 'round')}", round=done - 1)
        return folder, summary, theta


def _close(agents: Sequence[Node], journal: Journal | None, kind: type[BaseException] | None, *_: Any) -> None:
    """Have the charges of an interrupted round in the journal, then in the ledgers: they stand, and are not made twice.

    Where the journal cannot be written they are in neither: nothing of the round has left. Nor are they where a signal
    has come between two of them.
    """
    kept = journal is None
    try:
        if journal is not None and not journal.broken and (kind is None or issubclass(kind, Exception)):
            journal.note_rest(agents)
            kept = True
    finally:
        if journal is not None:
            journal.close()
        failed: BaseException | None = None
        for agent in agents:  # all, also where some cannot be closed
            try:
                agent.ledger.close(commit=kept)
            except BaseException as error:
                failed = failed or error
        if failed is not None:
            raise failed


def _masks(plan: Plan, transport: Transport) -> tuple[dict[int, Masks], Attempts | None]:
    """Masks of this process's agents, and the attempts in which they are used; none where sums are not masked."""
    world, colluders = transport.world, plan.settings.colluders
    if not isinstance(plan.method, SumMethod) or colluders is None:
        return {}, None
    shared = public_settings(plan.config, digests=not world.shared_folder)
    masks = agree_on_masks(world, transport.owners, shared, colluders)
    return masks, Attempts([i for i in plan.graph if i not in transport.away], colluders, fixed=not world.shared_folder)


def _nodes(
    plan: Plan, transport: Transport, folder: Path, journal: Journal | None, masks: Mapping[int, Masks]
) -> list[Node]:
    """Agents of this process, ascending."""
    durable = not plan.simulation and transport.world.lasting
    mine = len(transport.agents)
    how = {"durable": durable, "kept": stay_open(mine), "alone": mine == 1}
    files = {i: folder / run_folder.ledger_name(i, len(plan.graph)) for i in transport.agents}
    resumed = plan.config.resume is not None
    if resumed and plan.config.seeded:  # it is begun again
        for file in files.values():
            file.unlink(missing_ok=True)
    alone = Journaled() if resumed and not plan.config.seeded else None  # of a method in one place, before any charge
    since = {i: alone if journal is None else journal.since(i) for i in files}
    nodes = list[Node]()
    try:
        for i, file in files.items():
            ledger = Ledger(file, _header(plan, i), account=plan.accounts.get(i), since=since[i], **how)
            streams = AgentStreams(i, plan.config.seed)
            nodes.append(Node(i, Door(*plan.holders[i], plan.loss, ledger, streams, masks.get(i)), ledger))
        return nodes
    except FolderBehind:  # what was charged behind it nobody knows
        for account in plan.accounts.values():
            account.restore()
        raise


def _header(plan: Plan, agent: int) -> Header:
    settings, weight = plan.settings, plan.agents[agent].weight
    covered = plan.contracts[agent].covered
    released = covered and plan.prologue.released and plan.data.preprocessing == "public-bounds"
    taken = plan.prologue.taken
    return Header.of(
        plan.contracts[agent],
        agent=agent,
        neighbours=tuple(sorted(plan.graph[agent])),
        records=plan.data.counts[agent],
        algorithm=settings.algorithm,
        loss=None if settings.loss in {**LOSSES.own, **SINGLE_SITE_LOSSES} else settings.loss,
        weight=None if weight == 1.0 else weight,
        mode=plan.config.mode,
        noise="seeded" if plan.config.seeded else "private",
        preprocessing="private" if released else plan.data.preprocessing if covered else "data-dependent",
        stages=plan.prologue.names,
        encoding_from=None if taken is None else taken.digest,
        admmnet=__version__,
    )
