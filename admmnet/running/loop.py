"""One run from settings to run folder: prepare, loop, close (docs/contributing.md, "The loop")."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from threadpoolctl import threadpool_limits

from admmnet.config.run_config import RunConfig
from admmnet.errors import BudgetError
from admmnet.holder.door import Door
from admmnet.holder.series import SINGLE_SITE_LOSSES
from admmnet.masking import Masks
from admmnet.methods.sums import SumMethod
from admmnet.privacy.ledger.file import Ledger, LedgerFile, Place
from admmnet.privacy.ledger.form import Header
from admmnet.rng import AgentStreams
from admmnet.running import folder as run_folder
from admmnet.running.accounts import note_begun
from admmnet.running.attempts import Attempts, agree_on_masks
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.closing import answer, write_end
from admmnet.running.ends import LastWords
from admmnet.running.events import Listener, OnRound
from admmnet.running.handshake import public_settings
from admmnet.running.identities import Members, agree
from admmnet.running.loading import Loader, block_of
from admmnet.running.node import Node
from admmnet.running.observer import Observer
from admmnet.running.plan import Plan, prepare
from admmnet.running.readout import TailAverage
from admmnet.running.receipts import Receipts, begin, wanted
from admmnet.running.references import pooled_figure
from admmnet.running.result import RunResult
from admmnet.running.rounds import Rounds
from admmnet.running.shelf import close_all, ledger_places
from admmnet.running.summary import Seconds, summarise
from admmnet.solvers.losses import LOSSES
from admmnet.transport import Transport, World, is_writer
from admmnet.transport.collective import run_on_all
from admmnet.version import __version__


def execute(
    config: RunConfig,
    world: World,
    loader: Loader | None,
    on_start: Callable[[Plan], None],
    on_round: OnRound | None,
    *,
    stoppable: bool,
) -> RunResult:
    """Run what checked settings say on processes that are there; arguments and errors as those of ``run``."""
    start = time.perf_counter()
    with ExitStack() as opened:
        words = opened.push(LastWords())
        plan = prepare(config, world, loader)
        for account in plan.accounts.values():
            opened.callback(account.close)
        folder = words.folder = run_folder.open_folder(plan.config, world, opened)
        words.alone = not world.shared_folder
        on_start(plan)
        transport = world.connect(plan.graph, block_of(plan.config))
        opened.callback(transport.close)
        keeper = Keeper(plan.config, plan.method, plan.holders, plan.data, transport, folder)
        members = _members(plan, transport)
        masks, attempts = _masks(plan, transport, members)
        blocks = run_on_all(world, lambda: _nodes(plan, transport, folder, keeper, masks))
        opened.enter_context(threadpool_limits(limits=1))  # of scipy, too, which blocks have loaded by now
        note_begun(plan.config, plan.accounts)
        agents = sorted((node for block in blocks for node in block), key=lambda node: node.id)
        # keeps what was charged, whatever happens
        opened.callback(close_all, [agent.ledger for agent in agents])
        tail = TailAverage(plan.method.rounds)
        keeper.restore(blocks, tail)
        listener, stopped = Listener(transport, on_round, stoppable=stoppable), False
        observer = Observer(
            transport,
            blocks,
            plan.holders,
            plan.data,
            folder,
            loss=plan.method.loss,
            simulation=plan.config.simulation,
            lossy=plan.config.on_loss == "continue",
            shared=plan.method.verb == "reduce",
            aggregate=plan.method.aggregate,
            faults=plan.faults,
            start=keeper.start,
        )
        keeper.restore_clock(observer.clock)
        opened.callback(observer.close)
        receipts = _receipts(plan, transport, members, agents, folder, keeper.start)
        if receipts is not None:
            opened.callback(receipts.close)
        rounds = Rounds(plan.method, plan.graph, plan.faults, blocks, transport, receipts, attempts)
        alone, every = plan.method.verb == "none", plan.config.measure_every
        done = seen = shown = keeper.start
        for round in count(done) if alone and plan.method.open_ended else range(done, plan.method.rounds):
            said = rounds.run(round)
            if alone and not said:
                break
            done = round + 1
            if plan.method.measured(round):
                due = round % every == 0 or done == plan.rounds
                observer.observe(round, rounds.summed, rounds.heard, measured=due)
                seen, shown = done, done if due else shown
                if plan.config.answer == "tail":
                    tail.add(round, observer.models(), observer.heard)
            if receipts is not None and keeper.due(done):
                receipts.settle(durable=True)
            keeper.save(done, blocks, tail, observer.clock)
            if seen == done and listener.heard(round, partial(observer.event, round, plan.rounds)):
                stopped = done < plan.rounds
                break
        if not done:
            raise BudgetError("the budget does not afford what the run costs: raise --epsilon")
        if shown < done:
            observer.observe(done - 1, rounds.summed, rounds.heard)
        observer.settle()
        if receipts is not None:
            receipts.settle(durable=not plan.config.simulation)
        for agent in agents:
            agent.ledger.end()
        close_all([agent.ledger for agent in agents])
        theta = answer(plan, transport, observer, tail, agents, done)
        times = Seconds(total=time.perf_counter() - start, **rounds.seconds)
        summary = summarise(
            plan.method,
            plan.data,
            done,
            agents,
            observer,
            transport,
            times,
            (*plan.notes, *rounds.notes(done), *keeper.notes, *(() if receipts is None else receipts.notes)),
            pooled_figure(plan, transport, loader),
            None if receipts is None else receipts.source,
            stopped=stopped,
        )
        if is_writer(transport):
            write_end(plan, observer, theta, summary, folder, transport)
        world.gather(None)  # no process returns before the folder is whole
        return RunResult.of(folder, summary, theta)


def _receipts(
    plan: Plan, transport: Transport, members: Members | None, agents: list[Node], folder: Path, start: int
) -> Receipts | None:
    """Receipts of a start of the run, where it keeps any."""
    world = transport.world
    if members is None or not wanted(plan.config, world):
        return None
    begin(members, transport, plan.graph, folder, start)
    ledgers = {agent.id: agent.ledger for agent in agents}
    return Receipts(members, plan.graph, transport, ledgers, folder)


def _members(plan: Plan, transport: Transport) -> Members | None:
    """Agents' keys and the name of this start, where receipts or masks need them."""
    if plan.method.verb == "none" or not (plan.config.trust == "masked" or wanted(plan.config, transport.world)):
        return None
    return agree(transport.world, transport.layout.owners)


