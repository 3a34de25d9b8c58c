"""Which processes live, and what becomes of a run when one is lost or ends it (docs/hosts.md, "Deadlines").

No thread: everything happens while the process waits for something, and every wait is one poll. A process that waits
tells the neighbours so once a pulse; so the round deadline runs against the process that really hangs, and its own
neighbours alone name it. The news travels on as an obituary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Any

import networkx as nx

from admmnet.errors import AdmmnetError, RequestError, RunError, printable
from admmnet.transport.zmq.mailbox import Topic
from admmnet.transport.zmq.session import Session
from admmnet.transport.zmq.wire import HEADER, LIMIT, BadFrame, Frame, Kind, as_json

ENDS = (2, 3, 4, 130)
"""Exit codes with which another process can end this one; it cannot make it look as if all were well."""
STANDSTILL = 2.0
"""Seconds by which a process may look at the clock too late before it takes itself for stopped meanwhile."""


def check_size(size: int, what: str) -> None:
    """Refuse to send what no frame can carry."""
    if HEADER + size > LIMIT:
        raise RunError(f"{what} has {size} bytes; a message carries at most {LIMIT - HEADER}")


class Lost(RunError):
    """A process is lost, and the run ends with it.

    ``told``: another process tells the user; of processes that one command started, one speaks for all.
    """

    told = False


class RunEnded(RunError):
    """Another process has ended the run, with an exit code of its own; ``told`` as of ``Lost``."""

    told = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class Membership(Session):
    """What one process owes to, and is owed by, the others; arguments are those of ``Session`` and two more.

    ``on_loss`` is "stop" or "continue". With ``shared_folder`` all processes write one run folder, for one user: then
    one of them reports an error of all. ``lost`` maps lost processes to the round in which they were missed,
    ``watchers`` are called with both, and ``round`` is the one that this process is in, for the news of losses.
    """

    def __init__(self, *session: Any, on_loss: str, shared_folder: bool = False, **more: Any) -> None:
        super().__init__(*session, **more)
        self.graph, self.size = self.network.graph(), len(self.network.peers)
        self.round, self.lost = 0, dict[int, int]()
        self.watchers: list[Callable[[int, int], None]] = []
        self.ended: AdmmnetError | None = None
        self.shared_folder, self._on_loss, self._closing = shared_folder, on_loss, False

    # waiting

    def connect(self) -> None:
        """Wait until all neighbours have answered, with the same settings and network file, within the deadline."""
        pulse = self.deadlines.pulse
        until = time.monotonic() + self.deadlines.connect
        greeted, refused = time.monotonic(), False
        while missing := [peer for peer, link in self.links.items() if not link.ready]:
            now = time.monotonic()
            if self.fault is not None and not refused:  # the others shall hear of it, if they come soon
                until, refused = min(until, now + self.deadlines.shutdown), True
            if now >= until:
                break
            if now >= greeted + pulse:
                greeted = now
                self.say_waiting(missing)
                for peer in missing:
                    if self.links[peer].up:
                        self.greet(peer)
            self._serve(min(pulse, until - now))
        if self.fault is not None:
            self._fail(RequestError(self.fault))
        if missing:
            reason = "; ".join(map(self._unreachable, missing))
            self._fail(
                RunError(
                    f"not connected within {self.deadlines.connect:g} s (connection deadline): {reason}; "
                    "start all agents, with the same network file, within that time"
                )
            )

    def _fail(self, error: AdmmnetError) -> None:
        self.abort(error.exit_code, error.public)
        self._end(error)

    def _unreachable(self, peer: int) -> str:
        link, where = self.links[peer], f"{self.names[peer]} at {self.peers[peer].address}"
        if link.fault:
            return f"{where}: {link.fault}"
        if link.theirs is None:
            return f"{where}: {'it does not introduce itself' if link.up else 'nobody answers there'}"
        return f"{where}: it does not hear this process"

    def wait(self, missing: Callable[[], Set[int]]) -> None:
        """Serve the links until nothing is missing from processes that live; raise what has ended the run."""
        if self.ended is not None:
            raise self.ended
        begun = time.monotonic()
        look = begun + self.deadlines.pulse
        while absent := missing():
            self._serve(look - time.monotonic())
            now = time.monotonic()
            if now >= look:
                if now > look + STANDSTILL:  # this process itself was stopped: nobody else is to blame
                    begun = now
                self._look(absent & missing(), begun, now)
                look = now + self.deadlines.pulse

    def share(self, kind: Kind, topic: Topic, turn: int, payload: bytes) -> dict[int, bytes | None]:
        """Send everybody this process's part of a turn, which travels on; return the others', None of lost ones."""
        check_size(len(payload), "what a process shares with all")
        box = self.mailbox.begin(topic, turn)
        self.spread(kind, channel=topic[1], origin=self.rank, round=turn, payload=payload)
        others = set(range(self.size)) - {self.rank}
        self.wait(lambda: {q for q in others if (-1, q) not in box and q not in self.lost})
        self.mailbox.finish(topic, turn)
        return {q: box[-1, q].payload if (-1, q) in box else None for q in others}

    def _serve(self, seconds: float) -> None:
        self.take(seconds)
        if self.sockets.orphaned and not self._closing:
            self._end(RunError("the process that started this one has ended"))

    def _look(self, absent: Set[int], begun: float, now: float) -> None:
        """Tell the neighbours that this process waits, and judge them."""
        self.say_waiting(sorted(absent))
        # what a process far away owes comes through neighbours: any of them may be what hangs
        suspects = absent if absent <= self.links.keys() else self.links.keys()
        for peer, link in self.links.items():
            if peer in self.lost:
                continue
            if link.farewell:
                if peer in suspects:
                    self.lose(peer, "it has left the run")
            elif link.down_for(now) > self.deadlines.grace:
                self.lose(
                    peer,
                    "its process or host has ended, or cannot be reached any more "
                    f"(heartbeat deadline {self.deadlines.heartbeat:g} s)",
                )
            elif peer in suspects and now - max(begun, link.waiting_at) > self.deadlines.round:
                garbled = f"; {link.garbled} frames from it could not be read" if link.garbled else ""
                self.lose(
                    peer,
                    f"its host answers, but what is waited for did not come within {self.deadlines.round:g} s "
                    f"(round deadline): it hangs, or needs a longer --round-deadline{garbled}",
                )

    # news

    def obey(self, frame: Frame, value: Any) -> None:
        """See ``Session.obey``."""
        peer, link = frame.sender, self.links[frame.sender]
        if frame.kind in (Kind.SHARE, Kind.ROWS):
            self.pass_on(frame)
        elif frame.kind is Kind.WAITING:
            if value["for"] != [self.rank]:  # whoever waits for this process alone may be what hangs
                link.waiting_at = time.monotonic()
        elif frame.kind is Kind.AGAIN:
            self.resend(peer, frame.acknowledged)
        elif frame.kind is Kind.OBITUARY:
            if not isinstance(value, dict) or not isinstance(value.get("reason"), str):
                raise BadFrame("payload")
            self._bury(frame.origin, frame.round, printable(value["reason"], 1000))
        elif frame.kind is Kind.ABORT:
            self._ended_by(frame, value)
        elif frame.kind is Kind.BYE:
            link.farewell = True
            self.send(peer, Kind.ACKNOWLEDGE, numbered=False)

    def lose(self, process: int, reason: str) -> None:
        """Count a neighbour as lost in this round, and tell the others."""
        self._bury(process, self.round, reason)

    def _bury(self, process: int, round: int, reason: str) -> None:
        if self._closing or process not in range(self.size) or self.lost.get(process, round + 1) <= round:
            return
        self.spread(Kind.OBITUARY, origin=process, round=round, payload=as_json({"reason": reason}))
        self._strike(process, round)
        if process == self.rank:
            name = self.names[process]
            self._end(Lost(f"the others gave up this process, {name}, in round {round}: {reason}"))
        if self._on_loss == "stop":
            self._end(Lost(f"{self.names[process]} is lost in round {round}: {reason}"))
        self._part_from(process, round)

    def _part_from(self, process: int, round: int) -> None:
        """Count as lost what can no longer be reached without a process.

        Every part of a network that falls apart goes on by itself. But of one run folder there can be one writer:
        there only the largest part goes on, of equal ones that with the first process. All neighbours of the lost
        process know the parts, so exactly one does.
        """
        living = self.graph.subgraph(set(range(self.size)) - self.lost.keys())
        parts = list(nx.connected_components(living))
        if self.shared_folder and self.rank not in max(parts, key=lambda part: (len(part), -min(part))):
            name, away = self.names[self.rank], self.names[process]
            self._end(
                Lost(
                    f"{name} is cut off: without {away}, lost in round {round}, no way leads from it to the "
                    "larger part of the network, which goes on"
                )
            )
        for cut in living.nodes - nx.node_connected_component(living, self.rank):
            self._strike(cut, round)

    def _strike(self, process: int, round: int) -> None:
        self.lost[process] = round
        self.shut(process)
        for watcher in self.watchers:
            watcher(process, round)

    # ends

    def abort(self, code: int, reason: str | None = None) -> None:
        """Tell the neighbours to end with an exit code; they tell theirs."""
        if self.ended is None:
            self.spread(Kind.ABORT, origin=self.rank, payload=as_json({"code": code, "reason": reason}))

    def _ended_by(self, frame: Frame, value: Any) -> None:
        if not isinstance(value, dict) or type(value.get("code")) is not int:
            raise BadFrame("payload")
        if self._closing or self.fault is not None:  # has a reason of its own
            return
        self.pass_on(frame)
        who = self.names.get(frame.origin, self.names[frame.sender])
        said = printable(str(value.get("reason") or "its own output says why"), 1000)
        code = value["code"] if value["code"] in ENDS else RunError.exit_code
        self._end(RunEnded(f"{who} has ended the run: {said}", code))

    def _end(self, error: AdmmnetError) -> None:
        """Close after a last word, and raise the error here and from now on."""
        error.shared, self.ended = True, error
        if isinstance(error, RunEnded):
            error.told = self.shared_folder
        elif isinstance(error, Lost):
            error.told = self.shared_folder and self.rank != min(
                set(range(self.size)) - self.lost.keys(), default=0
            )
        self.close_sockets()
        raise error

    def leave(self) -> None:
        """Go at once; what was sent may still leave within the shutdown deadline."""
        if not self._closing and self.ended is None:
            self._closing = True
            self.close_sockets()

    def close(self) -> None:
        """Take leave: wait for the neighbours' farewell within the shutdown deadline. Safe to call twice."""
        if self._closing or self.ended is not None:
            return
        self._closing = True
        self.spread(Kind.BYE)
        until = time.monotonic() + self.deadlines.shutdown
        while any(map(self._owed, self.links)) and (now := time.monotonic()) < until:
            self._serve(min(until - now, self.deadlines.pulse))
        self.close_sockets()

    def _owed(self, peer: int) -> bool:
        """Whether a neighbour may still need something of this process."""
        link = self.links[peer]
        if peer in self.lost or not link.ready or (link.farewell and not link.up):
            return False
        return bool(link.log) and link.down_for(time.monotonic()) <= self.deadlines.grace
