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
from admmnet.transport.collective import gather_owned, run_on_all


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
    """Agree on keys and on the name of this start; ``owners`` are the agents of every process.

    The name is a hash of numbers that every process has drawn just now, so that no statement of another start, which
    bears another name, can be taken for one of this start. Keys that no network file lists are what their process says
    they are: they prove that words came from whoever it was at the start, not who that was. RunError if processes have
    been told different numbers or keys.
    """
    mine = owners[world.rank]
    own = {i: Identity.fresh() if world.identity is None else world.identity for i in mine}
    listed = world.network
    told = {i: identity.public for i, identity in own.items()}

    def valid(agent: int, key: Any) -> bool:
        return isinstance(key, str) and KEY.fullmatch(key) is not None

    if listed is None:
        keys = gather_owned(world, owners, told, valid, "signing key", topic="keys")
    else:
        keys = {i: str(listed.peers[place].identity) for place, agents in enumerate(owners) for i in agents}
    made = listed is None or world.shared_folder  # by one command, for its own agents
    source: Literal["network", "run"] = "run" if made else "network"
    if world.start is not None:  # which all members have signed
        return Members(world.start.name, dict(sorted(keys.items())), own, source)
    nonce = os.urandom(32).hex()
    nonces = [nonce if rank == world.rank else said for rank, said in enumerate(world.gather(nonce))]

    def named() -> str:
        for agents, said in zip(owners, nonces, strict=True):
            if not valid(agents[0], said):
                raise RunError(f"agent {agents[0]} has drawn no number for the name of the run: start the run again")
        parts = [f"{i} {keys[i]}" for i in sorted(keys)]
        return hashlib.sha256(statement("run", *nonces, *parts)).hexdigest()

    run = run_on_all(world, named)

    def same() -> None:
        for agents, said in zip(owners, names, strict=True):
            if said != run:
                raise RunError(
                    f"agent {agents[0]} has another name for this run than agent {mine[0]}: agents "
                    "received different numbers or keys; see docs/hosts.md"
                )

    names = world.gather(run)
    run_on_all(world, same)
    return Members(run, dict(sorted(keys.items())), own, source)