def _masks(plan: Plan, transport: Transport, members: Members | None) -> tuple[dict[int, Masks], Attempts | None]:
    """Masks of this process's agents, and the attempts in which they are used; none where sums are not masked."""
    method, world = plan.method, transport.world
    colluders = plan.config.colluders
    if not isinstance(method, SumMethod) or colluders is None or members is None:
        return {}, None
    settings = hashlib.sha256(json.dumps(public_settings(plan.config, digests=False), sort_keys=True).encode())
    masks = agree_on_masks(world, transport.layout.owners, members, settings.hexdigest(), colluders)
    return masks, Attempts(len(plan.graph), colluders, method.attempts - method.rounds, method.largest)


def _nodes(
    plan: Plan, transport: Transport, folder: Path, keeper: Keeper, masks: Mapping[int, Masks]
) -> list[list[Node]]:
    """Agents of this process, those of a block together."""
    mine = transport.layout.blocks[transport.world.rank]
    files = ledger_places(plan.config, folder, mine, len(plan.graph))
    return [[_node(plan, files[i], i, keeper.places.get(i), masks.get(i)) for i in block] for block in mine]


def _node(plan: Plan, file: LedgerFile, i: int, since: Place | None, masks: Masks | None) -> Node:
    ledger, streams = _ledger(plan, file, i, since), AgentStreams(i, plan.config.seed)
    door = Door(*plan.holders[i], plan.loss, ledger, streams, masks)
    return Node(plan.method.ready(i, plan.agents[i], losses=plan.config.losses), plan.method, door, ledger)


def _ledger(plan: Plan, file: LedgerFile, agent: int, since: Place | None) -> Ledger:
    config, weight = plan.config, plan.agents[agent].weight
    header = Header(
        agent=agent,
        neighbours=tuple(sorted(plan.graph[agent])),
        records=plan.data.counts[agent],
        contract=plan.contracts[agent],
        algorithm=config.algorithm,
        loss=None if config.loss in {**LOSSES.own, **SINGLE_SITE_LOSSES} else config.loss,
        loss_digest=getattr(plan.loss, "digest", None),
        weight=None if weight == 1.0 else weight,
        mode=config.mode,
        noise="seeded" if config.seeded else "private",
        preprocessing=plan.data.preprocessing if plan.contracts[agent].covered else "data-dependent",
        version=__version__,
    )
    durable, account = not config.simulation, plan.accounts.get(agent)
    return Ledger(file, header, durable=durable, account=account, since=since)
