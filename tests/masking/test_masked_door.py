"""Masked sums behind the door: it masks by the contract, and by the attempt that the loop has begun."""

from __future__ import annotations

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import REFUSED, Ask, Door, Holder, Released
from admmnet.holder.measurements import GradientSum
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, MemoryLedger, Promise
from admmnet.privacy.events import DiscreteGaussian
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from tests.planned import contract_for

from .crew import crew

U, SUM = (0, 1, 2, 3, 4), GradientSum(np.zeros(3), 64.0, 2.0**-28)


def door(contract: Contract, colluders: int | None = 2) -> tuple[Door, MemoryLedger]:
    ledger = MemoryLedger(contract)
    masks = None if colluders is None else crew(5, colluders=colluders)[0]
    return Door(Holder(np.eye(3), np.ones(3)), 0, Logistic(), ledger, AgentStreams(0, 1), masks), ledger


def planned(agents: int = 5, colluders: int = 2, sums: int = 2) -> Contract:
    """Contract of a budget that so many sums come to."""
    charges = ((DiscreteGaussian(1.001, SUM.sigma, SUM.grid, 3, agents, colluders), sums),)
    epsilon = Totals.of(charges, "proven").epsilon_proven(1e-4) * (1.0 + 1e-9)
    return contract_for(epsilon, 1e-4, charges, colluders=colluders)


@pytest.mark.parametrize(("promised", "masks"), [(None, 2), (2, None), (2, 1), (0, None)])
def test_masks_are_those_of_the_contract(promised: int | None, masks: int | None) -> None:
    with pytest.raises(RequestError, match=rf"colluders = {promised}, and the agent's masks are for {masks}"):
        door(Contract(Promise(1.0, 1e-4, colluders=promised)), masks)


def test_what_is_charged_says_who_takes_part_and_k_of_the_contract() -> None:
    """No sum is answered before an attempt, nor twice in one: refused before anything is charged."""
    at, ledger = door(planned())
    with pytest.raises(RequestError, match="before an attempt has begun"):
        at.answer(Ask(SUM), 0)
    for number, participants in ((1, U), (2, (0, 1, 2, 4))):
        at.attempt(number, participants)
        before = ledger.totals
        assert isinstance(at.answer(Ask(SUM), 0), Released)
        event = DiscreteGaussian(SUM.sensitivity(at._known), SUM.sigma, SUM.grid, 3, len(participants), 2)
        assert ledger.totals.mu_squared == before.plus([event]).mu_squared
        assert (ledger.totals.colluders, ledger.events) == (2, number)
        with pytest.raises(RequestError, match="no attempt is answered twice"):
            at.answer(Ask(SUM), 0)
        assert ledger.events == number
    at.attempt(3, U)
    assert at.answer(Ask(SUM), 0) is REFUSED


@pytest.mark.parametrize(("agents", "colluders", "sums"), [(5, 2, 2), (4, 2, 1), (3, 0, 1), (1, 0, 0)])
def test_more_participants_than_planned_get_what_the_budget_affords(agents: int, colluders: int, sums: int) -> None:
    """Of two sums of five: the more hide in one, the more it tells those who know all masks, who have a budget, too."""
    at, ledger = door(contract := planned(agents, colluders), colluders)
    for number in range(1, sums + 2):
        at.attempt(number, U)
        assert (at.answer(Ask(SUM), 0) is REFUSED) is (number > sums)
    assert ledger.events == sums
    alone = ledger.totals.unmasked
    for totals, most in ((ledger.totals, contract.most()), (alone, contract.most(alone=True))):
        assert most is not None
        assert (totals or ledger.totals).epsilon_proven(1e-4) <= most.epsilon * (1.0 + 1e-9)


@pytest.mark.parametrize("participants", [(0, 1, 2), (1, 2, 3, 4), (0, 1, 2, 9)])
def test_an_attempt_that_hides_nobody_is_not_answered(participants: tuple[int, ...]) -> None:
    at, ledger = door(planned())
    at.attempt(1, participants)
    with pytest.raises(RequestError):
        at.answer(Ask(SUM), 0)
    assert ledger.events == 0
