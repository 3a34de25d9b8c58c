"""What each process tells of its agents, and is believed of no others: numbers of records, features, budgets left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from admmnet.data import Records
from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.running.loading import Holders
from admmnet.transport import World
from admmnet.transport.collective import owned, pairs_of, told_by_all

LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
MOST_RECORDS = 2**53
"""Largest number of records or features that another process is believed: float64 counts up to here."""


def told_of(holders: Holders, data: Records) -> dict[str, Any]:
    """What a process tells all others of its agents' records, once they are read."""
    counts = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    return {"counts": pairs_of(counts), "width": pairs_of(dict.fromkeys(holders, len(data.feature_names)))}


def counts_of(world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders) -> dict[int, int]:
    """n_i of all agents, each by its owner's word; of this process's agents as their holders count them.

    Weights and sums use them: nobody is believed to hold more than the network file allows it. ``told`` is what all
    processes have told, by ``told_of``.
    """
    mine = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    words = [said and said.get("counts", ()) for said in told]
    valid: Callable[[int, Any], bool] = lambda i, n: type(n) is int and 1 <= n <= MOST_RECORDS  # noqa: E731
    counts = owned(world, words, owners, mine, valid, "number of records")
    for peer, agents in zip(world.network.peers, owners, strict=True) if world.network is not None else ():
        said = sum(counts[i] for i in agents)
        if peer.records is not None and said > peer.records:
            raise RequestError(
                f"agent {agents[0]} claims {said} records, more than the {peer.records} that the "
                f"network file allows it: raise records of agent {agents[0]} there, at every host, or leave it out"
            ).of_all()
    return counts


def width_of(
    world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders, data: Records
) -> int:
    """Number of features, the same at every agent."""
    own = len(data.feature_names)
    words, mine = [said and said.get("width", ()) for said in told], dict.fromkeys(holders, own)
    known = owned(world, words, owners, mine, lambda i, d: type(d) is int and 1 <= d <= MOST_RECORDS, "width")
    for i, width in known.items():
        if width != known[0]:
            raise RequestError(
                f"the agents' files differ in width: agent 0 has {known[0]} features, agent {i} has {width}"
            ).of_all()
    return own


def nominal_of(
    settings: MethodSettings,
    world: World,
    owners: Sequence[Sequence[int]],
    find: Callable[[], dict[int, Target]],
    *,
    unspent: Callable[[int], Target] | None = None,
    lasting: bool = True,
) -> dict[int, float]:
    """Nominal zCDP budget of every agent, eq. (19), where methods ask for it; ``find`` gives this process's targets.

    What is left only its owner knows. Others' budgets decide the penalty and nothing else. None is believed to be above
    that of the agent's public epsilon and delta. Where nobody has an account, ``unspent`` gives all targets.
    """
    shared = not settings.baseline and settings.budgeted and settings.method == "proven"
    plain = cache(Target.nominal_rho)

    def valid(agent: int, rho: Any) -> bool:
        most = plain(Target(*settings.budget_of(agent)))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    def anew(target: Target) -> Target:
        """At any order where nothing is spent: a resumed first run finds an order that its own plan has chosen."""
        return replace(target, spent=None, account=None) if target.spent and not target.spent.rho else target

    def left() -> dict[int, float]:
        targets = find()
        return {i: plain(anew(target)) for i, target in targets.items()} if shared else {}

    known = unspent is not None or not shared  # nobody need wait for others' words
    own, told = told_by_all(world, left, lambda found: {"left": pairs_of(found)}, apart=known)
    if not shared:
        return {}
    if unspent is None:
        words = [said and said.get("left", ()) for said in told]
    else:
        words = [pairs_of({i: plain(unspent(i)) for i in agents}) for agents in owners]
    return owned(world, words, owners, own, valid, "budget left (rho)", lasting=lasting)
