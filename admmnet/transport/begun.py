"""A start of a run, and the word of a process that has failed: apart, as help pages do without msgspec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field


class Begun(Struct):
    """A start of a run over hosts of their own (docs/protocol.md)."""

    name: str
    """64 hexadecimal digits, which nobody can have known before."""
    number: int
    """How many starts this agent has taken part in before."""
    members: tuple[int, ...]
    """Processes that take part, ascending."""
    edges: tuple[tuple[int, int], ...]
    """Between them, the lower first."""
    rule: Literal["replay", "go on"] = "go on"
    round: int = 0
    """First round; of a replay the rounds of the state from which it goes."""
    changed: int | None = None
    """First round of the changed start which this one is, or repeats; None where none is changed."""
    plan: str = ""
    """Name of the start whose rounds these are: of this one, or of that which it repeats."""
    away: Mapping[int, int] = field(default_factory=dict)
    """Processes that take no part, and since which round."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What agents have said before the first round: it stands, whatever they say in later starts."""
    asked: dict[str, int] = field(default_factory=dict)
    """How often each fact was asked for in this start: a run that is planned twice asks twice."""
    stage: Callable[[str, Mapping[str, bytes]], bytes] | None = None
    """Sign an end whose files are on the disk; finish.json, once a quorum of agents has signed it."""
    history: list[Any] = field(default_factory=list)
    """This start and those before it, for the summary."""
    fold: int = 0
    """Rounds that this agent plays again by itself, from what it has heard."""
    journal: Any = None
    """That of this agent; None where one command has started all, and they write one folder."""
    ledger: Any = None
    """That of this agent, once it is open, in a run without a seed."""


class Failed(Struct, frozen=True, forbid_unknown_fields=True):
    """In place of a process's word: its error, by exit code and public text."""

    code: Annotated[int, Meta(ge=0, le=255)]
    text: Annotated[str, Meta(max_length=1000)]
    whom: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    """An agent that has said before what cannot be."""
