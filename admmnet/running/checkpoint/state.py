"""What a checkpoint keeps of agents and solvers, field by field (docs/ledger.md, "Checkpoints").

An agent's state, its counts and the history of its door are public. What is behind the door (streams,
thresholds, warm starts, how far a series is) is in checkpoints of seeded runs alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.holder.series.base import SeriesProgress
from admmnet.running.node import Node
from admmnet.solvers.ball_query import BallQuery

Array: TypeAlias = NDArray[Any]
State: TypeAlias = dict[str, Array]
"""Name to array; numbers are arrays without axes, and what is None is left out."""


COUNTS = ("releases", "sent", "numbers", "asked", "yes", "silent")
"""What is counted of every agent."""
_PLAIN = (bool, int, float, complex, str)
"""Kinds of plain values that an agent's state may have."""


def node_state(node: Node, *, seeded: bool) -> State:
    """State of one agent after a round, its share in a block's solver excepted; of a private run nothing secret.

    A threshold that an agent of a private run holds (docs/proofs.md, Theorem 9) is not kept: the resumed agent
    abandons that start, whose charge stands and covers every answer it gave, and pays for a new one with fresh
    noise before it asks again. Both are adaptively composed charges, as any two starts are.
    """
    agent = node.agent
    state = {name: np.asarray(getattr(agent, name)) for name in COUNTS}
    state |= {"marks": _words(node.door.marks)} | kept_state(agent.state)
    if not seeded:
        return state
    secret = node.door.secret
    state["streams"] = np.stack([_stream(secret.streams[purpose]) for purpose in sorted(secret.streams)])
    if secret.solved:
        state |= _under("solver", states_taken(secret.solver.states))
    state["kept"] = _words(secret.kept)
    for number, key in enumerate(sorted(secret.kept)):
        state |= _under(f"kept{number}", _kept_state(secret.kept[key]))
    return state


def kept_state(state: Any) -> State:
    """What a method keeps of an agent, each value as its own kind: none comes back as another one.

    RequestError if the state is no dataclass, or a field of it is of a kind that a checkpoint cannot hold.
    """
    kind = type(state).__name__
    if not is_dataclass(state) or isinstance(state, type):
        raise RequestError(f"the agents' state is of kind {kind}: a checkpoint keeps the fields of a dataclass")
    try:
        return _under("state", _fields(state))
    except TypeError as error:
        raise RequestError(
            f"the agents' state {error}, which no checkpoint can hold: use a number, bool, str, None, an array of "
            "numbers or a tuple of these; runs without --checkpoint-every do without"
        ) from None


def _taken(name: str, value: Any) -> State:
    """A value by its name, marked where it is a tuple ``()``, an array without axes ``[]``, numpy's number ``[()]``."""
    kind = type(value)
    if value is None:
        return {}
    if kind is tuple:
        found = {f"{name}()": np.asarray(len(value))}
        for place, part in enumerate(value):
            found |= _taken(f"{name}({place})", part)
        return found
    if kind not in (*_PLAIN, np.ndarray) and not isinstance(value, np.generic):
        raise TypeError(kind.__name__)
    array = np.asarray(value)
    if array.dtype.kind not in ("U" if kind is str else "biufc"):
        raise TypeError(f"{kind.__name__} ({array.dtype})")
    if kind is np.ndarray:
        return {name if array.ndim else f"{name}[]": array}
    return {name if kind in _PLAIN else f"{name}[()]": array}


def _kept_state(value: Any) -> State:
    """State of what a measurement keeps behind the door: a number, a query's warm start, how far a series is."""
    if isinstance(value, BallQuery):
        return {"radius": np.asarray(value.radius), "gap": np.asarray(value.gap)} | states_taken(value.states)
    if isinstance(value, SeriesProgress):
        return _fields(value) | {"series": np.array(type(value).__name__)}
    return {"": np.asarray(value)}


def _fields(state: Any) -> State:
    found: State = {}
    for field in fields(state):
        try:
            found |= _taken(field.name, getattr(state, field.name))
        except TypeError as error:
            raise TypeError(f"{type(state).__name__}.{field.name} is of kind {error}") from None
    return found


def _words(words: Iterable[str]) -> Array:
    return np.array(sorted(words), dtype=np.str_)


def states_taken(states: Mapping[str, Any]) -> State:
    """All fields of some states, by the state's name and the field's."""
    return {key: value for name, state in states.items() for key, value in _under(name, _fields(state)).items()}


def _under(name: str, state: State) -> State:
    return {f"{name}.{key}": value for key, value in state.items()}


def _stream(stream: np.random.Generator) -> NDArray[np.uint64]:
    """State of a PCG64 stream as six words."""
    state = stream.bit_generator.state
    words = [part for key in ("state", "inc") for part in divmod(state["state"][key], 2**64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)
