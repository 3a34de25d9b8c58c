"""One run from settings to run folder: prepare, loop, close (docs/contributing.md, "Layers")."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from admmnet.config.modes import check_mode
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import BudgetError, RequestError, RunError, counted
from admmnet.files import raise_descriptors, remedy, stay_open
from admmnet.graph.simple import Graph
from admmnet.holder.door import Door
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.log import say
from admmnet.masking import Masks
from admmnet.methods.blame import blaming
from admmnet.methods.sums import SumMethod
from admmnet.privacy.ledger.file import Ledger, LedgerFile, Place
from admmnet.privacy.ledger.form import Header
from admmnet.record import folder as run_folder
from admmnet.record.shelf import close_all
from admmnet.rng import AgentStreams
from admmnet.running.accounts import note_begun
from admmnet.running.agreement import world_of
from admmnet.running.arguments import Arguments, in_python
from admmnet.running.attempts import Attempts, agree_on_masks
from admmnet.running.chain import Chain
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.closing import answer, note_model, write_end
from admmnet.running.ends import LastWords, terminating
from admmnet.running.entrance import prepare
from admmnet.running.events import Listener, OnRound, Outcome, outcome_of
from admmnet.running.graphs import located
from admmnet.running.handshake import arguments, resuming
from admmnet.running.loading import Loader, block_of
from admmnet.running.node import Node
from admmnet.running.observer import Observer
from admmnet.running.plan import Plan
from admmnet.running.prologue import is_new, known_before, run_prologue
from admmnet.running.readout import TailAverage
from admmnet.running.references import pooled_figure
from admmnet.running.rounds import Rounds
from admmnet.running.summary import summarise
from admmnet.solvers.losses import LOSSES
from admmnet.transport import Transport, World, is_writer
from admmnet.transport.collective import as_one, end_all_on_error, install_exception_hook, share
from admmnet.transport.stall import STALL
from admmnet.version import __version__


def perform(
    config: RunConfig | None,
    settings: Mapping[str, Any],
    asked: Arguments,
    world: World | None,
    *,
    stoppable: bool,
    debug: bool,
) -> Outcome:
    """As ``admmnet.library.run``, whose arguments these are."""
    from threadpoolctl import threadpool_limits

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
                return outcome_of(Path(str(config.out)))
            with as_one(world):
                config = config if config.resume is None else resuming(config)
                check_mode(config)
            if config.transport == "zmq" and world.name != "zmq":
                from admmnet.running.spawn import run_spawned
                from admmnet.transport.local import LocalWorld

                own, graph = located(config, LocalWorld())
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
        words = opened.push(LastWords())
        with as_one(world, quoting=config.simulation):
            plan = prepare(config, world, loader)
            for account in plan.accounts.values():
                opened.callback(account.close)
            written = plan.texts.written if plan.run.resume is None else None
            folder = run_folder.open_folder(plan.run.out, plan.settings.algorithm, written, world, opened)
        words.folder = folder
        words.alone = not world.shared_folder
        if on_start is not None:
            on_start(plan)
        whole = plan  # of all agents and edges, whoever takes part in this start
        if world.start is not None:
            plan = replace(plan, graph=Graph(len(plan.graph), world.start.edges))
        transport = world.connect(plan.graph, block_of(plan.network))
        opened.callback(transport.close)
        with as_one(world):
            keeper = Keeper(plan, transport, folder)
            opened.callback(keeper.close)
            masks, attempts = _masks(plan, transport)
            if attempts is not None and keeper.kept and not is_new(plan, world):
                keeper.hold_void()
            blocks = _nodes(whole, transport, folder, keeper, masks)
            opened.enter_context(threadpool_limits(limits=1))  # of scipy, too, which blocks have loaded by now
            agents = sorted((node for block in blocks for node in block), key=lambda node: node.id)
            if world.start is not None and not plan.run.seeded:
                world.start.ledger = agents[0].ledger
            # keeps what was charged, whatever happens
            opened.callback(close_all, [agent.ledger for agent in agents])
            start, tail = max(keeper.start, 0), TailAverage(plan.method.rounds)
            text = f"{plan.settings.algorithm} on {counted(len(plan.graph), 'agent')} begins in round {start}"
            number, size = max(1, len(keeper.starts)), len(plan.graph) - len(transport.away)
            say("start", text, run=str(folder), start=number, round=start, rounds=plan.rounds, members=size)
            chain = Chain(plan, transport, agents)
            chain.go_on(start)
            behind = plan.run.resume is not None and keeper.start >= 0  # all stages are over
            if not behind:
                keeper.restore(blocks, tail)
                keeper.open_outboxes(agents)
            known = known_before(plan, transport, blocks, keeper, folder)
            share(world)  # nobody has failed: from here on something may be charged
        if plan.settings.account is not None:
            note_begun(Path(plan.settings.account), plan.accounts)
        data, found = run_prologue(plan, transport, blocks, attempts, keeper, folder, known)
        plan = replace(plan, data=data)
        keeper.restore(blocks, tail)
        if behind:
            keeper.open_outboxes(agents)
        listener, stopped = Listener(transport, on_round, stoppable=stoppable), False
        alone, every = plan.method.verb == "none", int(plan.run.measure_every)
        # of a start in which no round is left, the last one is observed again
        observer = Observer(plan, transport, blocks, folder, start if alone else min(start, plan.method.rounds - 1))
        opened.callback(observer.close)
        rounds = Rounds(plan, transport, blocks, attempts, keeper)
        keeper.save(start, blocks, tail)
        done = seen = shown = start
        for round in count(done) if alone and plan.method.open_ended else range(done, plan.method.rounds):
            chain.begin(round)
            said = rounds.run(round)
            if alone and not said:
                break
            done = round + 1
            if plan.method.measured(round):
                due = round % every == 0 or done == plan.rounds
                if due:
                    observer.observe(round, rounds.heard)
                seen, shown = done, done if due else shown
                if plan.settings.answer == "tail":
                    tail.add(round, observer.models(), observer.heard)
            if keeper.due(done):
                rounds.settle()
            keeper.save(done, blocks, tail)
            if seen == done and listener.heard(round, partial(observer.event, round, measured=shown == done)):
                stopped = done < plan.rounds
                break
        rounds.settle()
        if not done:
            raise BudgetError("the budget does not afford the run: raise --epsilon")
        if alone and done == start:  # it had ended: its last epoch is observed again, too
            observer.close()
            observer = Observer(plan, transport, blocks, folder, start - 1)
            opened.callback(observer.close)
        if shown < done or done == start:
            observer.observe(done - 1, rounds.heard)
        for agent in agents:
            agent.ledger.end()
            agent.ledger.close()
        theta = answer(plan, transport, observer, tail, agents, done)
        note_model(plan, theta, folder, world)
        summary = summarise(
            replace(plan, graph=whole.graph),
            done,
            agents,
            observer,
            transport,
            {"total": time.perf_counter() - begun_at, **rounds.seconds},
            (*plan.notes, *plan.advice, *rounds.notes(done), *keeper.notes),
            pooled_figure(plan, transport, loader, found),
            stopped=stopped,
        )
        if is_writer(transport):
            write_end(plan, observer, theta, summary, folder, transport)
        if world.shared_folder:
            share(world)  # no process returns before the folder is whole
        say("finished", f"finished after {counted(done, 'round')}", round=done - 1)
        return Outcome(folder, summary, theta)


def _masks(plan: Plan, transport: Transport) -> tuple[dict[int, Masks], Attempts | None]:
    """Masks of this process's agents, and the attempts in which they are used; none where sums are not masked."""
    method, world = plan.method, transport.world
    colluders = plan.settings.colluders
    if not isinstance(method, SumMethod) or colluders is None:
        return {}, None
    masks = agree_on_masks(world, transport.layout.owners, plan.texts.shared, colluders)
    return masks, Attempts([i for i in plan.graph if i not in transport.away], colluders, fixed=not world.shared_folder)


