"""How the processes of a network come together: links to all neighbours, and an id for the run (docs/hosts.md)."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import NoReturn

from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.transport.zmq.mailbox import Topic, topic_of
from admmnet.transport.zmq.session import Session
from admmnet.transport.zmq.wire import Frame, Kind, as_json
from admmnet.transport.zmq.words import NONCES

DRAWN: Topic = ("gather", NONCES)
"""Topic of the numbers that make the run's id, turn 0, and of everybody's word that it has the same id, turn 1."""


class Overtaken(RunError):
    """The run has ended without this process, which has all of it now."""


class Meeting(Session):
    """A session until every process has drawn a number for this run, and all have the same numbers."""

    size: int
    """Number of processes."""
    overtaken: Callable[[], bool] | None = None
    """Whether the run has ended elsewhere; asked while this process connects."""
    agreed = False
    """Whether they have: before, what contradicts another word may be so because of somebody far away."""

    @abstractmethod
    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""

    @abstractmethod
    def end(self, error: AdmmnetError) -> NoReturn:
        """End this process."""

    def connect(self) -> None:
        """Wait until all processes have drawn a number for the run's id and all neighbours have the same settings.

        The deadline counts from the last process that came.
        """
        number = self.say(Kind.SHARE, NONCES, 0, as_json(self.nonce))
        self.mailbox.begin(DRAWN, 0)[-1, self.rank] = number
        self.draw()
        pulse, begun, come = self.deadlines.pulse, time.monotonic(), -1
        until, greeted, refused = begun, begun, False
        while missing := self._missing():
            now = time.monotonic()
            if self.fault is not None and not refused:  # the others shall hear of it, if they come soon
                until, refused = min(until, now + self.deadlines.shutdown), True
            elif not refused and self._come > come:
                come, until = self._come, now + self.deadlines.connect
            # the neighbours of whoever does not come know more of it, and speak first
            far = self.fault is None and missing[0] not in self.links
            end = until + far * self.deadlines.shutdown
            if now >= end:
                break
            if now >= greeted + pulse:
                greeted = now
                self.waiting.look(begun, now, map(self.names.__getitem__, missing))
                self.say_waiting(missing)
                for peer, link in self.links.items():
                    if link.ready and link.down_for(now) > self.deadlines.grace:
                        self.lose(peer, "its process or host has ended, or cannot be reached any more")
                    elif link.up and not link.ready:
                        self.greet(peer)
            self.serve(min(pulse, end - now))
            if self.overtaken is not None and self.overtaken():
                self.end(Overtaken("the run has ended without this process"))
        if self.fault is not None:
            self.fail(RequestError(self.fault))
        if missing:
            reason = "; ".join(map(self._unreachable, missing))
            self.fail(
                RunError(
                    f"not connected within {self.deadlines.connect:g} s (connection deadline): {reason}; "
                    "start all agents, with the same network file, within that time"
                )
            )
        self.waiting.since = None
        self.mailbox.finish(DRAWN, 1)
        self.agreed = True

    def _missing(self) -> list[int]:
        """Neighbours that have not answered; if all have, processes whose words have not come."""
        waited = [peer for peer, link in self.links.items() if not link.ready]
        box = self.mailbox.kept(DRAWN, int(bool(self.words.run)))
        return waited or [q for q in range(self.size) if (-1, q) not in box]

    @property
    def _come(self) -> int:
        """How much has come of what is waited for at the start."""
        come = sum(len(self.mailbox.kept(DRAWN, turn)) for turn in (0, 1))
        return come + sum(link.ready for link in self.links.values())

    def draw(self) -> None:
        """Make the run's id as soon as all numbers have come, and say so: what follows on any link is signed for it."""
        box = self.mailbox.kept(DRAWN, 0)
        if not self.words.run and all((-1, q) in box for q in range(self.size)):
            self.words.begin({q: box[-1, q].payload for q in range(self.size)})
            word = self.say(Kind.SHARE, NONCES, 1, as_json(None))
            self.mailbox.begin(DRAWN, 1)[-1, self.rank] = word

    def forged(self, frame: Frame) -> None:
        """See ``Session.forged``; who has other numbers takes true words on the run's id for forged ones."""
        if topic_of(frame) == DRAWN and frame.round and not self.agreed:
            self.disagree(frame)
        super().forged(frame)

    def disagree(self, frame: Frame) -> NoReturn:
        """End a start in which not all have the same numbers: who did that cannot be known here."""
        whose = self.names.get(frame.origin, f"process {frame.origin}")
        self.fail(
            RunError(
                f"not all processes have the same numbers for this start, as words of {whose} show: somebody repeats "
                "what was signed for another one, and it need not be who passed it on; nothing was charged; start again"
            )
        )

    def _unreachable(self, process: int) -> str:
        if process not in self.links:
            return f"{self.names[process]} has not come"
        link, peer = self.links[process], self.peers[process]
        where = (
            f"{self.names[process]} at {peer.address}" if peer.address else f"{self.names[process]}, which only dials"
        )
        if link.fault:
            return f"{where}: {link.fault}"
        if link.theirs is None and link.up:
            return f"{where}: it does not introduce itself"
        if link.theirs is None:
            own = self.network.peers[self.rank].address
            there, here = "nobody answers there" if peer.address else "", "it has not dialled here" if own else ""
            doors = " or ".join(place for place in (peer.address and "there", own and "here") if place)
            return f"{where}: {' and '.join(filter(None, (there, here)))}: not started yet, or the firewall {doors}"
        return f"{where}: it does not hear this process"

    def serve(self, seconds: float) -> None:
        """Take what arrives within some time; lose who died, as the starter says, and end if itself has."""
        self.take(seconds)
        while self.sockets.died:
            process, how = self.sockets.died.pop(0)
            begun = self.agreed
            for peer, link in self.links.items():
                if peer == process or not begun:  # all are told by the starter: nothing need wait for them
                    link.up = False
            if not begun:
                name = self.names[process]
                self.end(
                    RunError(f"the process of {name} {how} before the first round: nothing was charged; start again")
                )
            if process in self.links:
                self.lose(process, f"its process {how}")
        if self.sockets.orphaned:
            self.end(RunError("the process that started this one has ended"))
