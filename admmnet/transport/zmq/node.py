"""Waiting for other processes, and what becomes of a run when one of them is lost (docs/hosts.md, "Deadlines").

No thread: everything happens while the process waits for something, and every wait is one poll. Who waits tells
the neighbours so once a pulse; so the round deadline runs against the process that really hangs, and its own
neighbours alone name it. The news travels on as an obituary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from typing import Any

from admmnet.errors import AdmmnetError, RequestError, RunError, printable
from admmnet.transport.hosts.network import Keys, Network
from admmnet.transport.zmq.failures import Lost, RunEnded, reachable, text_of
from admmnet.transport.zmq.session import Lines
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.wire import BadFrame, Frame, Kind, as_json

ENDS = (2, 3, 4, 130)
"""Exit codes with which another process can end this one; it cannot make it look as if all were well."""
STANDSTILL = 2.0
"""Seconds by which a process may look at the clock too late before it takes itself for stopped meanwhile."""


class Post:
    """What one process owes to, and is owed by, the others.

    Parameters
    ----------
    network, rank, settings, keys, deadlines, on_loss, parent
        As of ``ZmqWorld``.
    one_voice : bool
        Whether one process speaks for all: errors of the others are marked ``told``.

    Attributes
    ----------
    lines : Lines
        To the neighbours.
    lost : dict of int to int
        Lost processes, and the round in which they were missed.
    reasons : dict of int to str
        Why they are lost.
    round : int
        Round that this process is in, for the news of losses.
    names : dict of int to str
        What to call every process.
    watchers : list of callable
        Called with every lost process and its round.
    """

    def __init__(
        self,
        network: Network,
        rank: int,
        *,
        settings: Mapping[str, Any],
        keys: Keys | None,
        deadlines: Deadlines,
        on_loss: str,
        parent: int | None,
        one_voice: bool,
    ) -> None:
        process = {peer.agent: place for place, peer in enumerate(network.peers)}
        self.rank, self.size, self.round = rank, len(network.peers), 0
        self.names = {place: f"agent {peer.agent}" for place, peer in enumerate(network.peers)}
        self.lost: dict[int, int] = {}
        self.reasons: dict[int, str] = {}
        self.watchers: list[Callable[[int, int], None]] = []
        self.ended: AdmmnetError | None = None
        self._edges = [(process[i], process[j]) for i, j in network.edges]
        self._deadlines, self._on_loss, self._one_voice = deadlines, on_loss, one_voice
        self._closing = False
        self.lines = Lines(
            network,
            rank,
            settings=settings,
            keys=keys,
            deadlines=deadlines,
            parent=parent,
            names=self.names,
            obey=self._obey,
            give_up=self.lose,
        )
        self.mailbox, self.links = self.lines.mailbox, self.lines.links

    # waiting

    def connect(self) -> None:
        """Wait until all neighbours have answered.

        Raises
        ------
        RequestError
            If a neighbour runs with other settings or another network file.
        RunError
            If one does not answer within the connection deadline, or another process has ended the run.
        """
        lines, pulse = self.lines, self._deadlines.pulse
        until = time.monotonic() + self._deadlines.connect
        greeted, refused = time.monotonic(), False
        while missing := [peer for peer, link in self.links.items() if not link.ready]:
            now = time.monotonic()
            if lines.fault is not None and not refused:  # the others shall hear of it, if they come soon
                until, refused = min(until, now + self._deadlines.shutdown), True
            if now >= until:
                break
            if now >= greeted + pulse:
                greeted = now
                lines.say_waiting(missing)
                for peer in missing:
                    if self.links[peer].up:
                        lines.greet(peer)
            self._serve(min(pulse, until - now))
        if lines.fault is not None:
            self._fail(RequestError(lines.fault))
        if missing:
            reason = "; ".join(map(self._unreachable, missing))
            self._fail(
                RunError(
                    f"not connected within {self._deadlines.connect:g} s (connection deadline): {reason}; "
                    "start all agents, with the same network file, within that time"
                )
            )

    def _fail(self, error: AdmmnetError) -> None:
        self.abort(error.exit_code, error.public)
        self._end(error)

    def _unreachable(self, peer: int) -> str:
        link, where = self.links[peer], f"{self.names[peer]} at {self.lines.peers[peer].address}"
        if link.fault:
            return f"{where}: {link.fault}"
        if link.theirs is None:
            return f"{where}: {'it does not introduce itself' if link.up else 'nobody answers there'}"
        return f"{where}: it does not hear this process"

    def wait(self, missing: Callable[[], Set[int]]) -> None:
        """Serve the links until nothing is missing.

        Parameters
        ----------
        missing : callable
            Returns the processes from which something is missing, lost ones left out.

        Raises
        ------
        RunError
            If the run has ended here or elsewhere.
        """
        if self.ended is not None:
            raise self.ended
        begun = time.monotonic()
        look = begun + self._deadlines.pulse
        while absent := missing():
            self._serve(look - time.monotonic())
            now = time.monotonic()
            if now >= look:
                if (
                    now > look + STANDSTILL
                ):  # this process itself was stopped: nobody else is to blame for that
                    begun = now
                self._look(absent & missing(), begun, now)
                look = now + self._deadlines.pulse

    def _serve(self, seconds: float) -> None:
        self.lines.serve(seconds)
        if self.lines.sockets.orphaned and not self._closing:
            self._end(RunError("the process that started this one has ended"))

    def _look(self, absent: Set[int], begun: float, now: float) -> None:
        """Tell the neighbours that this process waits, and judge them."""
        self.lines.say_waiting(sorted(absent))
        # what a process far away owes comes through neighbours: any of them may be what hangs
        suspects = absent if absent <= self.links.keys() else self.links.keys()
        for peer, link in self.links.items():
            if peer in self.lost:
                continue
            if link.farewell:
                if peer in suspects:
                    self.lose(peer, "it has left the run")
            elif link.down_for(now) > self._deadlines.grace:
                self.lose(
                    peer,
                    "its process or host has ended, or cannot be reached any more "
                    f"(heartbeat deadline {self._deadlines.heartbeat:g} s)",
                )
            elif peer in suspects and now - max(begun, link.waiting_at) > self._deadlines.round:
                garbled = f"; {link.garbled} frames from it could not be read" if link.garbled else ""
                self.lose(
                    peer,
                    f"its host answers, but what is waited for did not come within {self._deadlines.round:g} s "
                    f"(round deadline): it hangs, or needs a longer --round-deadline{garbled}",
                )

    # news

    def _obey(self, frame: Frame, value: Any) -> None:
        peer, link = frame.sender, self.links[frame.sender]
        if frame.kind in (Kind.SHARE, Kind.ROWS):
            self.lines.pass_on(frame)
        elif frame.kind is Kind.WAITING:
            if value["for"] != [self.rank]:  # whoever waits for this process alone may be what hangs
                link.waiting_at = time.monotonic()
        elif frame.kind is Kind.AGAIN:
            self.lines.resend(peer, frame.acknowledged)
        elif frame.kind is Kind.OBITUARY:
            self._bury(frame.origin, frame.round, text_of(value, "reason"))
        elif frame.kind is Kind.ABORT:
            self._ended_by(frame, value)
        elif frame.kind is Kind.BYE:
            link.farewell = True
            self.lines.send(peer, Kind.ACKNOWLEDGE, numbered=False)

    def lose(self, process: int, reason: str) -> None:
        """Count a neighbour as lost in this round, and tell the others."""
        self._bury(process, self.round, reason)

    def _bury(self, process: int, round: int, reason: str) -> None:
        if self._closing or process not in range(self.size) or self.lost.get(process, round + 1) <= round:
            return
        self.lines.spread(Kind.OBITUARY, origin=process, round=round, payload=as_json({"reason": reason}))
        self._strike(process, round, reason)
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
        living = set(range(self.size)) - self.lost.keys()
        parts = [reachable(one, self._edges, self.lost) for one in living]
        largest = max(parts, key=lambda part: (len(part), -min(part)))
        if self._one_voice and self.rank not in largest:
            name, away = self.names[self.rank], self.names[process]
            self._end(
                Lost(
                    f"{name} is cut off: without {away}, lost in round {round}, no way leads from it to the "
                    "larger part of the network, which goes on"
                )
            )
        for cut in living - reachable(self.rank, self._edges, self.lost):
            self._strike(cut, round, f"no way leads there without {self.names[process]}")

    def _strike(self, process: int, round: int, reason: str) -> None:
        self.lost[process], self.reasons[process] = round, reason
        self.lines.shut(process)
        for watcher in self.watchers:
            watcher(process, round)

    # ends

    def abort(self, code: int, reason: str | None = None) -> None:
        """Tell the neighbours to end with an exit code; they tell theirs."""
        if self.ended is None:
            value = {"code": code, "reason": reason}
            self.lines.spread(Kind.ABORT, origin=self.rank, payload=as_json(value))

    def _ended_by(self, frame: Frame, value: Any) -> None:
        if not isinstance(value, dict) or type(value.get("code")) is not int:
            raise BadFrame("payload")
        if self._closing or self.lines.fault is not None:  # has a reason of its own
            return
        self.lines.pass_on(frame)
        who = self.names.get(frame.origin, self.names[frame.sender])
        said = printable(str(value.get("reason") or "its own output says why"), 1000)
        code = value["code"] if value["code"] in ENDS else RunError.exit_code
        self._end(RunEnded(f"{who} has ended the run: {said}", code))

    def _end(self, error: AdmmnetError) -> None:
        """Close after a last word, and raise the error here and from now on."""
        error.shared, self.ended = True, error
        if isinstance(error, RunEnded):
            error.told = self._one_voice
        elif isinstance(error, Lost):
            error.told = self._one_voice and self.rank != min(
                set(range(self.size)) - self.lost.keys(), default=0
            )
        self.lines.close(self._deadlines.shutdown)
        raise error

    def leave(self) -> None:
        """Go at once; what was sent may still leave within the shutdown deadline."""
        if not self._closing and self.ended is None:
            self._closing = True
            self.lines.close(self._deadlines.shutdown)

    def close(self) -> None:
        """Take leave: wait for the neighbours' farewell within the shutdown deadline. Safe to call twice."""
        if self._closing or self.ended is not None:
            return
        self._closing = True
        self.lines.spread(Kind.BYE)
        until = time.monotonic() + self._deadlines.shutdown
        while any(map(self._owed, self.links)) and (now := time.monotonic()) < until:
            self._serve(min(until - now, self._deadlines.pulse))
        self.lines.close(self._deadlines.shutdown)

    def _owed(self, peer: int) -> bool:
        """Whether a neighbour may still need something of this process."""
        link = self.links[peer]
        if peer in self.lost or not link.ready or (link.farewell and not link.up):
            return False
        return bool(link.log) and link.down_for(time.monotonic()) <= self._deadlines.grace
