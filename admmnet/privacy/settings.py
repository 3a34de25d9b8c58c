"""The promise: section [privacy] of a run's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from admmnet.errors import RequestError
from admmnet.settings import Auto, Section, about, settings_in

ANOTHER_FOLDER = (
    "name another folder with --account; it starts from zero, but costs of the same records in both add up: "
    "admmnet account show DIR DIR2"
)
"""Remedy where an account cannot be used: budgets add up only within one folder."""


class PrivacySettings(Section, frozen=True, kw_only=True):
    """Budgets, accountant, account."""

    table: ClassVar[str] = "privacy"
    accountant: Annotated[str, about(choices=("proven", "published"))] | None = None
    """arithmetic that calibrates and guards (default: the method's)"""
    epsilon: Annotated[float, about(gt=0, le=1e6, everyday=6)] = 1.0
    """budget epsilon of every holder of records"""
    delta: Annotated[float, about(gt=0, lt=1, everyday=7)] | Auto = "auto"
    """budget delta; auto: an account's, else 0.1 over the fewest records of a holder, at most 1e-5"""
    account: Annotated[str, about(metavar="DIR", hosts=True, everyday=8)] | None = None
    """folder of an account that runs on the same records share"""
    no_account: Annotated[bool, about(hosts=True, everyday=9)] = False
    """this run counts alone: no account adds up spending"""
    account_order: Annotated[bool, about(hosts=True)] = False
    """open a new account with one Renyi order, which takes every kind of event"""
    group_size: Annotated[int, about(ge=1, le=1_000_000, metavar="K")] = 1
    """also report the guarantee for a person with K records anywhere"""
    trust: Annotated[str, about(choices=("local", "masked"), scope="network")] = "local"
    """of noisy-gd and ssp: trust nobody, or that at most --colluders other agents collude (masked)"""
    colluders: Annotated[int, about(ge=0, le=1_000_000, metavar="K", scope="network")] | None = None
    """with --trust masked: other agents that may collude, at most N - 2"""
    budgets: Annotated[Mapping[str, Any], about(scope="network")] = {}
    """budgets of single agents: [privacy.agents.3] epsilon = 0.5"""

    def budget_of(self, agent: int) -> tuple[float, float]:
        """Epsilon and delta of one agent, once delta is a number."""
        own = self.budgets.get(str(agent), {})
        return float(own.get("epsilon", self.epsilon)), float(own.get("delta", self.delta))

    def check(self) -> None:
        """Check budgets, and that the number of colluders comes with masks, and masks with it."""
        if self.trust == "masked" and self.colluders is None:
            raise RequestError(
                "trust = 'masked' needs colluders, the number of other agents that may work together against one: 1 "
                "keeps the noise lowest, half of all agents is cautious"
            )
        if self.trust == "local" and self.colluders is not None:
            raise RequestError("colluders goes with trust = 'masked': give that, or leave it out")
        if self.account is not None and self.no_account:
            raise RequestError("no_account and account exclude each other: give one of them")
        if self.account_order and self.account is None:
            raise RequestError("account_order says how an account is opened: name its folder with account as well")
        known = settings_in(PrivacySettings)
        for agent, table in self.budgets.items():
            where = f"[privacy.agents.{agent}]"
            # 03 would be a budget that no agent looks up
            number = agent.isdecimal() and agent == str(int(agent))
            if not number or not isinstance(table, dict) or not set(table) <= {"epsilon", "delta"}:
                raise RequestError(f"{where} must be a table of an agent's number with the keys epsilon and delta")
            for key, value in table.items():
                known[key].check(value, f"{where} {key}")
