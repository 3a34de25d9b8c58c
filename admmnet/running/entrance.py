"""The entrance of every run: arguments of all processes compared, sections read, everything decided; then its rounds.

The whole configuration is known here, and where another program is told of it; below, a function takes its section.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from admmnet.config.defaults import with_delta
from admmnet.config.modes import check_mode
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.config.toml import settings_digest, to_toml
from admmnet.data.records import Records
from admmnet.data.settings import DataSettings
from admmnet.data.sources import whole_and_bounded
from admmnet.errors import RequestError, RunError
from admmnet.faults.model import FaultModel
from admmnet.files import raise_descriptors, remedy
from admmnet.graph.simple import Graph
from admmnet.methods import fixed, only_filled
from admmnet.methods.blame import blaming
from admmnet.methods.encoding_rule import Wish
from admmnet.privacy.ledger.account import AccountFile
from admmnet.record.folder import SUMMARY
from admmnet.running.accounts import deltas_in, deltas_of, open_accounts, opening_notes, records_of
from admmnet.running.agreement import world_of
from admmnet.running.arguments import Arguments, in_python
from admmnet.running.ends import terminating
from admmnet.running.events import Outcome, outcome_of
from admmnet.running.graphs import faults_of, located, schedule_of
from admmnet.running.handshake import arguments, public_settings, resuming
from admmnet.running.loading import Holders, Loader, block_of, held, read_by, read_records
from admmnet.running.loop import execute
from admmnet.running.notes import drowned_of, host_notes, is_share, notes_of, source_note
from admmnet.running.plan import Prepared, Public, Texts, decide
from admmnet.running.precheck import precheck, require_room
from admmnet.running.readout import check_answer
from admmnet.running.takeover import Source, check_charged, check_columns, source_of
from admmnet.running.told import alike_of, counts_of, told_of
from admmnet.solvers.kernel import NAMES, chosen
from admmnet.transport import World
from admmnet.transport.collective import end_all_on_error, install_exception_hook, pairs_of, run_on_all, told_by_all
from admmnet.transport.layout import Layout, layout
from admmnet.transport.stall import STALL


class Plan(Prepared, frozen=True):
    """What ``on_start`` gets: the run, and its settings with every ``auto`` replaced that has one value for all."""

    config: RunConfig

    @property
    def prepared(self) -> Prepared:
        """The run alone."""
        return Prepared(*(getattr(self, name) for name in Prepared.__struct_fields__))


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
    config, given = arguments(world, config, settings, asked, stoppable=stoppable)
    raise_descriptors()
    ending = end_all_on_error(world, debug=debug, withhold=not config.simulation)
    loader = asked.loader if given is None else given.load
    # more threads a process than one are slower on few cores, and change the last bits
    with terminating(), ending, threadpool_limits(limits=1):
        try:
            if config.resume == AUTO and (Path(str(config.out)) / SUMMARY).exists():
                return outcome_of(Path(str(config.out)))
            own = config

            def checked() -> tuple[RunConfig]:
                found = own if own.resume is None else resuming(own)
                check_mode(found)
                return (found,)

            (config,) = run_on_all(world, checked, apart=True)
            if config.transport == "zmq" and world.name != "zmq":
                from admmnet.running.spawn import run_spawned
                from admmnet.transport.local import LocalWorld

                config, graph = located(config, LocalWorld())
                on: tuple[Any, Any] = asked.on_start, asked.on_round
                return run_spawned(config, graph, *on, stoppable=stoppable, debug=debug, loader=loader)

            def ready() -> tuple[Prepared, Callable[[], None]]:
                plan = prepare(config, world, loader)
                return plan.prepared, lambda: None if asked.on_start is None else asked.on_start(plan)

            with blaming(config.chosen_method, RunError):
                return execute(world, ready, asked.on_round, loader, stoppable=stoppable)
        except RequestError as error:
            if loader is not None:  # a program's
                error.args = (in_python(str(error)),)
            raise
        except OSError as error:
            raise RunError(f"cannot write {error.filename or 'the run folder'}: {remedy(error)}") from error


def prepare(config: RunConfig, world: World, loader: Loader | None = None, said: tuple[str, ...] = ()) -> Plan:
    """Decide everything that precedes the first round; errors are raised on every process alike.

    Columns that are declared whole, and that noise would drown, are encoded as declared: ``said`` is what the reader
    must know of that.

    Raises
    ------
    RequestError
        If settings, graph, data or an account are wrong.
    BudgetError
        If a budget affords no release.
    """
    alone, quoting, simulation = config.baseline, config.simulation, config.simulation
    if alone and world.size > 1:
        raise RequestError(
            f"algorithm = {config.algorithm!r} runs in one process, and the launcher started {world.size}: leave out "
            f"mpirun, or take admmnet baseline {config.algorithm}, which the first rank runs"
        ).of_all()
    given = loader is not None

    def loaded() -> tuple[RunConfig, Graph, Layout, Records, Holders, DataSettings, Source | None]:
        found = config.filled(fixed(config.chosen_method.of_labels(config.sections.method, config.declared)))
        found, graph = located(found, world)
        sections, count = found.sections, len(graph)
        source = source_of(sections.data, sections.method, sections.run, simulation=simulation)
        request = read_by(sections.data, world, simulation=simulation)
        request = request if source is None else source.read_by(request)
        strangers = [agent for agent in found.budgets if int(agent) >= count]
        if strangers:
            raise RequestError(f"[privacy.agents.{strangers[0]}]: the agents are numbered 0 to {count - 1}")
        check_answer(found.answer, graph)
        if not given:
            found.check_task()
        places = layout(graph, block_of(sections.network), world.size)
        by_name = simulation and not (found.simulate or found.seeded)
        how = {"simulation": simulation, "by_name": by_name}
        data = read_records(request, sections.method, loader, world, places.owners, **how)
        if source is not None:
            check_columns(source, data, request)
        how = {"given": given, "simulation": simulation, "dependent": found.data_dependent}
        holders = held(places.blocks[world.rank], data, sections.method, **how)
        return found, graph, places, data, holders, request, source

    def facts(read: tuple[Any, ...]) -> dict[str, Any]:
        deltas = deltas_in(config.account, read[4]) if config.delta == "auto" and config.budgeted else {}
        own = {"machine": platform.node(), "kernel": NAMES[chosen(config.kernel)], "deltas": pairs_of(deltas)}
        return own | {"account": config.account is not None} | told_of(read[4], read[3], world)

    read, told = told_by_all(world, loaded, facts, topic="facts", quoting=quoting)
    config, graph, places, data, holders, request, source = read
    owners, machines = places.owners, [str(one.get("machine")) for one in told if one is not None]
    mine, faults = owners[world.rank], config.sections.faults
    if config.seeded:  # the same bits on all processes, whatever is built where
        compiled = all(one.get("kernel") == NAMES["c"] for one in told if one is not None)
        config = config.changed(kernel="c" if compiled else "numpy")
    for holder, _ in holders.values():
        holder.kernel = config.kernel
    counts = counts_of(world, owners, told, holders)
    data = replace(data, counts=counts, shards={} if given else data.shards)
    width = alike_of(world, owners, told, holders, "width", len(data.feature_names))
    alike_of(world, owners, told, holders, "tests", len(data.y_test))
    if config.delta == "auto" and config.budgeted:
        config = with_delta(config, list(counts.values()), deltas_of(config.account, world, owners, told))
    network, settings, run = config.sections.network, config.sections.method, config.sections.run
    records = records_of(request, network.agents or 1, config.mode, seeded=run.seeded)
    accounts: dict[int, AccountFile] = {}

    def opening() -> None:
        accounts.update(open_accounts(settings, records, counts, mine, run.resume))
        if source is not None:
            check_charged(source, accounts)

    try:
        taken = None if source is None else source.taken
        public = Public(counts, width, data.task, data.classes, data.raw, taken, data.alphas)
        wish = Wish(config.encode, request.whiten, request.encode_share, request.whiten_share)
        lasting = world.start is not None and not world.shared_folder and not run.seeded and run.checkpoint_every
        changing = (faults.offline is not None and not alone) or bool(lasting)
        accounted = any(one.get("account") is not False for one in told if one is not None)
        how: dict[str, Any] = {"changing": changing, "accounted": accounted, "opening": opening}
        found = decide(settings, graph, world, owners, public, accounts, wish, **how)
        method, agents, contracts, prologue = found
        if data.raw is not None and not prologue.encodes and whole_and_bounded(config.section(DataSettings)):
            for account in accounts.values():
                account.close()
            return prepare(config.changed(encode="declared"), world, loader, prologue.notes[:1])
        settings, keeps = only_filled(settings, method.settings), run.checkpoint_every is not None
        config = config.filled(settings)
        if run.measure_every == "auto":  # by public settings, never by a clock: the same at all hosts, and in every run
            config = config.changed(measure_every=1 if method.open_ended else max(1, method.rounds // 10))
            run = config.sections.run

        def ready() -> FaultModel | None:
            require_room(machines, method, len(agents))
            precheck(method, agents, holders, checkpoints=keeps)
            if alone:
                return None
            schedule = schedule_of(faults.topology_schedule, network.agents, config.graph_seed)
            return faults_of(faults, settings, schedule, graph, run.seed)

        trouble, told = told_by_all(
            world, ready, lambda _: {"drowned": drowned_of(method, agents)}, topic="drowned", apart=True
        )
    except BaseException:
        for account in accounts.values():
            account.close()
        raise
    drowned = max(filter(is_share, (one.get("drowned") for one in told if one is not None)), default=0.0)
    advice = (*said, *prologue.notes, *method.notes(drowned))
    said = notes_of(settings, data, simulation=simulation, seeded=run.seeded)
    said += (*opening_notes(accounts.values()), *source_note(settings))
    notes = (*said, *advice, *host_notes(len(set(machines))), *(trouble.notes() if trouble else ()))
    masked = {} if config.colluders is None else public_settings(config, digests=not world.shared_folder)
    agreed = json.dumps(masked, sort_keys=True)
    kept = settings_digest(config) if keeps or run.resume is not None else ""
    texts = Texts(to_toml(config), kept, hashlib.sha256(agreed.encode()).hexdigest())
    asked = request, network, settings, run, config.mode, texts, faults.topology_schedule
    own = holders, method, agents, contracts, accounts, trouble, prologue
    return Plan(*asked, graph, data, *own, notes, advice, config)
