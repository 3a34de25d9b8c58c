"""Methods of one holder of all records: a round is an epoch of a series of steps (docs/baselines.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.series import Series
from admmnet.holder.series.batches import steps_per_epoch
from admmnet.methods.base import Agent, Method
from admmnet.types import Vector


@dataclass(frozen=True)
class BaselineSettings:
    """Settings of a baseline, every ``auto`` replaced; what the method does not have is ignored.

    Parameters
    ----------
    algorithm : str
        Name of the baseline.
    loss : str
        ``logistic``, ``hinge`` or ``squared``.
    method, accountant : str
        ``proven`` or ``published``.
    epsilon, delta : float
        The budget.
    regularisation : float
        lambda.
    batch, epochs : int
        L and the number of passes.
    clip, learning_rate : float
        C, and c of the schedules.
    sampling : str
        ``poisson``, ``fixed`` or ``shuffled``.
    dual_noise : bool
        Whether dual variables are released, with noise.
    accounting : str
        ``pld`` or ``rdp``: how the proven accountant reads sampled steps.
    schedule : str
        ``constant``, ``sqrt`` or ``inverse``.
    noise : str
        Of BANCO: ``laplace`` or ``gaussian``.
    """

    algorithm: str
    loss: str
    method: str
    accountant: str
    epsilon: float
    delta: float
    regularisation: float
    batch: int
    epochs: int
    clip: float
    learning_rate: float
    sampling: str
    dual_noise: bool
    accounting: str
    schedule: str
    noise: str

    def steps(self, count: int) -> int:
        """T of batches from ``count`` records or features."""
        return self.epochs * steps_per_epoch(count, self.batch)


@dataclass(slots=True)
class ModelState:
    """The last released model, shape (d,)."""

    theta: Vector


class SingleSite(Method):
    """A method of one holder; the agent's plan has its calibrated series as ``noise``.

    Attributes
    ----------
    one_pass : bool
        Whether every record is seen once.
    """

    one_pass: ClassVar[bool] = False

    def __init__(self, settings: BaselineSettings) -> None:
        self.own = settings

    @classmethod
    def calibration(cls, settings: BaselineSettings) -> str:
        """What ``noise`` of ``series`` is: ``multiplier``, ``pure`` epsilon, ``sigma``, or ``open`` for none."""
        return "multiplier"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Series of steps with this noise.

        Raises
        ------
        RequestError
            If no proof covers the settings.
        """
        raise NotImplementedError

    @classmethod
    def size(cls, settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
        """T, and the share of the records in a step."""
        return settings.steps(records), settings.batch / records

    def start(self, agent: Agent, width: int) -> ModelState:
        """At zero."""
        return ModelState(np.zeros(width))

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Model after the next epoch; None once there is none, or the budget refuses."""
        answer = yield Ask(agent.plan.noise)
        return answer.value if isinstance(answer, Released) else None

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        """Keep the last model."""
        if own is not None:
            agent.state.theta = own

    def model(self, agent: Agent) -> Vector:
        """Last model."""
        found: Vector = agent.state.theta
        return found
