"""How the agents that are there form the next start of a run: sockets and a clock feed ``Regroup`` (docs/protocol.md).

The first start has all agents and edges of the network file; its name is that of the run, for which all that follows
is signed. Before that words are signed for the network file alone. Settings are compared on every link.
"""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from msgspec.structs import replace

from admmnet.errors import AdmmnetError, CheckFailed, RequestError, RunError
from admmnet.identity.keys import verify
from admmnet.log import say
from admmnet.transport.regroup import Regroup, Sent
from admmnet.transport.starts import Certificate, Patience, Promise, Propose, Rules, Standing, Start, scope_of
from admmnet.transport.zmq.link_state import difference
from admmnet.transport.zmq.session import PATIENCE, Session
from admmnet.transport.zmq.wire import Frame, Hello, Kind

EVER = 2**40
"""Pulses that never come."""


class Overtaken(RunError):
    """The run has ended without this process, which has all of it now."""


class Meeting(Session):
    """A session that forms starts.

    ``quorum``, ``strikes``, ``regroup_deadline`` and ``give_up`` (seconds) are the settings of these names; ``memory``
    is the name of the run and the last promise, and ``keep`` has them on the disk when it returns.
    """

    overtaken: Callable[[], bool] | None = None
    """Whether the run has ended elsewhere; asked while a start is formed."""

    def __init__(
        self,
        *session: Any,
        quorum: int,
        strikes: int,
        regroup_deadline: float,
        give_up: float,
        memory: tuple[str, Promise] = ("", Promise()),
        keep: Callable[[str, Promise], None] = lambda run, promise: None,
        **more: Any,
    ) -> None:
        self.run, promise = memory
        super().__init__(*session, run=self.run, **more)
        self.mailbox.begin_start(b"none yet")
        self.graph, self.size = self.network.graph(), len(self.network.peers)
        self.quorum, self._strikes, self._keep = quorum, strikes, keep
        pulse = self.deadlines.pulse
        self._patience, self._give_up = Patience(round(regroup_deadline / pulse), round(give_up / pulse)), give_up
        self._ending: float | None = None  # since when starts are formed in which nothing is left but the end
        self._waited_for: list[int] = []
        self._beats = 0.0
        self._fresh = True  # whether this process has charged nothing in this run
        self.start: Start | None = None
        self._entered: Start | None = None
        self.regroup = self._machine(promise)

    def _machine(self, promise: Promise) -> Regroup:
        scope = scope_of(self._greeting.network, self.run)
        patience, genesis = self._patience, None
        if self.run:
            everybody, edges = list(range(self.size)), [tuple(sorted(edge)) for edge in self.graph.edges]
            genesis = Propose(0, 0, [], everybody, edges, "go on", 0, 0)  # type: ignore[arg-type]
        else:
            patience = Patience(EVER, EVER)
        keys = [str(peer.identity) for peer in self.network.peers]
        return Regroup(
            self.rank,
            Rules(self.graph, self.quorum, self._strikes, scope, genesis),
            patience,
            sign=self.identity.sign,
            genuine=lambda agent, signature, said: verify(keys[agent], signature, said),
            keep=lambda promise: self._keep(self.run, promise),
            nonce=lambda: secrets.token_hex(32),
            promise=promise,
        )

    @abstractmethod
    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""

    @abstractmethod
    def end(self, error: AdmmnetError) -> NoReturn:
        """End this process."""

    @abstractmethod
    def close(self) -> None:
        """Take leave of the neighbours."""

    @abstractmethod
    def begin(self, start: Start) -> None:
        """Take part in a start from now on."""

    def meet(self, standing: Standing, *, fresh: bool = False) -> Start:
        """Form the next start with those who are there; ``fresh`` says that nothing was charged.

        Raises
        ------
        RunError
            If none comes in time, or the others have struck this agent out.
        RequestError
            If a neighbour has other settings, or another network file, before the first start.
        """
        self.start, self._fresh = None, fresh
        begun = changed = time.monotonic()
        come, refused = -1, False
        if self.run:
            self._post(self.regroup.begin(standing))
        while self.start is None:
            now, missing = time.monotonic(), self._missing()
            alike = self.fault is None and all(link.ready for link in self.links.values())
            if not self.run and not self.regroup.regrouping and alike:
                self._post(self.regroup.begin(standing))
            if self.fault is not None and not refused:  # the others shall hear of it, if they come soon
                begun, refused = now - self.deadlines.connect + self.deadlines.shutdown, True
            self._waited_for = missing
            self.waiting.look(changed, now, map(self.names.__getitem__, missing))
            if self.run:
                self._check_regrouping(missing)
            elif not refused and (there := self.size - len(missing)) + self._ready > come:
                come, begun = there + self._ready, now  # the deadline counts from the last that came
            # the neighbours of whoever does not come know more of it, and speak first
            if not self.run and now >= begun + self.deadlines.connect + alike * self.deadlines.shutdown:
                self._not_connected(missing)
            self.serve(self.deadlines.pulse)
            if self.overtaken is not None and self.overtaken():
                self.close()
                raise Overtaken("the run has ended without this process")
            if self.regroup.ends.named is not None and now > changed + self.deadlines.connect:
                self.fail(
                    RunError(
                        "the run has ended without this process: take over its end by `admmnet adopt`, with the folder "
                        "of an agent that has finished"
                    )
                )
        self.waiting.since = None
        return self.start

    @property
    def _ready(self) -> int:
        return sum(link.ready for link in self.links.values())

    def _missing(self) -> list[int]:
        """Agents that have said no HERE of this number; before the first start neighbours that do not answer first."""
        waited = [] if self.run else [peer for peer, link in self.links.items() if not link.ready]
        return waited or sorted(set(range(self.size)) - self.regroup.here - {self.rank})

    def _check_regrouping(self, missing: list[int]) -> None:
        whom = ", ".join(self.names[process] for process in missing)
        if self.regroup.gave_up:
            self.fail(
                RunError(
                    f"no start was formed within --give-up: {self.quorum} of {self.size} agents must be there "
                    f"(--quorum), and {whom} did not come; start the same command again when they are there"
                )
            )
        if self._ending is not None and time.monotonic() > self._ending + self._give_up:
            self.fail(
                RunError(
                    "the run has ended, but too few of its agents came back within --give-up: start the same command "
                    "again when they are there, or give the folder of an agent that has finished to `admmnet "
                    "adopt`"
                )
            )
        if self.regroup.struck_out:
            self.fail(
                RunError(
                    f"the others go on without this process, {self.names[self.rank]}: it, or its lines, ended "
                    f"{self._strikes} starts (--strikes)"
                )
            )

    def _not_connected(self, missing: list[int]) -> NoReturn:
        if self.fault is not None:
            self.fail(RequestError(self.fault))
        away = [process for process in missing if process not in self.links or not self.links[process].ready]
        reason = "; ".join(map(self._unreachable, away)) or "no start was formed"
        self.fail(
            RunError(
                f"not connected within {self.deadlines.connect:g} s (connection deadline): {reason}; "
                "start all agents, with the same network file, within that time"
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

    # what happens

    def serve(self, seconds: float) -> None:
        """Take what arrives within some time; once a pulse look at the lines, and at what is to be said."""
        self.take(min(seconds, max(0.0, self._beats - time.monotonic())))
        now = time.monotonic()
        if now >= self._beats:
            self._beats = now + self.deadlines.pulse
            self._beat(now)
        if self.sockets.orphaned:
            self.end(RunError("the process that started this one has ended"))

    def _beat(self, now: float) -> None:
        for peer, link in self.links.items():
            if link.ready and link.down_for(now) > self.deadlines.grace:
                self.line(peer, up=False)
            elif link.up and not link.ready and peer not in self._closed:
                self.greet(peer)
        self.say_waiting(self._waited_for)
        self._post(self.regroup.pulse())

    def line(self, peer: int, *, up: bool) -> None:
        """See ``Session.line``."""
        if up != (peer in self.regroup.live):
            self._post(self.regroup.line(peer, up=up))

    def heard(self, frame: Frame) -> None:
        """Take in a word of a start."""
        if frame.channel != bool(self.run):
            return  # signed before the first start, or for it, where this process is not
        asking = set(self.regroup.asking)
        try:
            self._post(self.regroup.hear(frame.payload, frame.sender))
            for agent in self.regroup.asking - asking:
                say("asking", f"{self.names[agent]} is there, and asks to take part in the next start", peer=agent)
        except CheckFailed as error:
            link = self.links[frame.sender]
            link.garbled += 1
            if link.garbled >= PATIENCE:
                self.lose(frame.sender, str(error))

    def _post(self, sent: list[Sent]) -> None:
        """Send words, and begin a start that has been formed by them."""
        for peer, data in sent:
            self.send(peer, Kind.WORD, channel=int(bool(self.run)), payload=data)
        start = self.regroup.start
        if self.start is None and not self.regroup.regrouping and start is not None and start is not self._entered:
            if not self.run:
                self._first(start)
            else:
                self.begin(start)

    def _first(self, start: Start) -> None:
        """Take the name of the first start for that of the run; it must have all agents and edges."""
        if set(start.propose.edges) != set(self.graph.edges):
            self.fail(RunError("a line was cut as the first start was formed: nothing was charged; start again"))
        live = self.regroup.live
        self.run, self._greeting = start.name, replace(self._greeting, run=start.name)
        self._keep(self.run, Promise())
        self.regroup = self._machine(Promise())
        assert self.regroup.rules.genesis is not None
        own = Start(self.regroup.rules.genesis, start.name, Certificate(b"", ()), start.about)
        self.regroup.start, self.regroup.live = own, live
        self.begin(own)

    # who fits

    def fits(self, peer: int, theirs: Hello) -> bool:
        """See ``Session.fits``: a neighbour must go on with the same run, once this process has charged for it."""
        link, wrong = self.links[peer], difference(self._greeting, theirs, self.names[peer])
        if not (self.run or theirs.run):
            self.fault = self.fault or wrong
            return True  # so that it hears of it
        if wrong is None and theirs.run != self.run:
            wrong = f"it goes on with {'another run' if theirs.run else 'no run'}, or has lost its run folder"
            if self._fresh and not theirs.run and self.start is None:  # it has died before it had one: all begin anew
                self._forget()
                return False
        link.fault = wrong or ""
        return wrong is None

    def _forget(self) -> None:
        """Begin anew, under another nonce, in a run of which nobody has charged anything."""
        self.run, self.nonce = "", secrets.token_hex(16)
        self._greeting = replace(self._greeting, nonce=self.nonce, run="")
        self.regroup = self._machine(Promise())
        for peer in self.links:
            self.renewed(peer)
