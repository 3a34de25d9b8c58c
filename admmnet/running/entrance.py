"""Everything that precedes the first round, in its order: what is read, what processes tell of it, what follows."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from admmnet.config.run_config import RunConfig, with_delta
from admmnet.data.settings import GIVEN, OwnFile
from admmnet.data.sources import left_raw
from admmnet.errors import RequestError
from admmnet.methods import fixed, only_filled
from admmnet.methods.base import Facts
from admmnet.methods.encoding_rule import Wish
from admmnet.methods.single_site.base import SingleSite
from admmnet.privacy.ledger.account import AccountFile
from admmnet.running.accounts import delta_of, open_accounts, records_of
from admmnet.running.before import (
    faults_of,
    journal_note,
    located,
    notes_of,
    numbers_of,
    precheck,
    require_room,
    told_of,
)
from admmnet.running.closing import check_answer
from admmnet.running.loading import Loader, held, read_records
from admmnet.running.plan import Plan, decide
from admmnet.running.takeover import check_charged, check_columns, source_of
from admmnet.solvers.certificate import NAMES, chosen
from admmnet.transport import World, layout, owners_of
from admmnet.transport.collective import owned, share


def prepare(config: RunConfig, world: World, loader: Loader | None = None, said: tuple[str, ...] = ()) -> Plan:
    """Decide everything that precedes the first round; in ``as_one``.

    Columns that are declared whole, and that noise would drown, are encoded as declared: ``said`` is what the reader
    must know of that.

    Raises
    ------
    RequestError
        If settings, graph, data or an account are wrong.
    BudgetError
        If a budget affords no release.
    """
    given, simulation = loader is not None, config.simulation
    if config.baseline and world.size > 1:
        raise RequestError(
            f"algorithm = {config.algorithm!r} runs in one process, and the launcher started {world.size}: leave out "
            f"mpirun, or take admmnet baseline {config.algorithm}, which the first rank runs"
        )
    sections = config.sections
    run = sections.run
    settings = fixed(config.chosen_method.of_labels(sections.method, config.declared))
    found, graph = located(config, world)
    network = sections.network.changed(**{"block": 1} | {name: found[name] for name in found if name != "split"})
    data_settings = config.request.changed(split=found.get("split", config.split))
    taking = bool(data_settings.encoded_by)
    source = source_of(data_settings, settings, run, simulation=simulation) if taking else None
    request = data_settings
    if not (
        simulation or world.shared_folder or request.named or request.data in GIVEN
    ):  # over hosts it is the agent's own file
        request = OwnFile(**asdict(request))
    request = request if source is None else source.read_by(request)
    count = len(graph)
    strangers = [agent for agent in config.budgets if int(agent) >= count]
    if strangers:
        raise RequestError(f"[privacy.agents.{strangers[0]}]: the agents are numbered 0 to {count - 1}")
    check_answer(config.answer, graph)
    if not given:
        config.check_task()
    places = layout(graph, int(network.block), world.size)
    owners, by_name = owners_of(places), simulation and not (config.simulate or config.seeded)
    with ExitStack() as reading:
        data = read_records(request, settings, loader, world, owners, reading, simulation=simulation, by_name=by_name)
        if source is not None:
            check_columns(source, data, request)
        how: dict[str, Any] = {"given": given, "simulation": simulation, "dependent": config.data_dependent}
        holders = held(places[world.rank], data, settings, **how)
        folder, choosing = config.account, config.delta == "auto" and config.budgeted
        deltas = {i: folder and delta_of(Path(folder), i) for i in holders if choosing}
        own: dict[str, Any] = {"machine": platform.node(), "kernel": NAMES[chosen(config.kernel)]}
        own |= {"account": config.account is not None, "deltas": deltas}
        own |= told_of(holders, data, world)
        told = share(world, own, "facts")
    there = [one for one in told if one is not None]
    machines, mine = [str(one.get("machine")) for one in there], owners[world.rank]
    if config.seeded:  # the same bits on all processes, whatever is built where
        run = run.changed(kernel="c" if all(one.get("kernel") == NAMES["c"] for one in there) else "numpy")
    for holder, _ in holders.values():
        holder.kernel = run.kernel
    counts, width, _ = (numbers_of(world, owners, told, own[topic], topic) for topic in ("counts", "width", "tests"))
    data = replace(data, counts=counts, shards={} if given else data.shards)
    if choosing:
        valid: Callable[[int, Any], bool] = lambda i, d: d is None or (type(d) is float and 0.0 < d < 1.0)  # noqa: E731
        theirs = owned(world, told, owners, deltas, valid, "account's delta", key="deltas")
        settings = with_delta(settings, list(counts.values()), theirs)
    with ExitStack() as failing:
        accounts = dict[int, AccountFile]()
        if config.account is not None:
            records = records_of(request, network.agents or 1, config.mode)
            accounts = open_accounts(settings, records, counts, mine, run.resume, failing)
        if source is not None:
            check_charged(source, accounts)
        taken = None if source is None else source.taken
        facts = Facts(graph, counts, width[mine[0]], task=data.task, classes=data.classes, alphas=data.alphas)
        wish = Wish(config.encode, request.whiten, request.encode_share, request.whiten_share)
        accounted = any(one.get("account") is not False for one in there)
        method, agents, contracts, prologue = decide(
            settings, world, owners, facts, accounts, wish, data.raw, taken, accounted=accounted
        )
        nothing = data.raw is not None and taken is None and "shape" not in prologue.names
        if nothing and left_raw(config.sections.data) == "bounded":
            failing.close()  # they are opened again
            return prepare(config.changed(encode="declared"), world, loader, prologue.notes[:1])
        settings = only_filled(settings, method.settings)
        if run.measure_every == "auto":  # by public settings, never by a clock: the same at all hosts, and in every run
            run = run.changed(measure_every=1 if isinstance(method, SingleSite) else max(1, method.rounds // 10))
        decided = sections.data.changed(split=data_settings.split)
        config = config.having(method=settings, data=decided, network=network, run=run)
        require_room(machines, method, len(agents))
        precheck(method, agents, holders)
        if not (config.seeded or config.baseline):
            hosts = world.journal is not None
            degrees = [len(graph[i]) if hosts else 0 for i in agents]
            said += journal_note(Path(run.out or run.resume or "runs"), method, degrees)
        trouble = None if config.baseline else faults_of(network, settings, graph, run.seed, config.graph_seed)
        failing.pop_all()  # the accounts stay open
    known = accounts.values(), len(set(machines))
    notes = notes_of(settings, data, *known, simulation=simulation, seeded=run.seeded)
    notes += (*(trouble.notes() if trouble else ()),)
    made = holders, method, agents, contracts, accounts, trouble, prologue
    return Plan(config, request, settings, graph, data, *made, notes, (*said, *prologue.notes, *method.notes()))
