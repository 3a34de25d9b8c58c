"""What one process knows of its link to one neighbour, and how two ends come to know each other; no sockets."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from dataclasses import dataclass, field

from admmnet.errors import printable, short
from admmnet.transport.zmq.wire import NO_LINK, Hello


@dataclass
class Link:
    """State of a link."""

    theirs: str | None = None
    """The neighbour's nonce, as far as it is known."""
    id: bytes = NO_LINK
    """Id of the link, once both ends know that the other lives."""
    sent: int = 0
    """Number of the last numbered frame."""
    log: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Numbered frames that the neighbour may not have."""
    up: bool = False
    """Whether the line stands."""
    down_since: float | None = None
    """When it was cut."""
    fault: str = ""
    """Why it does not come up, as far as ZeroMQ says."""
    gap: bool = False
    """Whether frames are missing that it was asked to send again."""
    unconfirmed: int = 0
    """Bytes of the numbered frames that the neighbour may not have."""
    answered_at: float = 0.0
    """When frames were last sent again because it asked for them."""
    idle: int = 0
    """Frames of its that brought nothing, less those that are forgotten."""
    garbled: int = 0
    """Unreadable frames that came under the neighbour's key."""
    farewell: bool = False
    """Whether it has told that it leaves."""
    parted: bool = False
    """Whether this process has told it so; a neighbour that is started anew meanwhile has not heard it."""
    waiting_at: float = 0.0
    """When it last said that it waits for somebody other than this process."""

    @property
    def ready(self) -> bool:
        """Whether both ends know each other."""
        return self.id != NO_LINK

    def down_for(self, now: float) -> float:
        """Seconds since the line was cut; 0 while it stands."""
        return 0.0 if self.down_since is None else now - self.down_since

    def acknowledge(self, sequence: int) -> None:
        """Drop what the neighbour has."""
        while self.log and self.log[0][0] <= sequence:
            self.unconfirmed -= len(self.log.popleft()[1])


def link_id(one: str, other: str) -> bytes:
    """Id of the link between two nonces, the same at both ends: no other session has both."""
    return hashlib.sha256("-".join(sorted((one, other))).encode()).digest()[:16]


def difference(mine: Hello, theirs: Hello, name: str) -> str | None:
    """What is not the same at this and the other end of a link, which is called ``name``; None if everything is."""
    if mine.network != theirs.network:
        return (
            f"{name} has another network file (digest {printable(theirs.network, 60)}, here {mine.network}): "
            "graph or keys differ; copy one network.toml to every host"
        )
    for key in sorted(mine.settings.keys() | theirs.settings.keys()):
        here, there = mine.settings.get(key), theirs.settings.get(key)
        if mine.begun != theirs.begun and (here if theirs.begun else there) in ("auto", None):
            continue  # who begins with the run fills it in alike
        if json.dumps(here, sort_keys=True) != json.dumps(there, sort_keys=True):
            return (
                f"{name} runs with {printable(key, 60)} = {short(there, 60)}, this process with {short(here, 60)}; "
                "start all agents with the same settings"
            )
    return None
