"""Which processes live, and what becomes of a run when one is lost or ends it (docs/hosts.md, "Deadlines").

No thread: everything happens while the process waits for something, and every wait is one poll. A process that waits
tells the neighbours so once a pulse; so the round deadline runs against the process that really hangs, and its own
neighbours alone accuse it. What they have signed travels on, and ``accusations`` says who is lost by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Any, NoReturn

from admmnet.errors import AdmmnetError, RunError, StartEnded, says
from admmnet.graph.simple import parts_of
from admmnet.transport.choice import diameter
from admmnet.transport.zmq.accusations import Accusations
from admmnet.transport.zmq.mailbox import Box, Topic, topic_of
from admmnet.transport.zmq.start import DRAWN, Meeting
from admmnet.transport.zmq.wire import HEADER, LIMIT, MOST, Abort, BadFrame, Frame, Kind, Obituary, as_json

ENDS = (2, 3, 4)
"""Exit codes with which another process can end this one: neither as if all were well, nor as a person at this one."""
TOLD = 1000
"""Letters of a reason that others are told: as many as they show."""
STANDSTILL = 2.0
"""Seconds by which a process may look at the clock too late before it takes itself for stopped meanwhile."""


def check_size(size: int, what: str, kind: Kind) -> None:
    """Refuse to send what no frame of a kind can carry."""
    most = min(MOST[kind], LIMIT - HEADER)
    if size > most:
        raise RunError(f"{what} has {size} bytes; a message carries at most {most}")


class Lost(StartEnded):
    """A ``process`` is lost, and the run ends with it.

    ``told``: another process tells the user; of processes that one command started, one speaks for all.
    """

    told = False

    def __init__(self, message: str, process: int) -> None:
        super().__init__(message)
        self.process = process


class RunEnded(StartEnded):
    """Another process has ended the run, with an exit code of its own; ``told`` as of ``Lost``."""

    told = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class Membership(Meeting):
    """What one process owes to, and is owed by, the others; arguments are those of ``Session`` and two more.

    ``on_loss`` is "stop" or "continue". With ``shared_folder`` all processes write one run folder, for one user: then
    one of them reports an error of all. ``lost`` maps lost processes to the round in which they were missed,
    ``watchers`` are called with both; ``round`` is the one that this process is in, for the news of losses, ``due`` the
    one of which it owes its part, for the news that it leaves. ``window`` is how many posts may be on their way here.
    """

    def __init__(self, *session: Any, on_loss: str, shared_folder: bool = False, **more: Any) -> None:
        super().__init__(*session, **more)
        self.graph, self.size = self.network.graph(), len(self.network.peers)
        self.window = diameter(range(self.size), self.graph.edges)
        self.mailbox.ahead = 2 * self.window  # of the oldest open post this process may be ahead, and others of it
        self.evidence = Accusations(self.graph, self.rank)
        self.round, self.due, self.lost = 0, 0, dict[int, int]()
        self.watchers: list[Callable[[int, int], None]] = []
        self.ended: AdmmnetError | None = None
        self.shared_folder, self.on_loss, self._closing = shared_folder, on_loss, False
        self._news = self._evident = 0.0  # when a process was lost last, and when anything was said of one
        self._failing: dict[int, float] = {}  # accused neighbours, and since when they have failed without a break

    # waiting

    def wait(self, missing: Callable[[], Set[int]]) -> None:
        """Serve the links until nothing is missing from processes that live; raise what has ended the run."""
        if self.ended is not None:
            raise self.ended
        begun = time.monotonic()
        look = begun + self.deadlines.pulse
        while absent := missing():
            self.serve(look - time.monotonic())
            now = time.monotonic()
            if now >= look:
                if now > look + STANDSTILL:  # this process itself was stopped: nobody else is to blame
                    begun = now
                if absent := absent & missing():
                    self.waiting.look(begun, now, map(self.names.__getitem__, sorted(absent)))
                    self._look(absent, max(begun, self._news), now)
                look = now + self.deadlines.pulse
        self.waiting.since = None

    def share(self, kind: Kind, topic: Topic, turn: int, payload: bytes) -> dict[int, bytes | None]:
        """Send everybody this process's part of a turn, which travels on; return the others', None of lost ones."""
        check_size(len(payload), "what a process shares with all", kind)
        box = self.mailbox.begin(topic, turn)
        for early in self.mailbox.kept(topic, turn + 1).values():
            self.pass_on(early)
        box[-1, self.rank] = self.say(kind, topic[1], turn, payload)
        return self.await_shares(topic, turn, box)

    def await_shares(self, topic: Topic, turn: int, box: Box) -> dict[int, bytes | None]:
        """Wait for all others' parts of a turn that has begun, and end it; None of lost ones."""
        others = set(range(self.size)) - {self.rank}
        self.wait(lambda: {q for q in others if (-1, q) not in box and q not in self.lost})
        self.mailbox.finish(topic, turn)
        return {q: box[-1, q].payload if (-1, q) in box else None for q in others}

    def _look(self, absent: Set[int], begun: float, now: float) -> None:
        """Tell the neighbours that this process waits, and judge them."""
        self.say_waiting(sorted(absent))
        # what a process far away owes comes through neighbours: any of them may be what hangs; and an accused one may
        # owe this process nothing
        suspects = set(absent if absent <= self.links.keys() else self.links) | self.evidence.accused.keys()
        for peer in self.links.keys() - self.lost.keys():
            fault = self._fault(peer, peer in suspects, peer in absent, begun, now)
            if fault is None:
                self._failing.pop(peer, None)
                continue
            self.lose(peer, fault)
            since, limit = (self._failing.setdefault(peer, now), 2 * self.deadlines.round + self.deadlines.heartbeat)
            if peer in suspects and peer not in self.lost and now - since > limit:
                self.fail(
                    StartEnded(
                        f"{self.names[peer]} fails this process ({fault}), but after {limit:g} s most of its "
                        f"neighbours do not say so: this process, {self.names[self.rank]}, leaves the run"
                    )
                )
        limit = self._patience + self.deadlines.round
        if now - max(begun, self._evident) > limit:
            whom = ", ".join(self.names[process] for process in sorted(absent))
            self.fail(
                StartEnded(
                    f"what {whom} must do did not come within {limit:g} s, in which every process could have done its "
                    f"part: this process, {self.names[self.rank]}, leaves the run"
                )
            )

    def _fault(self, peer: int, suspect: bool, absent: bool, begun: float, now: float) -> str | None:
        """What a neighbour is accused of, if anything."""
        link, round = self.links[peer], self.deadlines.round
        if link.farewell:
            return "it has left the run" if suspect else None
        if link.down_for(now) > self.deadlines.grace:
            return (
                "its process or host has ended, or cannot be reached any more "
                f"(heartbeat deadline {self.deadlines.heartbeat:g} s)"
            )
        if suspect and now - max(begun, link.waiting_at) > round:
            garbled = f"; {link.garbled} frames from it could not be read" if link.garbled else ""
            return (
                f"its host answers, but what is waited for did not come within {round:g} s "
                f"(round deadline): it hangs, or needs a longer --round-deadline{garbled}"
            )
        if absent and now - max(begun, self._evident) > self._patience:
            return f"it waits for others for more than {self._patience:g} s, in which all could have done their part"
        return None

    @property
    def _patience(self) -> float:
        """Seconds for which excuses count: all compute, one after the other, and one leaves for want of a majority."""
        return (self.size + 2) * self.deadlines.round + 2 * self.deadlines.heartbeat

    # news

    def obey(self, frame: Frame, value: Any) -> None:
        """See ``Session.obey``."""
        peer, link = frame.sender, self.links[frame.sender]
        if frame.kind in (Kind.SHARE, Kind.ROWS, Kind.POST):
            topic = topic_of(frame)
            if topic is not None and (frame.kind is Kind.POST or frame.round <= self.mailbox.last(topic)):
                self.pass_on(frame)  # else once this process is so far itself: no neighbour can be ahead of it by two
            if topic == DRAWN:
                self.draw()
        elif frame.kind is Kind.WAITING:
            # whoever waits for this process alone may be what hangs; the lost excuse nobody
            if set(value.absent) - {self.rank} - self.lost.keys():
                link.waiting_at = time.monotonic()
        elif frame.kind is Kind.AGAIN:
            now = time.monotonic()
            if now > link.answered_at + 0.5 * self.deadlines.pulse:  # else each word would cost this process many
                link.answered_at = now
                self.resend(peer, frame.acknowledged)
        elif frame.kind is Kind.OBITUARY:
            self._heard(frame, value)
        elif frame.kind is Kind.ABORT:
            self._ended_by(frame, value)
        elif frame.kind is Kind.BYE:
            link.farewell = True
            self.send(peer, Kind.ACKNOWLEDGE, numbered=False)

    def lose(self, process: int, reason: str) -> None:
        """Accuse a neighbour, and tell everybody; again for another reason, which changes nothing."""
        if self._closing:
            return
        if not self.agreed:
            self.fail(RunError(f"{self.names[process]} fails before the run has begun: {reason}"))
        if self.evidence.accuse(self.rank, process, self.round, reason):
            self.say(Kind.OBITUARY, 0, self.round, as_json(Obituary(process, reason[:TOLD])))
            self._reckon(process, f"{self.names[process]} is lost in round {self.round}: {reason}")

    def _heard(self, frame: Frame, said: Obituary) -> None:
        """Take in an accusation of a process by a neighbour of its."""
        process, reason = said.process, said.reason
        if process not in self.names:
            raise BadFrame("payload")
        if self._closing or not self.evidence.accuse(frame.origin, process, frame.round, reason):
            return
        self.pass_on(frame)
        about = f"{self.names[process]} is lost in round {frame.round}: {reason}"
        # of processes that one user has started, one voice speaks
        self._reckon(process, about if self.shared_folder else says(self.names[frame.origin], about))

    def contradicted(self, frame: Frame) -> None:
        """See ``Session.contradicted``: whoever has said two things is lost by its own signatures."""
        if not self.agreed:
            self.disagree(frame)
        self.pass_on(frame)
        self.disown(frame.origin, "it has told different processes different things, and signed both")

    def disown(self, process: int, reason: str) -> None:
        """Count a process as lost for what it has signed and everybody has got."""
        if not self._closing and self.evidence.leave(process, self.round, reason):
            self._reckon(process, f"{self.names[process]} is lost in round {self.round}: {reason}")

    def _reckon(self, process: int, message: str) -> None:
        """Draw the consequences of news of a process."""
        self._evident = time.monotonic()
        accusers = self.evidence.given_up()
        if self.on_loss == "stop" and not accusers:
            self.end(Lost(message, process))
        if accusers:
            who, (missed, reason) = min(accusers.items())
            given_up = f"the others gave up this process, {self.names[self.rank]}, in round {missed}"
            self.end(Lost(f"{given_up}: {says(self.names[who], reason)}", self.rank))
        lost = set(range(self.size)) - self.evidence.living()
        named = {q: round for q in lost if (round := self.evidence.round_of(q)) is not None}
        fresh = lost - self.lost.keys()
        if fresh and self.shared_folder:
            self._stay(fresh & named.keys())
        cut_off = min((named[q] for q in fresh if q in named), default=self.round)
        for q in sorted(lost):
            at = named.get(q, self.lost.get(q, cut_off))
            if self.lost.get(q) != at:
                self._strike(q, at)

    @property
    def accusations(self) -> tuple[str, ...]:
        """What is said of processes that go on, as most of their neighbours do not say so."""
        return tuple(
            says(self.names[accuser], f"{self.names[process]} fails since round {round}: {reason}")
            for process, accusers in sorted(self.evidence.accused.items())
            if process not in self.lost
            for accuser, (round, reason) in sorted(accusers.items())
        )

    def _stay(self, named: Set[int]) -> None:
        """Go on only in the largest part of a network that falls apart, of equal ones in that with the first process.

        Of one run folder there can be one writer. All neighbours of the lost know the parts, so exactly one goes on.
        """
        parts = parts_of(self.graph, set(range(self.size)) - self.lost.keys() - named)
        if self.rank not in max(parts, key=lambda part: (len(part), -min(part))):
            away = min(named)
            self.end(
                Lost(
                    f"{self.names[self.rank]} is cut off: without {self.names[away]}, lost in round {self.round}, no "
                    "way leads from it to the larger part of the network, which goes on",
                    away,
                )
            )

    def _strike(self, process: int, round: int) -> None:
        if process not in self.lost:
            self._news = time.monotonic()
        self.lost[process] = round
        self.shut(process)
        for watcher in self.watchers:
            watcher(process, round)

    # ends

    def abort(self, code: int, reason: str | None = None) -> None:
        """Tell everybody that this process ends with an exit code: under "stop" all end with it."""
        if self.ended is None:
            self.say(Kind.ABORT, 0, self.due, as_json(Abort(code, None if reason is None else reason[:TOLD])))

    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""
        self.abort(error.exit_code, error.public)
        self.end(error)

    def _ended_by(self, frame: Frame, end: Abort) -> None:
        if self._closing or self.fault is not None:  # has a reason of its own
            return
        who = self.names[frame.origin]
        said = "its own output says why" if end.reason is None else says(who, end.reason)
        error = RunEnded(f"{who} has ended the run: {said}", end.code if end.code in ENDS else 3)
        if not self.agreed:  # unsigned, from the neighbour itself: the others hear it of this process
            self.fail(error)
        if not self.words.genuine(frame):
            self.lose(frame.sender, f"it has left the run: {said}")
        elif self.on_loss == "stop":
            self.pass_on(frame)
            self.end(error)
        elif self.evidence.leave(frame.origin, frame.round, said):
            self.pass_on(frame)
            self._reckon(frame.origin, said)

    def end(self, error: AdmmnetError) -> NoReturn:
        """Close after a last word, and raise the error here and from now on."""
        error.shared, self.ended = True, error
        if isinstance(error, RunEnded):
            error.told = self.shared_folder
        elif isinstance(error, Lost):
            left = set(range(self.size)) - self.lost.keys() - {error.process}
            error.told = self.shared_folder and self.rank != min(left, default=0)
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
            self.serve(min(until - now, self.deadlines.pulse))
        self.close_sockets()

    def _owed(self, peer: int) -> bool:
        """Whether a neighbour may still need something of this process."""
        link = self.links[peer]
        if peer in self.lost or not link.ready or (link.farewell and not link.up):
            return False
        return bool(link.log) and link.down_for(time.monotonic()) <= self.deadlines.grace
