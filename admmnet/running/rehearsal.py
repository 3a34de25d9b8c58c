"""A method's rounds before a run connects: its true facts, contracts and graph, and records that are all zero.

What a method of another package gets wrong is told then, with its author's file and line, and not after hours, or by
one host alone. Its questions go through doors of their own, which bound, count and refuse as those of the run do.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.files import free_memory
from admmnet.holder import Ask, Door
from admmnet.holder.answers import NO, REFUSED, Answer
from admmnet.holder.measurements import GradientNorm, HeldFall, NoisyFall, PublishedComparison
from admmnet.masking import MaskKey, Masks, start_of
from admmnet.methods import METHODS
from admmnet.methods.base import AgentPlan, Contact, Method
from admmnet.methods.blame import asking, blaming, defined
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.running.checkpoint.state import kept_state
from admmnet.running.loading import Holders
from admmnet.running.node import carried_out, proposal
from admmnet.solvers.losses import Loss
from admmnet.types import Total

MOST_AGENTS = 50
MOST_DENSE = 2**23
"""Numbers from which on rows of zeros are sparse ones."""
GATES = (GradientNorm, HeldFall, NoisyFall, PublishedComparison)


def require_room(machines: Sequence[str], method: Method, agents: int) -> None:
    """Refuse what does not fit into the memory that is free.

    ``machines`` are those of all processes, of which those of one share its memory; ``agents`` those of this process.
    """
    needed, free = method.memory(agents) * machines.count(platform.node()), free_memory()
    if needed > free:
        raise RequestError(
            f"{method.name} needs {needed / 1e9:.1f} GB for moments of d = {method.facts.width:,} features, and "
            f"{free / 1e9:.1f} GB of memory are free: take --algorithm noisy-gd, or --project D"
        )


def rehearse(
    method: Method,
    agents: Mapping[int, AgentPlan],
    contracts: Mapping[int, Contract],
    holders: Holders,
    loss: Loss,
    *,
    checkpoints: bool = False,
    whole: bool | None = None,
) -> None:
    """Ask every own agent's method what it would ask first and last; of another package's let it go through rounds.

    With ``checkpoints`` its state must be such as a checkpoint can hold. ``whole`` rehearses rounds of our own methods,
    too. RequestError if ``beta`` is below four worst-case margins (docs/proofs.md, "The public radius"), a state cannot
    be kept, or the method fails, naming its author's file and line.
    """
    with blaming(type(method)), np.errstate():  # what it sets there does not stay
        _bounds(method, agents, holders, checkpoints=checkpoints)
        outside = method.settings.algorithm not in METHODS.own
        if (outside if whole is None else whole) and method.verb != "none":
            for trouble in (False, True):
                # one of its own: what a method keeps in itself does not reach the run
                fresh = type(method)(method.settings, method.facts)
                _rounds(fresh, agents, contracts, holders, loss, trouble=trouble)


def _bounds(method: Method, agents: Mapping[int, AgentPlan], holders: Holders, *, checkpoints: bool) -> None:
    rounds, seen = method.rounds, set()
    for i, plan in agents.items():
        holder, member = holders[i]
        agent = method.agent(i, plan)
        if checkpoints:
            kept_state(agent.state)
        kind = holder.counts[member], agent.degree, id(plan.noise)
        if kind in seen:
            continue
        seen.add(kind)
        for round in {0, max(rounds - 1, 0), max(rounds - 2, 0)}:
            agent = method.agent(i, plan)
            steps = method.propose(agent, round)
            if not isinstance(steps, Iterator) or not hasattr(steps, "send"):
                raise RequestError(
                    f"{defined(type(method), 'propose')}: returns {type(steps).__name__}: it must be a generator, "
                    "which asks with `answer = yield Ask(measurement)` and then returns a vector or None"
                )
            try:
                ask = next(steps)
                if not isinstance(ask, Ask):
                    raise RequestError(f"yields {type(ask).__name__}: it must yield Ask(measurement)")
                for measurement in (ask.measurement, *ask.reserve):
                    measurement.within(method.known(holder.counts[member]))
            except StopIteration:
                continue
            except RequestError as error:
                place = asking(steps)
                raise RequestError(f"{place}: {error}" if place else str(error)) from None


class RehearsalDoor:
    """A door whose records are all zero; in ``trouble`` gates say no, and from the second round on all is refused."""

    def __init__(self, door: Door, *, trouble: bool) -> None:
        self._door, self._trouble = door, trouble

    def answer(self, ask: Ask, round: int) -> Answer:
        """As the door answers, or as trouble has it."""
        answer = self._door.answer(ask, round)
        if self._trouble and round:
            return REFUSED
        return NO if self._trouble and isinstance(ask.measurement, GATES) else answer

    def __getattr__(self, name: str) -> Any:
        """All else is the door's."""
        return getattr(self._door, name)


