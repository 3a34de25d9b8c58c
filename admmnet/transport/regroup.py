"""Forming the next start of a run: one agent's part in it, as a pure state machine (docs/protocol.md).

Events in, words out: no clock, no socket. A pulse is longer than a word takes through the network. Words are flooded:
whoever gets a new one passes it on, and a line that comes up gets all that are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from admmnet.errors import CheckFailed
from admmnet.transport.choice import Words
from admmnet.transport.ends import RAISES, Ends
from admmnet.transport.starts import (
    HISTORY,
    Agree,
    Certificate,
    Certificates,
    Dispute,
    Ended,
    Here,
    Patience,
    Promise,
    Propose,
    Rules,
    Said,
    Signed,
    Staged,
    Standing,
    Start,
    Word,
    name_of,
    place_of,
    written,
)

TURN = 2
"""Pulses for which one agent after the other may propose."""
SLACK = 4
"""Pulses, beyond everybody's turn, until a number is given up."""
APART = 10
"""Rounds of a start before an agent from outside ends it."""
JUMP = 2**20
"""Numbers above its own, or a start that was formed, in which an agent hears words; it follows for a 16th at most."""
Sent = tuple[int, bytes]
"""A neighbour, and the word that it is sent."""


class Regroup:
    """Agent ``me`` of a network.

    ``sign`` makes a signature of a statement, ``genuine`` verifies another agent's, ``keep`` has a promise on the disk
    when it returns; ``promise`` is the last one. ``nonce`` draws 64 hexadecimal digits.

    Attributes
    ----------
    start : Start or None
        The last start of this agent.
    regrouping : bool
        Whether it has left that and takes part in forming the next one.
    over : Ended or None
        Cause, and by whom, for which the start must end here: the caller shall ``begin``.
    ends : Ends
        Words of ends; with one that a quorum has staged there is nothing more to form.
    asking : set of int
        Agents from outside this start that ask to take part in the next one.
    gave_up, struck_out : bool
        Whether no start came in time; whether the others have struck this agent out.
    """

    def __init__(
        self,
        me: int,
        rules: Rules,
        patience: Patience,
        *,
        sign: Callable[[bytes], bytes],
        genuine: Callable[[int, bytes, bytes], bool],
        keep: Callable[[Promise], None],
        nonce: Callable[[], str],
        promise: Promise | None = None,
    ) -> None:
        self.me, self.rules, self.patience = me, rules, patience
        self._sign, self._genuine, self._keep, self._nonce = sign, genuine, keep, nonce
        self.promise, self.live, self.regrouping = promise or Promise(), set[int](), False
        self.start: Start | None = None
        self.over: Ended | None = None
        self.ends = Ends(rules.quorum)
        self.gave_up = self.struck_out = False
        self._standing, self._lacks = Standing(), dict[int, int]()
        self._waited = self._turns = self._since = self._quiet = 0
        self._signed: list[Signed] = []
        self._known = Certificates(rules, genuine)
        self._later: dict[tuple[object, ...], Sent] = {}  # words of numbers above
        self._raised, self._flaps = Counter[int](), Counter[int]()  # numbers for an agent's word, for a line
        self._moved = Counter[int]()  # pulses after which a line came or went
        self.asking: set[int] = set()
        self._out: list[Sent] = []
        self._clear()

    def _clear(self) -> None:
        self._data: dict[str, bytes] = {}  # all words of this number, by their hashes
        self._said: dict[str, Said] = {}
        self._agreed: dict[str, dict[int, bytes]] = {}
        self._own, self._here = "", Here(self.me, 0, "")
        self._calm, self._left_out = TURN + 1, False  # pulses since this agent has signed, or has seen others do

    @property
    def number(self) -> int:
        """Highest number that this agent has said HERE of."""
        return self.promise.number

    @property
    def here(self) -> set[int]:
        """Agents that have said HERE of this number."""
        return set(self._words().here)

    def begin(self, standing: Standing) -> list[Sent]:
        """Leave a start, or come new, and take part in forming the next one."""
        self._standing, self.over, self.regrouping = standing, None, True
        self._lacks = {} if standing.ended is None else dict(standing.ended.lacks)
        self._waited, self._raised, self._flaps, self._moved = 0, Counter(), Counter(), Counter()
        self.ends.begin()
        self._next()
        return self._sent()

    def hear(self, data: bytes, via: int) -> list[Sent]:
        """Take in a word that a neighbour has sent; CheckFailed if it is none, or not its signer's."""
        self._hear(data, via)
        return self._sent()

    def _hear(self, data: bytes, via: int) -> None:
        name = name_of(data)
        said, signature = self.rules.read(data)
        new = name not in self._data and not self.ends.known(said.agent, name)
        if new and not self._genuine(said.agent, signature, self.rules.statement(data[len(signature) :])):
            raise CheckFailed(f"a word of agent {said.agent} is not signed by it")
        if said.number > self._near(said) + JUMP:
            return
        if said.agent in self._struck() and not isinstance(said, Staged):
            return
        if isinstance(said, Here):
            if self._known.start_of(said.last) is None and said.last is not None:
                raise CheckFailed(f"agent {said.agent} names a start that its members have not signed")
            self._answer(said, via)
        if isinstance(said, Staged):
            self._hear_staged(said, data, via)
        elif said.number > self.number:
            self._hear_later(said, data, via)
        elif said.number == self.number and said.number:
            if isinstance(said, Here) and via == said.agent:
                self._hold_against(said)
            if new:
                self._take(said, data, via)

    def pulse(self) -> list[Sent]:
        """Look at what has come; a pulse has passed."""
        if self.regrouping and self.ends.named is None and not self.struck_out:
            self._waited += 1
            self._since += 1
            self._quiet += 1  # since the last new word of this number
            self._calm += 1
            self._advance()
        return self._sent()

    def line(self, neighbour: int, *, up: bool) -> list[Sent]:
        """Note that a line stands, with all that was sent on it before in order, or is cut."""
        self.live = self.live | {neighbour} if up else self.live - {neighbour}
        self._moved[neighbour] = self._waited
        if up:
            self._out += [(neighbour, data) for data in (*self.ends.words, *self._data.values())]
        return self._sent()

    def got(self, neighbour: int, turn: int) -> None:
        """Note that a turn of the start that ended has come after all."""
        if turn >= self._lacks.get(neighbour, turn + 1):
            del self._lacks[neighbour]

    def progress(self, rounds: int) -> None:
        """Note that so many rounds of this start are behind this agent."""
        if rounds >= APART and self.over is None and (asking := sorted(self.asking - self._struck())):
            self._end("returned", asking)

    def stage(self, number: int, digest: str) -> list[Sent]:
        """Say that the files of the end of a start are on the disk; not once HERE of a higher number was said."""
        if self._may_stage(number):
            self._promise(staged=(number, digest))
            said = Staged(self.me, number, digest)
            self._hear_staged(said, self._as_signed(said), self.me)
        return self._sent()

    def _may_stage(self, number: int) -> bool:
        return not self.regrouping and number == self.number

    # words

    def _hear_later(self, said: Said, data: bytes, via: int) -> None:
        """Follow to a higher number, or keep the word until this agent is there."""
        kind, _, *whose = place_of(said)
        if via == said.agent or self._later.get((kind, *whose), (0, b""))[1] != data:
            self._later[kind, *whose] = via, data
        if self.regrouping and self._calm < TURN:
            return  # a start may be formed at this moment
        if self.regrouping:
            self._raised[said.agent] += 1
            if self._raised[said.agent] <= RAISES:
                self._say_here(self._followed(said))
        elif self.ends.named is None and self.start is not None and isinstance(said, Here):
            last = self.start.propose
            if said.agent not in last.members:
                self.asking.add(said.agent)
            elif said.ended is None or said.ended.start != last.number or said.ended.cause != "heard":
                self._end("heard", [said.agent])

    def _take(self, said: Said, data: bytes, via: int) -> None:
        """Keep a word of this number, pass it on, and see what follows from it."""
        known = [name for name, other in self._said.items() if place_of(other) == place_of(said)]
        if len(known) > 1 or (known and not isinstance(said, Here)):
            return  # the first of two; two HERE put their signer out
        name = name_of(data)
        self._data[name], self._said[name], self._quiet = data, said, 0
        if isinstance(said, Agree):
            self._agreed.setdefault(said.proposal, {})[said.agent] = data
        self._spread(data, besides=via)
        self._look()

    def _hear_staged(self, said: Staged, data: bytes, via: int) -> None:
        last = self._known.start_of(self.promise.last)
        now = said.number in (self.number, None if last is None else last.number)
        if self.ends.take(said, data, name_of(data), now=now):
            self._spread(data, besides=via)

    def _answer(self, said: Here, via: int) -> None:
        """Tell an agent that is behind how far the others are."""
        known = self._data.values() if said.number < self.number else ()
        self._out += [(via, data) for data in (known if self.ends.named is None else self.ends.words)]

    def _hold_against(self, said: Here) -> None:
        """Dispute an edge whose other end says that it has sent what has not come, although all before its word has."""
        own, other, turn = self._standing.ended, said.ended, self._lacks.get(said.agent)
        if own is None or other is None or turn is None or not self._same_start(own, other):
            return
        dispute = Dispute(self.me, self.number, said.agent)
        if other.sent.get(self.me, -1) >= turn and place_of(dispute) not in map(place_of, self._said.values()):
            self._say(dispute)

    @staticmethod
    def _same_start(own: Ended, other: Ended) -> bool:
        return own.start == other.start

    # what follows

    def _words(self, names: Iterable[str] | None = None) -> Words:
        """HERE and DISPUTE of this number, all or those of some names."""
        said = {name: self._said[name] for name in names or self._said}
        said = {name: one for name, one in said.items() if isinstance(one, Here | Dispute)}
        last = {name: self._known.start_of(here.last) for name, here in said.items() if isinstance(here, Here)}
        return Words(self.rules, said, {name: start for name, start in last.items() if start is not None})

    def _advance(self) -> None:
        """Propose, or go to the next number, if it is time."""
        if self._calm == TURN and (self._later or self._left_out):  # who is left out asks to be let in by that
            self._next()
            return
        proposed = any(isinstance(said, Propose) for said in self._said.values())
        moved = self.live ^ set(self._here.live)
        if not proposed and self._since >= TURN and any(map(self._is_steady, moved)):
            self._flaps.update(moved)
            self._next()
            return
        words = self._words()
        here = words.here
        due = len(here) == len(self.rules.graph) or self._waited >= self.patience.regroup
        anew = words.base is None and self.me not in here  # words of a process that was here before contradict its own
        if due or proposed or anew:
            choice = words.choose(self.me, self.number)
            if not proposed and self._quiet <= TURN + 1 and not words.whole(choice):
                return  # a line may stand at one of its ends by now; nobody's turn has come
            turn = self.me in words.turns(self.number)[: self._turns // TURN + 1]
            self._turns += 1
            own = choice is not None and self.me in choice.members
            if choice is not None and own and turn and due and not self.promise.agreed:
                self._say(choice)
            helps = own or words.mute or self.me not in here  # another number: of this one somebody is left out
            if self.regrouping and self._turns > TURN * len(here) + SLACK and helps:
                self._next()
        if self.regrouping and self._waited >= self.patience.give_up:
            self.gave_up = True

    def _is_steady(self, neighbour: int) -> bool:
        """Whether a line has stood still for ever longer: one that comes and goes keeps nobody from a start."""
        enough = min(TURN * ((1 << self._flaps[neighbour]) - 1), 2 * (TURN * len(self.rules.graph) + SLACK))
        return self._waited - self._moved[neighbour] >= enough

    def _look(self) -> None:
        """Sign a proposal that can be signed, and begin a start that all its members have signed."""
        proposals = {name: said for name, said in self._said.items() if isinstance(said, Propose)}
        foreseen = None if proposals or self.promise.agreed else self._words().foreseen(self.number)
        if foreseen is not None and foreseen.agent == self.me:
            self._say(foreseen)
            return
        for said in (*proposals.values(), *([] if foreseen is None else [foreseen])):
            if self.regrouping and not self.promise.agreed and self._follows(said):
                agree = Agree(self.me, self.number, name_of(written(said)))
                self._promise(agreed=agree.proposal)
                self._calm = 0
                self._say(agree)
        for name, said in proposals.items():
            agreed = self._agreed.get(name_of(written(said)), {})
            if agreed.keys() >= set(said.members):
                self._form(name, said, agreed)
                return

    def _follows(self, said: Propose) -> bool:
        """Whether a proposal is what follows from its words, and no word that is known would change it."""
        if self.me not in said.members or self._own not in said.words or not set(said.words) <= self._said.keys():
            return False
        if self._words(said.words).choose(said.agent, said.number) != said:
            return False
        now = self._words().choose(said.agent, said.number)
        return now is not None and replace(now, words=said.words) == said

    def _form(self, name: str, said: Propose, agreed: Mapping[int, bytes]) -> None:
        certificate = Certificate(self._data[name], tuple(agreed[i] for i in sorted(said.members)))
        if self._known.start_of(certificate) is None or not self.regrouping:
            return
        self._promise(last=certificate)
        if self.me in said.members:
            about = {i: here.about for i, here in self._words(said.words).here.items() if i in said.members}
            self.start, self.regrouping = Start(said, certificate.name, certificate, about), False
            self.asking, self._later = set(), {}
        elif not self.struck_out and not self._left_out:
            self.struck_out = self.me in self._struck()
            self._left_out, self._calm = True, 0

    def _struck(self) -> set[int]:
        return self.rules.struck(self._known.start_of(self.promise.last))

    def _end(self, cause: Any, whom: list[int]) -> None:
        if self.over is None and self.start is not None:
            self.over = Ended(self.start.propose.number, cause, whom=whom)

    def _promise(self, **changes: Any) -> None:
        promise = replace(self.promise, **changes)
        self._keep(promise)
        self.promise = promise

    def _next(self) -> None:
        """Go to the next number, or the highest that others are known to be at."""
        heard = [self._followed(self.rules.read(data)[0]) for _, data in self._later.values()]
        self._say_here(max([self.number + 1, *heard]))

    def _near(self, said: Said) -> int:
        """Highest number to which this agent knows, also by a word itself, that others have come."""
        last = self._known.start_of(said.last) if isinstance(said, Here) else None
        return self.number if last is None else max(self.number, last.number)

    def _followed(self, said: Said) -> int:
        """Number to which this agent follows a word."""
        return min(said.number, self._near(said) + JUMP // 16)

    def _say_here(self, number: int) -> None:
        """Go to a number, on disk first, and say HERE."""
        later, self._later = self._later, {}
        proposals = [said for said in self._said.values() if isinstance(said, Propose)]
        if proposals:
            asked = sorted({i for said in proposals for i in said.members})
            came = sorted(self._agreed.get(self.promise.agreed, ()))  # to what this agent has signed itself
            self._signed = [*self._signed, Signed(self.number, asked, came)]
        self._signed = [one for one in self._signed if one.number >= number - HISTORY]
        self._promise(number=number, agreed="")
        self._clear()
        self._turns = self._since = 0
        ended, lineage, charged, states, about = self._standing
        place = self.me, number, self._nonce(), sorted(self.live), self.promise.last
        more = sorted(states), self.promise.staged, self._signed, dict(about)
        self._here = Here(*place, ended, lineage, charged, *more)
        data = self._as_signed(self._here)
        self._own = name_of(data)
        self._take(self._here, data, self.me)
        for via, data in later.values():
            self._hear(data, via)

    def _say(self, said: Said) -> None:
        self._take(said, self._as_signed(said), self.me)

    def _as_signed(self, said: Word) -> bytes:
        content = written(said)
        return self._sign(self.rules.statement(content)) + content

    def _spread(self, data: bytes, besides: int | None = None) -> None:
        self._out += [(j, data) for j in sorted(self.live) if j != besides]

    def _sent(self) -> list[Sent]:
        sent, self._out = self._out, []
        return sent
