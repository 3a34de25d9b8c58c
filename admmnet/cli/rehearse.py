"""admmnet rehearse: a method's rounds on records that are all zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from admmnet.cli.flags import notes
from admmnet.cli.settings import SettingsCommand, settings_of
from admmnet.errors import counted
from admmnet.record.format import epsilon


class _Rehearse(SettingsCommand):
    """Settings of the method that is named first."""

    def algorithms(self, args: list[str]) -> Iterator[str]:
        yield from args[:1] if args and not args[0].startswith("-") else ()


@click.command(cls=_Rehearse, hidden={"algorithm", "out", "resume"})
@click.argument("name", metavar="NAME|FILE.py:CLASS")
@click.argument("config", required=False, metavar="[CONFIG.toml]")
def rehearse(name: str, config: str | None, **flags: Any) -> None:
    """Let a method go through its first and last rounds, on records that are all zero, and say what is wrong.

    Takes the flags of `run`. Graph, counts, plan and contracts are those that the run would have; its first and last
    rounds are made twice, the second time with gates that say no, a budget that refuses, a neighbour that is lost and a
    sum that is void. Nothing is written. Every run of a method from outside is rehearsed so before it begins.
    """
    from admmnet.running.entrance import prepare
    from admmnet.running.rehearsal import rehearse as go
    from admmnet.transport.local import LocalWorld

    settings = settings_of(config, {**flags, "algorithm": name})
    if settings.account is not None:
        notes("the account is not read: these are the contracts of a first run")
    plan = prepare(replace(settings, account=None, no_account=True), LocalWorld())
    go(plan.method, plan.agents, plan.contracts, plan.holders, plan.loss, checkpoints=True, whole=True)
    private = [contract.most() for contract in plan.contracts.values()]
    most = max((reading.epsilon for reading in private if reading is not None), default=None)
    promised = "it has no privacy" if most is None else f"its plan lets epsilon {epsilon(most)} through at most"
    print(
        f"{name}: nothing wrong in the first and last of {counted(plan.rounds, 'round')} of "
        f"{counted(len(plan.agents), 'agent')}; {promised}"
    )