def _nodes(
    plan: Plan, transport: Transport, folder: Path, keeper: Keeper, masks: Mapping[int, Masks]
) -> list[list[Node]]:
    """Agents of this process, those of a block together."""
    blocks = transport.layout.blocks[transport.world.rank]
    durable = not plan.simulation and transport.world.lasting
    mine = len(transport.agents)
    how = {"durable": durable, "kept": stay_open(mine), "alone": mine == 1}
    files = {i: LedgerFile(run_folder.ledger_path(folder, i, len(plan.graph)), **how) for i in transport.agents}
    return [[_node(plan, files[i], i, keeper.places.get(i), masks.get(i)) for i in block] for block in blocks]


def _node(plan: Plan, file: LedgerFile, i: int, since: Place | None, masks: Masks | None) -> Node:
    ledger, streams = _ledger(plan, file, i, since), AgentStreams(i, plan.run.seed)
    door = Door(*plan.holders[i], plan.loss, ledger, streams, masks)
    return Node(plan.method.agent(i, plan.agents[i]), plan.method, door, ledger)


def _ledger(plan: Plan, file: LedgerFile, agent: int, since: Place | None) -> Ledger:
    settings, weight = plan.settings, plan.agents[agent].weight
    covered = plan.contracts[agent].covered
    released = covered and plan.prologue.released and plan.data.preprocessing == "public-bounds"
    taken = plan.prologue.taken
    header = Header(
        agent=agent,
        neighbours=tuple(sorted(plan.graph[agent])),
        records=plan.data.counts[agent],
        contract=plan.contracts[agent],
        algorithm=settings.algorithm,
        loss=None if settings.loss in {**LOSSES.own, **SINGLE_SITE_LOSSES} else settings.loss,
        weight=None if weight == 1.0 else weight,
        mode=plan.mode,
        noise="seeded" if plan.run.seeded else "private",
        preprocessing="private" if released else plan.data.preprocessing if covered else "data-dependent",
        stages=plan.prologue.names,
        encoding_from=None if taken is None else taken.digest,
        version=__version__,
    )
    return Ledger(file, header, account=plan.accounts.get(agent), since=since)
