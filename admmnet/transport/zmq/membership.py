"""What one process owes to, and is owed by, the others in a start, and what ends it (docs/protocol.md, docs/hosts.md).

No thread: everything happens while the process waits for something, and every wait is one poll. Nobody is given up
inside a start. A fault ends it, here by ``StartEnded``; ``meet`` forms the next one in the same process.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Set
from contextlib import suppress
from typing import Any, NoReturn

from admmnet.errors import AdmmnetError, RunError, StartEnded, says
from admmnet.transport.choice import diameter
from admmnet.transport.ends import Ends
from admmnet.transport.starts import Ended, Standing, Start
from admmnet.transport.zmq.mailbox import Box, Topic, topic_of
from admmnet.transport.zmq.start import Meeting
from admmnet.transport.zmq.wire import Abort, Frame, Kind, as_json, check_size
from admmnet.transport.zmq.words import SIGNED

ENDS = (2, 3, 4)
"""Exit codes with which another process can end this one: neither as if all were well, nor as a person at this one."""
TOLD = 1000
"""Letters of a reason that others are told: as many as they show."""
STANDSTILL = 2.0
"""Seconds by which a process may look at the clock too late before it takes itself for stopped meanwhile."""
FIRST, LEAST, LONGER = 600.0, 60.0, 20.0
"""Of an automatic round deadline: seconds in the first round, the least afterwards, and how many longest rounds."""


class RunEnded(StartEnded):
    """Another process has ended the run, with an exit code of its own.

    ``told``: it tells the user; of processes that one command started, one speaks for all.
    """

    told = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class Membership(Meeting):
    """A process in the starts of a run; arguments are those of ``Meeting`` and three more.

    With ``shared_folder`` all processes write one run folder, for one user: then one of them reports an error of all.
    Where the process ``goes_on``, a fault ends the start, else the run, of which all are told. ``automatic`` says that
    the round deadline follows from the longest round.

    Attributes
    ----------
    ended_as : Ended or None
        How the last start has ended here.
    round : int
        The round that this process is in, for messages.
    """

    def __init__(
        self, *session: Any, shared_folder: bool = False, goes_on: bool = False, automatic: bool = False, **more: Any
    ) -> None:
        self.members, self.around = frozenset[int](), frozenset[int]()
        self.shared_folder, self.goes_on, self._closing = shared_folder, goes_on, False
        self._staging, self._heard_ends = False, set[int]()
        self._automatic, self._longest = automatic, 0.0
        self.round = self._rounds = self.step = 0
        self.sent: dict[int, int] = {}
        self.ended: AdmmnetError | None = None
        self.ended_as: Ended | None = None
        self._cause: tuple[Any, list[int], str] | None = None
        self._lacking: Callable[[], Set[int]] = set
        self._idle_since = self._computed = self._round_begun = 0.0
        super().__init__(*session, **more)
        atexit.register(self.close)

    # starts

    def begin(self, start: Start) -> None:
        """See ``Meeting.begin``."""
        propose, name = start.propose, bytes.fromhex(start.name)
        self._entered = self.start = start
        self.members, self.ended_as, self._cause = frozenset(propose.members), None, None
        self.around = frozenset(sum(edge) - self.rank for edge in propose.edges if self.rank in edge)
        self.step, self.sent, self._rounds, self._lacking, self._waited_for = 0, {}, 0, set, []
        self._idle_since, self._computed = time.monotonic(), 0.0
        self._ending = (self._ending or time.monotonic()) if propose.rule == "finish" else None
        self.window = diameter(propose.members, propose.edges)
        self.mailbox.ahead = 2 * self.window  # of the oldest open post this process may be ahead, and others of it
        self.words.start, self._staging, self._heard_ends = start.name, False, set[int]()
        self.mailbox.begin_start(name)
        self.later.clear()
        for peer in self.around:
            self.send(peer, Kind.START, payload=name)

    def meet(self, standing: Standing, *, fresh: bool = False) -> Start:
        """See ``Meeting.meet``; ``standing`` need not say how the last start has ended."""
        ended = self.ended_as or standing.ended
        if ended is not None and ended.start == 0 and not self.run:
            ended = None
        return super().meet(standing._replace(ended=ended), fresh=fresh)

    def _deadline(self) -> float:
        """Seconds that a neighbour may take for its part of a round."""
        automatic = max(LEAST, LONGER * self._longest) if self._rounds else FIRST
        return automatic if self._automatic else self.deadlines.round

    # waiting

    def wait(self, missing: Callable[[], Set[int]]) -> None:
        """Serve the links until nothing is missing from other members; raise what has ended the start or the run."""
        if self.ended is not None:
            raise self.ended
        begun = time.monotonic()
        self._computed, self._lacking = begun - self._idle_since, missing
        self.check(begun)
        look = begun + self.deadlines.pulse
        while absent := missing():
            self._waited_for = sorted(absent)
            self.serve(look - time.monotonic())
            if (now := time.monotonic()) >= look:
                if now > look + STANDSTILL:  # this process itself was stopped: nobody else is to blame
                    begun = now
                if absent := absent & missing():
                    self.waiting.look(begun, now, map(self.names.__getitem__, sorted(absent)))
                    self._look(absent, begun, now)
                look = now + self.deadlines.pulse
            # what is known by a turn that is whole at one is known at all, before they hear of an end
            if self.start is None or self.start.propose.rule != "finish" or missing():
                self.check(begun)
        self._idle_since, self._lacking, self._waited_for = time.monotonic(), set, []
        self.waiting.since = None

    def share(self, kind: Kind, topic: Topic, turn: int, payload: bytes) -> dict[int, bytes | None]:
        """Send everybody this process's part of a turn, which travels on; return the others', None of no members."""
        check_size(len(payload), "a process's message to all", kind)
        box = self.mailbox.begin(topic, turn)
        for early in self.mailbox.kept(topic, turn + 1).values():
            self.pass_on(early)
        box[-1, self.rank] = self.say(kind, topic[1], turn, payload)
        return self.await_shares(topic, turn, box)

    def await_shares(self, topic: Topic, turn: int, box: Box) -> dict[int, bytes | None]:
        """Wait for all other members' parts of a turn that has begun, and end it."""
        others = self.members - {self.rank}
        self.take_turn(self.around, lambda: {q for q in others if (-1, q) not in box})
        self.mailbox.finish(topic, turn)
        return {q: box[-1, q].payload if q in others else None for q in range(self.size) if q != self.rank}

    def quit(self, error: StartEnded) -> None:
        """Leave a start that something else has ended."""
        process = error.process
        cause = "failed" if process is None else "down" if process in self.around else "heard"
        self._cause = cause, [] if process is None else [process], ""
        with suppress(StartEnded):
            self.check()

    def take_turn(self, to: Set[int], missing: Callable[[], Set[int]]) -> None:
        """Wait for others in a turn of this step, once neighbours have been sent this process's part of it."""
        self.sent |= dict.fromkeys(to, self.step)
        self.wait(missing)
        self.step += 1

    def _look(self, absent: Set[int], begun: float, now: float) -> None:
        """End the start where a neighbour, or somebody far away, fails for too long."""
        deadline = self._deadline()
        for peer in sorted(absent & self.around):
            link = self.links[peer]
            # where the first fault ends the run, a process that waits for others is not at fault: its neighbour is
            since = begun if self.goes_on else max(begun, link.waiting_at)
            if link.farewell and self.shared_folder and not self.goes_on:
                self.fail(RunEnded(f"{self.names[peer]} has left the run", RunError.exit_code))
            if link.farewell:
                self.lose(peer, "it has left the run", "down")
            elif now - since > deadline:
                garbled = link.garbled
                unread = f"; {garbled} frames from it could not be read" if garbled else ""
                self.lose(
                    peer,
                    f"its host answers, but its message did not come within {deadline:g} s (round deadline): it "
                    f"hangs, or needs a longer --round-deadline{unread}",
                    "late",
                )
        if self._cause is None and now - begun > 2 * deadline:  # its neighbours have had time to say so
            whom = ", ".join(self.names[process] for process in sorted(absent))
            self._cause = "late", [], f"the part of {whom} did not come within {2 * deadline:g} s"

    # the end of a start

    def lose(self, process: int, reason: str, cause: Any = "forged") -> None:
        """See ``Session.lose``: the next ``check`` ends the start; who is not in one is heard no more."""
        if self._closing or self._cause is not None or self._staging:
            return
        if self.start is None or process not in self.members:
            if process in self.links and cause == "forged" and process not in self._closed:
                self.links[process].fault = reason
                self.shut(process)
            return
        about = f"{self.names[process]} is lost in round {self.round}: {reason}"
        self._cause = cause if process in self.around else "heard", [process], about

    def line(self, peer: int, *, up: bool) -> None:
        """See ``Session.line``."""
        super().line(peer, up=up)
        if not up and self.start is not None and peer in self.around:
            gone = (
                "its process or host has ended, or cannot be reached any more "
                f"(heartbeat deadline {self.deadlines.heartbeat:g} s)"
            )
            self.lose(peer, gone if self.links[peer].ready else "its process has ended and was started anew", "down")

    def check(self, begun: float | None = None) -> None:
        """Leave the start if something has ended it; ``begun`` is when a wait has."""
        over = self.regroup.over
        if self._cause is None and over is not None and self.start is not None:
            whom = ", ".join(self.names[process] for process in over.whom)
            what = "come back" if over.cause == "returned" else "ended this start"
            self._cause = over.cause, over.whom, f"{whom} has {what}"
        if self._cause is None or self.start is None:
            return
        now, half = time.monotonic(), self._deadline() / 2
        lacks = {} if begun is None else dict.fromkeys(sorted(self._lacking() & self.around), self.step)
        late = list(lacks) if begun is not None and now - begun > half else []
        cause, blamed, reason = self._cause
        self.ended_as = Ended(
            self.start.propose.number,
            cause,
            sent=dict(self.sent),
            lacks=lacks,
            late=late,
            whom=[] if cause == "late" else list(blamed),
            busy=not lacks and self._computed > half,
        )
        self.start, self._waited_for = None, []
        error = StartEnded(reason)
        if not self.goes_on:
            self.fail(error)
        error.shared = True
        raise error

    def stage(self, digest: str) -> Ends:
        """Say that the last files are on the disk; return the words of ends, once a quorum has staged the same one.

        From here on nobody's failure ends another's run, but for that of so many that there is no quorum.
        """
        assert self.start is not None
        self._staging, begun = True, time.monotonic()
        self._post(self.regroup.stage(self.start.propose.number, digest))
        while self.regroup.ends.named is None:
            self.serve(self.deadlines.pulse)
            if time.monotonic() > begun + self._deadline():
                self._cause = "late", [], f"fewer than {self.quorum} agents have the last files on their disks"
            self.check()
        return self.regroup.ends

    def next_round(self, round: int) -> None:
        """Note that a round begins."""
        now = time.monotonic()
        if self._rounds:
            self._longest = max(self._longest, now - self._round_begun)
        self._round_begun, self.round = now, round
        self.regroup.progress(self._rounds)
        self._rounds += 1

    # news

    def obey(self, frame: Frame, value: Any) -> None:
        """See ``Session.obey``."""
        peer, link = frame.sender, self.links[frame.sender]
        if frame.kind in (Kind.SHARE, Kind.ROWS, Kind.POST):
            if (topic := topic_of(frame)) and (frame.kind is Kind.POST or frame.round <= self.mailbox.last(topic)):
                self.pass_on(frame)  # else once this process is so far itself: no neighbour can be ahead of it by two
        elif frame.kind is Kind.WAITING:
            if set(value.absent) - {self.rank}:
                self.links[peer].waiting_at = time.monotonic()
        elif frame.kind is Kind.AGAIN:
            now = time.monotonic()
            if now > link.answered_at + 0.5 * self.deadlines.pulse:  # else each word would cost this process many
                link.answered_at = now
                self.resend(peer, frame.acknowledged)
        elif frame.kind is Kind.WORD:
            self.heard(frame)
        elif frame.kind is Kind.ABORT:
            self._ended_by(frame, value)
        elif frame.kind is Kind.BYE:
            link.farewell = True
            self.send(peer, Kind.ACKNOWLEDGE, numbered=False)
        if self.ended_as is not None and self.start is None and topic_of(frame) is not None:
            for j in self.ended_as.lacks.keys() - self._lacking():
                self.regroup.got(j, self.ended_as.lacks[j])

    def spread(self, kind: Kind, *, besides: Set[int] = frozenset(), **fields: Any) -> None:
        """See ``Session.spread``: what is signed for a start goes to its members alone."""
        for peer in self.around if kind in SIGNED and self.words.start else self.links:
            if peer not in besides:
                self.send(peer, kind, **fields)

    def contradicted(self, frame: Frame) -> None:
        """See ``Session.contradicted``."""
        self.pass_all_on()
        self.pass_on(frame)
        self.lose(frame.origin, "it has told different processes different things, and signed both")

    def serve(self, seconds: float) -> None:
        """See ``Meeting.serve``; who died, as the starter says, ends the start."""
        super().serve(seconds)
        while self.sockets.died:
            process, how = self.sockets.died.pop(0)
            if self.start is None and not self.run:
                for link in self.links.values():  # all are told by the starter: nothing need wait for them
                    link.up = False
                name = self.names[process]
                self.end(
                    RunError(f"the process of {name} {how} before the first round: nothing was charged; start again")
                )
            if process in self.links:
                self.links[process].up = False
                if process in self.around:
                    self.lose(process, f"its process {how}", "down")

    # ends

    def abort(self, code: int, reason: str | None = None) -> None:
        """Tell everybody that this process ends with an exit code."""
        if self.ended is None:
            self.say(Kind.ABORT, 0, 0, as_json(Abort(code, None if reason is None else reason[:TOLD])))

    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""
        self.abort(error.exit_code, error.public)
        self.end(error)

    def _ended_by(self, frame: Frame, end: Abort) -> None:
        if self._closing or self.fault is not None or frame.origin in self._heard_ends:  # has a reason, or heard it
            return
        who = self.names[frame.origin]
        said = "its own output says why" if end.reason is None else says(who, end.reason)
        error = RunEnded(f"{who} has ended the run: {said}", end.code if end.code in ENDS else 3)
        if not self.words.start:  # unsigned, from the neighbour itself: the others hear it of this process
            self.fail(error)
        if not self.words.genuine(frame):
            self.lose(frame.sender, f"it has left the run: {said}", "down")
            return
        self._heard_ends.add(frame.origin)
        self.pass_on(frame)
        self.pass_all_on()
        # what is wrong with a request shows before the first round; later nobody ends others
        if not self.goes_on or (error.exit_code != RunError.exit_code and self.regroup.number == self._rounds == 0):
            self.end(error)
        self.lose(frame.origin, f"it has left the run: {said}", "down")

    def end(self, error: AdmmnetError) -> NoReturn:
        """Close after a last word, and raise the error here and from now on."""
        error.shared, self.ended = True, error
        if isinstance(error, RunEnded):
            error.told = self.shared_folder
        self.close_sockets()
        raise error

    def leave(self) -> None:
        """Go at once; what was sent may still leave within the shutdown deadline."""
        if not self._closing and self.ended is None:
            self._closing = True
            self.close_sockets()

    def close(self) -> None:
        """Take leave: wait for the neighbours' farewell within the shutdown deadline. Safe to call twice."""
        atexit.unregister(self.close)
        if self._closing or self.ended is not None:
            return
        self._closing = True
        self.spread(Kind.BYE)
        for link in self.links.values():
            link.parted = link.ready
        until, near = time.monotonic() + self.deadlines.shutdown, self.around if self.start is not None else ()
        try:  # without a start nobody is owed anything, and none may form now
            while any(map(self._owed, near)) and (now := time.monotonic()) < until:
                self.serve(min(until - now, self.deadlines.pulse))
        finally:
            self.close_sockets()

    def lingers_for(self) -> dict[int, bool]:
        """Return neighbours that may need the last files, and whether each has taken leave, but may not know of this.

        Nobody can ask a process that only dials: it waits for others as if they had taken leave.
        """
        alone = self.start is None  # it has waited for nobody's farewell
        near, only_dials = self.links if alone else self.around, not self.network.peers[self.rank].address
        links = {j: self.links[j] for j in near if alone or not (self.links[j].farewell and self.links[j].parted)}
        return {j: link.farewell or only_dials for j, link in links.items()}

    def _owed(self, peer: int) -> bool:
        """Whether a neighbour may still need something of this process."""
        link = self.links[peer]
        if not link.ready or (link.farewell and not link.up):
            return False
        return bool(link.log or not link.farewell) and link.down_for(time.monotonic()) <= self.deadlines.grace
