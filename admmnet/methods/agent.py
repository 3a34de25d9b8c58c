"""One agent as its method sees it, and what was decided for it before the first round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import AdmmnetError, RequestError
from admmnet.holder.answers import NO, REFUSED, Answer, Measurement, Released
from admmnet.holder.measurements.gate import GradientNorm, HeldNorm, PublishedComparison
from admmnet.methods.blame import defined
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Calibrated
from admmnet.solvers.radius import all_finite
from admmnet.types import Vector

GATES = HeldNorm, GradientNorm, PublishedComparison
"""Questions that decide whether an agent speaks."""
Mask: TypeAlias = NDArray[np.bool_]


class Contact(NamedTuple):
    """A round's trouble around one agent, by neighbour in ascending order."""

    present: Mask
    """Shape (degree,). Whether the edge is there, known before the agent solves."""
    arrives: Mask
    """Shape (degree,). Whether the agent's message gets there, known by acknowledgement; False where the edge is
    absent."""
    hears: Mask
    """Shape (degree,). Whether the neighbour's message gets here; False where the edge is absent."""


class ReleasedRows(NamedTuple):
    """Answers to what many agents ask at once: vectors, shape (B, d), and whether each said one, shape (B,)."""

    value: NDArray[Any]
    said: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What was decided for one agent before the first round, from public facts."""

    eta: float = 0.0
    """ADMM penalty."""
    regularisation: float = 0.0
    """lambda/N, the agent's share of the regulariser."""
    proximal: float = 0.0
    """Weight of the self-term."""
    weight: float = 1.0
    """w_i of its mean loss, docs/methods.md (60)."""
    convexity: float = 0.0
    """m / w_i, m the least convexity of its objectives over the run."""
    noise: Any = None
    """The method's own numbers, None where there are none."""
    charges: Charges = ()
    """All that the run can charge: the contract's filter is made of it."""

    def calibrated(self, found: Calibrated[Any]) -> AgentPlan:
        """Return the same with calibrated noise."""
        return replace(self, noise=found.noise, charges=found.charges)


@dataclass(slots=True)
class ModelState:
    """State of an agent that knows nothing but the last released model, shape (size,)."""

    theta: Vector


@dataclass(slots=True)
class Agent:
    """One agent as its method sees it: no path leads to records or ledger."""

    id: int
    """Its number, from 0."""
    neighbours: tuple[int, ...]
    """Ascending, the order of every sum; where the graph changes, those of all rounds."""
    plan: AgentPlan
    """What was decided before the first round."""
    state: Any = None
    """The method's own dataclass."""
    releases: int = 0
    """Vectors released so far."""
    sent: int = 0
    """Messages, one to each neighbour that was there."""
    numbers: int = 0
    """Numbers in these, of 8 bytes."""
    asked: int = 0
    """Questions that its gate answered."""
    yes: int = 0
    """Those with yes."""
    silent: int = 0
    """Rounds without a release, before any refusal."""
    contact: Contact | None = None
    """Trouble of the round, or None."""

    def answered(self, measurement: Measurement, answer: Answer) -> None:
        """Count a question of a gate that was answered."""
        if isinstance(measurement, GATES) and answer is not REFUSED:
            self.asked, self.yes = self.asked + 1, self.yes + (answer is not NO)

    @property
    def degree(self) -> int:
        """Number of neighbours, |B_i|."""
        return len(self.neighbours)

    @property
    def present(self) -> int:
        """Neighbours that are there in this round."""
        return self.degree if self.contact is None else int(self.contact.present.sum())

    def question(self, kind: Callable[..., Measurement], *numbers: Any, **more: Any) -> Any:
        """Question of a kind with these numbers; ``AgentRows`` has one of many agents."""
        return kind(*numbers, **more)

    def each(self, key: Callable[[Agent], tuple[Any, ...]], make: Callable[..., Measurement]) -> Any:
        """Question that is made of an agent's ``key``; ``AgentRows`` has one of many agents."""
        return make(*key(self))

    @property
    def convexity(self) -> float:
        """Of the round's objective over w_i, whatever the trouble: (62)."""
        whole = self.plan.regularisation + 2.0 * self.plan.eta * self.degree + self.plan.proximal
        return whole / self.plan.weight


def vector_of(answer: object) -> Vector | None:
    """What is said of an answer: the vector of a release, None of a no or a refusal; of ``AgentRows`` all of it."""
    found: Any = answer.value if isinstance(answer, Released) else answer if isinstance(answer, ReleasedRows) else None
    return found  # type: ignore[no-any-return]


def check_vector(
    kind: type, name: str, vector: Any, shape: tuple[int, ...], dtype: str, error: type[AdmmnetError] = RequestError
) -> None:
    """Raise ``error`` where an author's function returned anything but a finite array of this shape and dtype."""
    right = isinstance(vector, np.ndarray) and vector.dtype == dtype and vector.shape == shape and vector.size
    if right and (dtype == "int64" or all_finite(vector)):
        return
    found = type(vector).__name__
    if isinstance(vector, np.ndarray):
        found = f"{vector.dtype} of shape {vector.shape}{', not all of it finite' if right else ''}"
    none = "None, or " if name == "propose" else ""
    raise error(f"{defined(kind, name)}: returns {found}: it must be {none}finite {dtype} of shape {shape}")