def _rounds(
    method: Method,
    agents: Mapping[int, AgentPlan],
    contracts: Mapping[int, Contract],
    holders: Holders,
    loss: Loss,
    *,
    trouble: bool,
) -> None:
    everybody, last = tuple(sorted(method.facts.graph)), method.rounds
    masks = _masks(everybody, contracts)
    for i, plan in islice(agents.items(), MOST_AGENTS):
        agent = method.agent(i, plan)
        door = RehearsalDoor(_door(method, holders, contracts[i], loss, i, masks), trouble=trouble)
        for number, round in enumerate(sorted({0, 1, 2, last - 2, last - 1} & set(range(last))), start=1):
            door.attempt(number, everybody)
            if trouble and round == 2 and agent.neighbours and method.verb == "exchange":
                agent.contact = Contact(*(np.arange(agent.degree) > 0 for _ in range(3)))
            door_: Any = door
            said = carried_out(proposal(method, agent, door_, round), door_, round)
            _check(method, "propose", said)
            if said is not None:
                agent.releases += method.released_in(round)
            if method.verb == "reduce":
                void = trouble and round == 1
                method.receive(agent, said, None if void or said is None else Total(said, everybody))
            else:
                heard = {j: np.full(method.size, 1e-3) for j in agent.neighbours}
                method.absorb(agent, said, heard)
            _check(method, "model", method.model(agent))


def _check(method: Method, name: str, vector: NDArray[Any] | None) -> None:
    """Refuse what no message, sum or model can be."""
    summed = name == "propose" and method.verb == "reduce"
    kind, size = ("int64", method.sum_size) if summed else ("float64", method.size)
    if vector is None and name == "propose":
        return
    right = isinstance(vector, np.ndarray) and vector.shape == (size,) and vector.dtype == kind
    if not right or vector is None or not np.isfinite(vector).all():
        found = type(vector).__name__
        if isinstance(vector, np.ndarray):
            found = f"{vector.dtype} of shape {vector.shape}{', not all of it finite' if right else ''}"
        raise RequestError(
            f"{defined(type(method), name)}: returns {found}: it must be {'None, or ' if name == 'propose' else ''}"
            f"finite {kind} of shape ({size},)"
        )


def _door(
    method: Method, holders: Holders, contract: Contract, loss: Loss, agent: int, masks: Mapping[int, Masks]
) -> Door:
    """Door of as many records as the agent has, all of them zero."""
    holder, member = holders[agent]
    records = holder.counts[member]
    width = method.facts.width
    rows: Any
    if records * width < MOST_DENSE:
        rows = np.zeros((records, width))
    else:
        from scipy.sparse import csr_array

        rows = csr_array((records, width))
    labels = np.zeros(records) if holder.task != "binary" else np.ones(records)
    facts: dict[str, Any] = {"task": holder.task, "classes": holder.classes, "bounded": holder.bounded}
    behind = type(holder).of([(rows, labels)], dependent=holder.dependent, copy=False, **facts)
    return Door(behind, 0, loss, MemoryLedger(contract), AgentStreams(agent, 0), masks.get(agent))


def _masks(everybody: tuple[int, ...], contracts: Mapping[int, Contract]) -> dict[int, Masks]:
    """Masks of a start that never is; all agents have one key."""
    promise = next((contract.promise for contract in contracts.values()), None)
    if promise is None or promise.colluders is None:
        return {}
    key = MaskKey()
    publics = dict.fromkeys(everybody, key.public)
    start = start_of("rehearsal", "", publics)
    return {i: Masks(i, key, publics, start, promise.colluders) for i in contracts}
