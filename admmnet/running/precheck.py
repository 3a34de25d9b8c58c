"""What a run asks of its method before it connects: room in memory, a state that can be kept, questions within bounds.

A method of another package is told so with its author's file and line, and not by one host alone.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from admmnet.errors import RequestError
from admmnet.files import free_memory
from admmnet.methods.agents import AgentPlan, Asks, check_vector, placed
from admmnet.methods.base import Method
from admmnet.methods.blame import asking, blaming, defined
from admmnet.record.journal import journals
from admmnet.running.loading import Holders

LINE, MUCH = 600, 10**8
"""Bytes of a round in a journal beside its numbers, and how many are said before the run."""


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


def journal_note(folder: Path, method: Method, degrees: Sequence[int]) -> tuple[str, ...]:
    """How large the journal of this process's agents gets, where that is much; RequestError if the disk is too small.

    ``degrees`` are how many neighbours each has whose vectors are kept, 0 where all play their rounds again together.
    """
    heard = [1 + (degree and (1 if method.verb == "reduce" else degree)) for degree in degrees]
    numbers = method.sum_size if method.verb == "reduce" else method.size
    size = method.rounds * sum(8 * numbers * count + LINE for count in heard)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free + sum(path.stat().st_size for path in journals(folder))
    if size > free:
        raise RequestError(
            f"the journal of {method.rounds} rounds takes up to {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free "
            f"in {there}: free some space, or name a folder on another disk with --out"
        )
    return (f"the journal takes up to {size / 1e9:.1f} GB until the run has ended",) if size >= MUCH else ()


def precheck(method: Method, agents: Mapping[int, AgentPlan], holders: Holders) -> None:
    """Ask every own agent's method what it would ask first and last, without an answer; look at its first model.

    RequestError if ``beta`` is below four worst-case margins (docs/proofs.md, "The public radius"), or the method
    fails, naming its author's file and line.
    """
    with blaming(type(method)), np.errstate():  # what it sets there does not stay
        _bounds(method, agents, holders)


def _bounds(method: Method, agents: Mapping[int, AgentPlan], holders: Holders) -> None:
    rounds, seen = method.rounds, set()
    for i, plan in agents.items():
        holder, member = holders[i]
        degree = len(method.facts.graph[i]) if method.verb == "exchange" else 0
        kind = holder.counts[member], degree, id(plan.noise)
        if kind in seen:
            continue
        seen.add(kind)
        if method.verb != "none":
            check_vector(type(method), "models", method.models(method.agents({i: plan})), (1, method.size), "float64")
        for round in {0, max(rounds - 1, 0), max(rounds - 2, 0)}:
            steps = method.propose(method.agents({i: plan}), round)
            if not isinstance(steps, Iterator) or not hasattr(steps, "send"):
                raise RequestError(
                    f"{defined(type(method), 'propose')}: returns {type(steps).__name__}: it must be a generator, "
                    "which asks with `told = yield agents.ask(...)` and then returns vectors or None"
                )
            try:
                ask: Asks | None = next(steps)
                while ask is not None:
                    if not isinstance(ask, Asks):
                        raise RequestError(f"yields {type(ask).__name__}: it must yield agents.ask(...)")
                    if (question := placed(ask, 0)) is not None:
                        question.within(method.known(holder.counts[member]))
                    ask = ask.reserve
            except StopIteration:
                continue
            except RequestError as error:
                place = asking(steps, type(method), error)
                raise RequestError(f"{place}: {error}" if place else str(error)) from None
