"""Who takes part in a run, under which signing keys, and the name of this start (docs/hosts.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from admmnet.errors import RunError
from admmnet.identity.keys import KEY, Identity, statement
from admmnet.transport import World
from admmnet.transport.collective import gather_owned, share


@dataclass(frozen=True)
class Members:
    """Signing keys of all agents, and the name of this start of a run, which nobody can have known before."""

    run: str
    """64 hexadecimal digits; a run that goes on has another one."""
    keys: Mapping[int, str]
    """Public keys of all agents."""
    own: Mapping[int, Identity] = field(repr=False)
    """Keys of this process's agents."""
    source: Literal["network", "run"]
    """Whether keys are those of a network file, or were made for this start by who started it."""


def agree(world: World, owners: Sequence[Sequence[int]]) -> Members:
    """Agree on keys and on the name of this start, in ``as_one``; ``owners`` are the agents of every process.

    The name is a hash of numbers that have been drawn just now, one an agent, so that no statement of another start,
    which bears another name, can be taken for one of this start. Keys that no network file lists are what their process
    says they are: they prove that words came from whoever it was at the start, not who that was. ``all_ready`` compares
    the name.
    """
    mine, listed = owners[world.rank], world.network
    own = {i: Identity.fresh() if world.identity is None else world.identity for i in mine}
    if world.start is not None and listed is not None:  # which all members have signed
        keys = {i: str(listed.peers[place].identity) for place, agents in enumerate(owners) for i in agents}
        # one command has made the keys of its own agents
        return Members(world.start.name, dict(sorted(keys.items())), own, "run" if world.shared_folder else "network")

    def valid(agent: int, said: Any) -> bool:
        whole = isinstance(said, list) and len(said) == 2 and all(isinstance(word, str) for word in said)
        return whole and all(KEY.fullmatch(word) for word in said)

    mine_said = {i: [identity.public, os.urandom(32).hex()] for i, identity in own.items()}
    told = gather_owned(world, owners, mine_said, valid, "key and number for the name of the run", topic="keys")
    keys = {i: key for i, (key, _) in told.items()}
    run = hashlib.sha256(statement("run", *(f"{i} {key} {number}" for i, (key, number) in told.items()))).hexdigest()
    return Members(run, keys, own, "run")


def all_ready(world: World, owners: Sequence[Sequence[int]], members: Members | None) -> None:
    """Wait until nobody has failed, in ``as_one``; RunError if processes have been told different numbers or keys."""
    run = None if members is None or world.start is not None else members.run
    for agents, said in zip(owners, share(world, run), strict=True):
        if run is not None and said != run:
            raise RunError(
                f"agent {agents[0]} has another name for this run than agent {owners[world.rank][0]}: agents received "
                "different numbers or keys; see docs/hosts.md"
            )
