"""Attempts at masked sums: the members of each, and the void ones (docs/methods.md, eq. (99))."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from admmnet.errors import RunError
from admmnet.identity.keys import statement, verify
from admmnet.masking import MaskKey, Masks, start_of
from admmnet.transport import World
from admmnet.transport.collective import owned, share
from admmnet.types import Total


class Attempts:
    """Attempts of one start of a run, ``colluders`` is K; all that is decided follows from totals, which all have.

    ``fixed``: no member goes missing within the start, so a sum that lacks one, or is noise, is a liar's: it is void.
    """

    def __init__(self, agents: Collection[int], colluders: int, *, fixed: bool = False) -> None:
        self.participants, self.colluders, self._fixed = tuple(agents), colluders, fixed
        self._number = 0
        self.void: list[int] = []  # rounds of void attempts
        self.missed: dict[int, int] = {}  # agents that were missing in one, and since when sums are without them
        self.ended: int | None = None  # round from which on too few agents were left

    def begin(self, round: int) -> tuple[int, tuple[int, ...]]:
        """Number of the next attempt, and who takes part; nobody where too few agents are left for one."""
        if len(self.participants) < self.colluders + 2:
            self.ended = round if self.ended is None else self.ended
            return self._number, ()
        self._number += 1
        return self._number, self.participants

    def judge(self, round: int, total: Total | None, largest: float, spoken: Collection[int] = ()) -> Total | None:
        """Return the sum, None of a void attempt; no number exceeds ``largest`` where masks have cancelled.

        In a sum without somebody the masks of that agent's partners stay: it is noise. The next attempt is without it.
        ``spoken`` are agents of this process that took part. RunError if the sum is noise although nobody is missing,
        or one of this process's agents that took part is not in it.
        """
        if total is not None and total.agents == self.participants:
            noise = (np.abs(total.value.astype(np.float64)) > largest).any()
            if noise and not self._fixed:
                raise RunError(
                    f"the masks of round {round} did not cancel: an agent has sent a wrong part, or knows another "
                    "model, other settings or other participants. This shows no record, and not which agent it was: "
                    "start the run again"
                )
            self.void += [round] if noise else []
            return None if noise else total
        if total is None:  # nobody put anything in, or no tree reached all, which ``Rounds.notes`` says
            return None
        self.void.append(round)
        if self._fixed:
            return None
        if left_out := sorted(set(spoken).difference(total.agents)):
            raise RunError(
                f"agent {left_out[0]} took part in the masked sum of round {round} and was left out of it. An agent on "
                "the way to the root of the tree did not hand on its part; which one is not known: start the run again"
            )
        self.missed |= {i: round for i in self.participants if i not in total.agents}
        self.participants = tuple(i for i in self.participants if i in total.agents)
        return None

    def notes(self) -> tuple[str, ...]:
        """What the reader of a run must know of void attempts."""
        found, void, colluders = [], self.void, self.colluders
        if void:
            found.append(
                f"{len(void)} masked sum{'s were' if len(void) > 1 else ' was'} void, the first in round {void[0]}: "
                "an agent was missing, or sent a wrong part; the cost stays charged"
            )
        if self.missed:
            who = ", ".join(f"agent {i} from round {round} on" for i, round in sorted(self.missed.items()))
            found.append(f"masked sums are without {who}: it was missing in one, whatever the reason")
        if self.ended is not None:
            found.append(
                f"from round {self.ended} on fewer than {colluders + 2} agents were left: masked sums against "
                f"{colluders} colluders need that many, so the model stayed as it was"
            )
        return tuple(found)


def agree_on_masks(world: World, owners: Sequence[Sequence[int]], shared: Any, colluders: int) -> dict[int, Masks]:
    """Agree on a key with everybody: masks of this process's agents.

    Keys are made here, for this start alone. Over ZeroMQ agents sign theirs together with the start's name: nobody
    between two agents, and no earlier start, can put others in their place. ``shared`` is what all must have alike, a
    JSON value; ``colluders`` is K. RequestError if an agent's key is of no use, or not signed by it.
    """
    run, identity = "" if world.start is None else world.start.name, world.identity
    peers = () if world.network is None else world.network.peers
    listed = {i: str(peers[q].identity) for q, own in enumerate(owners) for i in own if peers}
    keys = {i: MaskKey() for i in owners[world.rank]}

    word: Callable[[int, str], bytes] = lambda agent, public: statement("key for masks", run, agent, public)  # noqa: E731
    public = {i: key.public.hex() for i, key in keys.items()}
    mine = {i: (own, "" if identity is None else identity.sign(word(i, own)).hex()) for i, own in public.items()}

    def valid(agent: int, said: object) -> bool:
        if not isinstance(said, list | tuple) or len(said) != 2 or not all(isinstance(x, str) for x in said):
            return False
        try:
            signature = bytes.fromhex(said[1])
        except ValueError:
            return False
        return agent not in listed or verify(listed[agent], signature, word(agent, said[0]))

    what = "key for masks, with its signature,"
    here = [own if world.start is None or q in world.start.members else () for q, own in enumerate(owners)]
    told = owned(world, share(world, {"values": mine}, "masks"), here, mine, valid, what, lasting=False)

    probe, known = MaskKey(), dict[int, bytes]()
    for agent, (own, _) in told.items():
        try:
            known[agent] = bytes.fromhex(own)
            probe.shared(known[agent])
        except ValueError:
            world.blame(
                agent, f"agent {agent} gives a key for masks that hides nothing: it must be an X25519 public key"
            )
    alike = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()
    start = start_of(run, alike, known)
    return {i: Masks(i, key, known, start, colluders) for i, key in keys.items()}
