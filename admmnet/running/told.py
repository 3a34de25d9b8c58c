"""What each process tells of its agents, and is believed of no others: numbers of records, features, budgets left."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from admmnet.data import Records
from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.settings import PrivacySettings
from admmnet.running.loading import Holders
from admmnet.running.topics import MOST_RECORDS
from admmnet.transport import World
from admmnet.transport.collective import owned, share

LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""


def told_of(holders: Holders, data: Records, world: World) -> dict[str, Any]:
    """What a process tells all others of its agents' records, once they are read.

    RequestError if they are more than the network file allows.
    """
    counts = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    most = None if world.network is None else world.network.peers[world.rank].records
    if most is not None and sum(counts.values()) > most:
        raise RequestError(
            f"agent {world.rank} has {sum(counts.values())} records, more than the {most} that the network file allows "
            f"it: raise records of agent {world.rank} there, at every host, or leave it out"
        )
    alike = {"width": len(data.feature_names), "tests": len(data.y_test)}
    return {"counts": counts} | {name: dict.fromkeys(holders, n) for name, n in alike.items()}


def counts_of(world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders) -> dict[int, int]:
    """n_i of all agents, each by its owner's word; of this process's agents as their holders count them.

    Weights and sums use them: nobody is believed to hold more than the network file allows it (``topics.Facts``).
    ``told`` is what all processes have told, by ``told_of``.
    """
    mine = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    valid: Callable[[int, Any], bool] = lambda i, n: type(n) is int and 1 <= n <= MOST_RECORDS  # noqa: E731
    return owned(world, told, owners, mine, valid, "number of records", key="counts", absent=lambda i: 1)


def alike_of(
    world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders, topic: str, own: int
) -> int:
    """Number that all agents must have alike: of features (``width``) or of test records (``tests``).

    RequestError if they differ; on hosts of their own at agents with another number than most, which leave.
    """
    what = {"width": "features", "tests": "test records"}[topic]
    least = 1 if topic == "width" else 0
    valid: Callable[[int, Any], bool] = lambda i, n: type(n) is int and least <= n <= MOST_RECORDS  # noqa: E731
    mine = dict.fromkeys(holders, own)
    how: dict[str, Any] = {"key": topic, "lasting": False, "absent": lambda i: own}
    known = owned(world, told, owners, mine, valid, f"number of {what}", **how)
    numbers, hosts = [*known.values()], world.start is not None and not world.shared_folder
    usual = max(numbers, key=numbers.count)
    odd = world.rank if hosts and own != usual else next((i for i, n in known.items() if n != usual), None)
    if odd is not None and (not hosts or own != usual):
        error = RequestError(f"agent {odd} has {known[odd]} {what}, most have {usual}: give all files of one form")
        raise error if hosts else error.of_all()
    return own


def nominal_of(
    settings: MethodSettings,
    world: World,
    owners: Sequence[Sequence[int]],
    targets: Mapping[int, Target],
    *,
    accounted: bool = True,
    lasting: bool = True,
) -> dict[int, float]:
    """Nominal zCDP budget of every agent, eq. (19), where methods ask for it; ``targets`` are this process's.

    What is left only its owner knows. Others' budgets decide the penalty and nothing else. None is believed to be above
    that of the agent's public epsilon and delta. Where nobody is ``accounted``, all budgets are public.
    """
    if settings.baseline or not settings.budgeted or settings.method != "proven":
        return {}
    plain = cache(Target.nominal_rho)

    def valid(agent: int, rho: Any) -> bool:
        most = plain(Target(*PrivacySettings.budget_of(settings, agent)))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    def left(target: Target) -> float:
        """At any order where nothing is spent: a resumed first run finds an order that its own plan has chosen."""
        unspent = target.spent and not target.spent.rho
        return plain(replace(target, spent=None, account=None) if unspent else target)

    mine = {i: left(target) for i, target in targets.items()}
    if accounted:
        words = share(world, {"values": mine}, "left")
    else:
        words = [{"values": {str(i): plain(target_of(settings, i)) for i in agents}} for agents in owners]
    absent: Callable[[int], float] = lambda i: plain(Target(*PrivacySettings.budget_of(settings, i)))  # noqa: E731
    return owned(world, words, owners, mine, valid, "budget left (rho)", lasting=lasting, absent=absent)


def target_of(settings: MethodSettings, agent: int, account: AccountFile | None = None) -> Target:
    """Budget of an agent, and the part of it that its account has spent already."""
    # as PrivacySettings has it: settings of another package's method do not say what was promised
    epsilon, delta = PrivacySettings.budget_of(settings, agent) if settings.budgeted else (math.inf, 1.0)
    plain = Target(epsilon, delta, str(settings.accountant), form=str(settings.method))
    return plain if account is None else replace(plain, spent=account.past, account=account.began)
