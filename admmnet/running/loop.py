"""One run from settings to run folder: prepare, loop, close (docs/contributing.md, "Layers")."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
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
from admmnet.config.toml import settings_digest, to_toml
from admmnet.errors import BudgetError, RequestError, RunError, counted
from admmnet.files import raise_descriptors, remedy, stay_open
from admmnet.graph.simple import Graph
from admmnet.holder.door import Door
from admmnet.log import HEARERS, say
from admmnet.masking import Masks
from admmnet.methods.blame import blaming
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.sums import SumMethod
from admmnet.privacy.ledger.account import FolderBehind
from admmnet.privacy.ledger.file import Journaled, Ledger
from admmnet.record import folder as run_folder
from admmnet.record.journal import journals
from admmnet.rng import AgentStreams
from admmnet.running.accounts import note_begun
from admmnet.running.arguments import arguments, in_python, public_settings, resuming, world_of
from admmnet.running.before import located
from admmnet.running.chain import Chain
from admmnet.running.closing import TailAverage, answer, made_of, write_end
from admmnet.running.ends import speaking, terminating
from admmnet.running.entrance import prepare
from admmnet.running.events import OnRound, Outcome, is_last, outcome_of
from admmnet.running.journal import Journal, journal_of
from admmnet.running.loading import Loader
from admmnet.running.observer import Observer
from admmnet.running.party import Node, Party
from admmnet.running.plan import Plan
from admmnet.running.prologue import known_before, run_prologue
from admmnet.running.references import pooled_figure
from admmnet.running.rounds import Attempts, Rounds, agree_on_masks
from admmnet.running.summary import summarise
from admmnet.transport import World
from admmnet.transport.collective import as_one, end_all_on_error, install_exception_hook, share
from admmnet.transport.stall import STALL


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

                own, graph = located(config, World())
                config = config.changed(**own)
                on: tuple[Any, Any] = asked.on_start, asked.on_round
                return run_spawned(config, graph, *on, stoppable=stoppable, debug=debug, loader=loader)
            with blaming(config.chosen_method, RunError), ExitStack() as opened:
                words, begun_at = opened.enter_context(speaking()), time.perf_counter()
                with as_one(world, quoting=config.simulation):
                    plan = prepare(config, world, loader)
                    for account in plan.accounts.values():
                        opened.callback(account.close, commit=False)  # ledgers commit
                    written = to_toml(plan.config) if config.resume is None else None
                    folder = run_folder.open_folder(config.out, config.algorithm, written, world, opened)
                words["folder"] = folder
                if asked.on_start is not None:
                    asked.on_start(plan)
                run = OpenRun(plan, folder, world, opened)
                run.play(asked.on_round, stoppable=stoppable)
                return run.finish(loader, begun_at)
        except RequestError as error:
            if loader is not None:  # a program's
                error.args = (in_python(str(error)),)
            raise
        except OSError as error:
            raise RunError(f"cannot write {error.filename or 'the run folder'}: {remedy(error)}") from error


class OpenRun:
    """A run whose folder is there, from its first word to its end; ``opened`` closes what it holds, whatever ends it.

    Attributes
    ----------
    plan : Plan
        With its records encoded as the prologue has found.
    """

    def __init__(self, plan: Plan, folder: Path, world: World, opened: ExitStack) -> None:
        """Connect all processes, open ledgers and journal, and ask what comes before the first round."""
        self.plan, self.folder, self.world, start, config = plan, folder, world, world.start, plan.config
        graph = plan.graph if start is None else Graph(len(plan.graph), start.edges)  # who takes part in this start
        self.transport = transport = world.connect(graph, int(config.sections.network.block))
        opened.callback(transport.close)
        host = world.journal
        with as_one(world):
            journal, durable = None, not config.simulation and world.lasting
            if not (config.seeded or plan.method.verb == "none"):  # begun again, or of one site
                how = {"resumed": config.resume is not None, "durable": durable}
                journal = journal_of(world, folder, settings_digest(config), **how)
            self.journal = journal
            masks, attempts = self._masks()
            if attempts is not None and journal is not None and config.resume is not None:
                first = min((stage.number for stage in plan.prologue.stages), default=0)
                journal.hold_void(transport, first, plan.faults)
            if host is not None:
                host.ready()  # headers of ledgers follow from what agents have said: it is on the disk before them
            nodes = self._nodes(masks)
            opened.enter_context(threadpool_limits(limits=1))  # of scipy, too, which blocks have loaded by now
            self.rounds = Rounds(transport, Party(plan.method, plan.agents, nodes), plan.faults, attempts, journal)
            if host is not None and not config.seeded:
                host.ledger = nodes[0].ledger
            # keeps what was charged, whatever happens
            opened.push(partial(_close, nodes, journal))
            entry = None if host is None else host.starts[-1].entry
            self.start = 0 if entry is None else max(entry.round, 0)
            text = f"{config.algorithm} on {counted(len(graph), 'agent')} begins in round {self.start}"
            number, size = 1 if entry is None else entry.number + 1, len(graph) - len(transport.away)
            say("start", text, run=str(folder), start=number, round=self.start, rounds=plan.rounds, members=size)
            known = known_before(plan.prologue, self.rounds, folder)
            share(world)  # nobody has failed: from here on something may be charged
        if journal is not None:
            journal.open(nodes)
        if config.account is not None:
            note_begun(Path(config.account), plan.accounts)
        holders = {id(holder): holder for holder, _ in plan.holders.values()}.values()
        data, self.found, lost = run_prologue(plan.prologue, plan.data, holders, self.rounds, folder, known)
        self.plan = replace(plan, data=data, notes=(*plan.notes, *plan.advice, *lost))
        quiet, file = config.show == "end", None
        if transport.writes:  # of a start in which no round is left, the last one is observed again
            first = self.start if plan.method.verb == "none" else min(self.start, plan.rounds - 1)
            file = run_folder.open_metrics(folder / "metrics.csv", first, training=config.simulation and not quiet)
            opened.callback(file.close)
        self.observer = Observer(transport, self.rounds.party, data, plan.holders, file, quiet=quiet)
        self.tail = TailAverage(plan.rounds) if config.answer == "tail" else None

    def _masks(self) -> tuple[dict[int, Masks], Attempts | None]:
        """Masks of this process's agents, and the attempts in which they are used; none where sums are not masked."""
        world, transport, colluders = self.world, self.transport, self.plan.settings.colluders
        if not isinstance(self.plan.method, SumMethod) or colluders is None:
            return {}, None
        shared = public_settings(self.plan.config, digests=not world.shared_folder)
        masks, fixed = agree_on_masks(world, transport.owners, shared, colluders), not world.shared_folder
        return masks, Attempts([i for i in transport.graph if i not in transport.away], colluders, fixed=fixed)

    def _nodes(self, masks: Mapping[int, Masks]) -> list[Node]:
        """Agents of this process, ascending."""
        plan, config, mine = self.plan, self.plan.config, self.transport.agents
        durable, again = not plan.config.simulation and self.world.lasting, config.resume is not None
        how = {"durable": durable, "kept": stay_open(len(mine)), "alone": len(mine) == 1}
        files = {i: self.folder / run_folder.ledger_name(i, len(plan.graph)) for i in mine}
        for file in files.values() if again and config.seeded else ():  # it is begun again
            file.unlink(missing_ok=True)
        first = Journaled() if again and not config.seeded else None  # of a method in one place, before any charge
        nodes = list[Node]()
        try:
            for i, file in files.items():
                since = first if self.journal is None else self.journal.since(i)
                ledger = Ledger(file, plan.header(i), account=plan.accounts.get(i), since=since, **how)
                door = Door(*plan.holders[i], plan.loss, ledger, AgentStreams(i, config.seed), masks.get(i))
                nodes.append(Node(i, door, ledger))
            return nodes
        except FolderBehind:  # what was charged behind it nobody knows
            for account in plan.accounts.values():
                account.restore()
            raise

    def play(self, on_round: OnRound | None, *, stoppable: bool) -> None:
        """Play the rounds that are left, those first that this agent knows of by its journal.

        ``on_round`` may raise ``StopRun``; whatever else it raises ends the run, too, and reaches the caller at the
        writer. Where any process has one that is ``stoppable``, which may raise anything, each tells all one number a
        round.
        """
        plan, rounds, observer, tail, method = self.plan, self.rounds, self.observer, self.tail, self.plan.method
        chain, party, start = Chain(rounds, plan.settings), rounds.party, self.start
        host, every = self.world.journal, int(plan.config.measure_every)
        past, fold = ({}, 0) if host is None else (host.heard_rounds, host.alone_until)
        for round in range(fold):
            if round in chain.changes:
                chain.begin(round)
            if round not in past:  # others had gone on without this agent
                continue
            rounds.run(round, alone=True)
            if method.measured(round) and tail is not None:
                tail.add(round, party.models())
        agreeing = stoppable and self.world.size > 1 and self.world.shared_folder
        agreeing = agreeing and any(said is True for said in share(self.world, on_round is not None, "listens"))
        self.done, self.stopped, measured = start, False, start
        for round in count(start) if isinstance(method, SingleSite) else range(start, plan.rounds):
            if round in chain.changes:
                chain.begin(round)
            said = rounds.run(round)
            if method.verb == "none" and not said:
                break
            self.done = done = round + 1
            if not method.measured(round):
                continue
            if round % every == 0 or done == plan.rounds:
                observer.observe(round, rounds.heard)
                measured = done
            if tail is not None:
                tail.add(round, party.models(), observer.heard)
            told = None
            if self.transport.writes and (on_round is not None or HEARERS):
                told = observer.event(round, plan.rounds, measured=measured == done)
            if is_last(self.world, round, on_round, told, agreeing=agreeing):
                self.stopped = done < plan.rounds
                break
        if not self.done:
            raise BudgetError("the budget does not afford the run: raise --epsilon")
        if measured < self.done or self.done == start:
            observer.observe(self.done - 1, rounds.heard)

    def finish(self, loader: Loader | None, begun_at: float) -> Outcome:
        """Agree on models and figures, and write them; ``begun_at`` is when the run began."""
        plan, world, transport, rounds = self.plan, self.world, self.transport, self.rounds
        for node in rounds.party.nodes:
            node.ledger.end()
            node.ledger.close()
        theta = answer(plan.settings.answer, rounds, self.observer, self.tail, self.done)
        classes = plan.data.labels if plan.data.task == "classes" else ()
        model = run_folder.model_bytes(theta, plan.data.feature_names, classes)
        if world.journal is not None:  # on the disk before it gives others what they need for an end
            ledger = run_folder.sha256(self.folder / run_folder.ledger_name(world.rank, world.size))
            world.journal.note_model(made_of(ledger, {"model.npz": model}))
        pooled, journal = None, () if self.journal is None else self.journal.notes
        if plan.config.simulation:  # the writer computes it for all
            mine = pooled_figure(plan, loader, self.found, alone=world.size == 1) if transport.writes else None
            said = share(world, mine, "pooled")
            pooled = next((value for value in said if type(value) is float and math.isfinite(value)), None)
        summary = summarise(
            plan,
            self.done,
            rounds.party,
            self.observer,
            transport,
            {"total": time.perf_counter() - begun_at, **rounds.seconds},
            (*plan.notes, *rounds.notes(self.done), *journal),
            pooled,
            stopped=self.stopped,
        )
        if transport.writes:
            write_end(model, plan.method.deviation(), summary, self.folder, world)
        if world.shared_folder:
            share(world)  # no process returns before the folder is whole
        if self.journal is not None:
            self.journal.delete()
        say("finished", f"finished after {counted(self.done, 'round')}", round=self.done - 1)
        return self.folder, summary, theta


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
