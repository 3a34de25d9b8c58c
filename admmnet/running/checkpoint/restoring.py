"""What a checkpoint has kept is given back to agents and solvers (``state``); what was secret, in seeded runs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.holder.series.base import SeriesProgress
from admmnet.running.checkpoint.state import COUNTS, Array, State
from admmnet.solvers.ball_query import BallQuery

if TYPE_CHECKING:
    from admmnet.holder.secrets import Secret
    from admmnet.running.node import Node


def restore_node(node: Node, state: State, *, seeded: bool) -> None:
    """Give an agent its state back."""
    agent = node.agent
    for name in COUNTS:
        setattr(agent, name, state[name].item())
    node.door.marks |= frozenset(state["marks"].tolist())
    _set_fields(agent.state, _below("state", state))
    if not seeded:
        return
    secret = node.door.secret
    for purpose, words in zip(sorted(secret.streams), state["streams"], strict=True):
        _set_stream(secret.streams[purpose], words)
    solver = _below("solver", state)
    if solver:
        put_states(secret.solver.states, solver)
    for number, key in enumerate(state["kept"].tolist()):
        secret.kept[key] = _thing_kept(secret, _below(f"kept{number}", state))


def put_states(states: Mapping[str, Any], saved: State) -> None:
    """Set what ``states_taken`` took."""
    for name, state in states.items():
        _set_fields(state, _below(name, saved))


def _thing_kept(secret: Secret, saved: State) -> Any:
    """Undo ``state._kept_state``."""
    if "" in saved:
        return saved[""].item()
    if "series" in saved:
        kind = {kind.__name__: kind for kind in SeriesProgress.__subclasses__()}[str(saved["series"])]
        progress = kind.__new__(kind)
        _set_fields(progress, saved)
        return progress
    query = BallQuery(secret.solver, saved["radius"].item(), saved["gap"].item())
    put_states(query.states, saved)
    return query


def _set_fields(state: Any, saved: State) -> None:
    for field in fields(state):
        setattr(state, field.name, _given_back(field.name, saved))


def _given_back(name: str, saved: State) -> Any:
    """Undo ``state._taken``."""
    if f"{name}()" in saved:
        return tuple(_given_back(f"{name}({place})", saved) for place in range(saved[f"{name}()"].item()))
    if f"{name}[]" in saved:
        return saved[f"{name}[]"].copy()
    if f"{name}[()]" in saved:
        return saved[f"{name}[()]"][()]
    value = saved.get(name)
    return value if value is None else value.copy(order="K") if value.ndim else value.item()


def _below(name: str, state: Mapping[str, Array]) -> State:
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}


def _set_stream(stream: np.random.Generator, words: Sequence[Any]) -> None:
    high, low, inc_high, inc_low, has, rest = (int(word) for word in words)
    state = {"state": high * 2**64 + low, "inc": inc_high * 2**64 + inc_low}
    stream.bit_generator.state = {"bit_generator": "PCG64", "state": state, "has_uint32": has, "uinteger": rest}


def move_on(stream: np.random.Generator, times: int) -> None:
    """Move a seeded stream so far on that it gives nothing that it has given, or will give elsewhere."""
    bits: Any = stream.bit_generator
    bits.state = bits.jumped(times).state
