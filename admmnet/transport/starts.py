"""Starts of a run: what agents sign as they form the next one, and the start that follows from it (docs/protocol.md).

Pure: words in, a start out. Everybody who knows the same words of a number finds the same start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from admmnet.errors import CheckFailed
from admmnet.graph.simple import Graph
from admmnet.identity.keys import SIGNATURE, statement

Whole = Annotated[int, Meta(ge=0, lt=2**53)]
Agent = Whole
Edge = tuple[Agent, Agent]
"""Of a pair of neighbours the lower first; an agent itself is a pair with itself."""
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
HISTORY = 4
"""Numbers of which an agent remembers whose AGREE has come, and words STAGED of an agent that are kept."""
KNOWN = 1000
"""Certificates of which it is remembered whether they hold."""


class Word(Struct, frozen=True, forbid_unknown_fields=True, tag_field="word"):
    """What an agent says of a number; the number names the start that is being formed."""

    agent: Agent
    number: Whole


class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """A start that was formed: its PROPOSE and the AGREE of every member, as signed."""

    propose: bytes
    agrees: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """64 hexadecimal digits, which nobody can have known before, whatever signatures its members have made."""
        return hashlib.sha256(statement("start", self.propose[SIGNATURE:])).hexdigest()


class Ended(Struct, frozen=True, forbid_unknown_fields=True):
    """How a start ended at one of its members; turns are numbers of what is sent, in the order in which it is sent."""

    start: Whole
    cause: Literal["heard", "late", "down", "failed", "anew", "returned", "forged"] = "heard"
    """That others ended it; a turn that did not come; a line that is cut; its own fault; its process is new; an agent
    from outside that asked; what a neighbour sent."""
    sent: dict[Agent, Whole] = {}
    """Last turn that it has sent, by neighbour."""
    lacks: dict[Agent, Whole] = {}
    """Turn that it waited for, by neighbour."""
    late: list[Agent] = []
    """Neighbours whose turn it has lacked for half a deadline."""
    whom: list[Agent] = []
    """Of a line, a frame or a return: at which neighbours, or who asked."""
    busy: bool = False
    """Whether it has owed a turn for half a deadline, and lacked nothing."""


class Signed(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a number before: who was asked for AGREE, and whose came."""

    number: Whole
    asked: list[Agent]
    came: list[Agent]


class Here(Word, frozen=True, forbid_unknown_fields=True, tag="here"):
    """HERE: the signer takes no part in any start below this number, and may take part in this one."""

    nonce: str
    live: list[Agent] = []
    """Neighbours to which its line stands."""
    last: Certificate | None = None
    """Highest start that it knows."""
    ended: Ended | None = None
    lineage: Whole = 0
    """Last start with planned rounds of its own that it has begun."""
    charged: Annotated[int, Meta(ge=-4, lt=2**31)] = -1
    """Last round that its ledger has a charge of."""
    states: list[Annotated[int, Meta(ge=-4, lt=2**31)]] = []
    """Rounds, of this lineage, from which it can replay."""
    staged: tuple[Whole, Digest] | None = None
    """Start and digest of the end whose files it has on its disk."""
    signed: Annotated[list[Signed], Meta(max_length=HISTORY)] = []
    about: dict[str, Any] = {}
    """Public facts on which a start is planned."""


class Dispute(Word, frozen=True, forbid_unknown_fields=True, tag="dispute"):
    """DISPUTE: a neighbour says that it has sent a turn of the last start, and the signer has not got it."""

    with_: Agent = msgspec.field(name="with")


class Propose(Word, frozen=True, forbid_unknown_fields=True, tag="propose"):
    """PROPOSE: a start, and the words from which it follows."""

    words: list[Digest]
    members: list[Agent]
    edges: list[Edge]
    rule: Literal["finish", "replay", "go on"]
    round: Annotated[int, Meta(ge=-4, lt=2**31)]
    """First round, or of a replay the rounds of the state from which it goes."""
    lineage: Whole
    digest: str = ""
    """Of the end that a rule "finish" takes over."""
    strikes: list[tuple[Agent, Agent, Whole]] = []
    """Of edges, and of agents as pairs with themselves."""


class Agree(Word, frozen=True, forbid_unknown_fields=True, tag="agree"):
    """AGREE: the signer begins this start if all its members sign it."""

    proposal: Digest
    """Of PROPOSE without its signature: whoever knows the words can foresee it."""


class Staged(Word, frozen=True, forbid_unknown_fields=True, tag="staged"):
    """STAGED: the signer has the files of an end on its disk; of the start with this number."""

    digest: Digest


Said = Here | Dispute | Propose | Agree | Staged
_DECODER = msgspec.json.Decoder(Said)


class Rules(NamedTuple):
    """What is the same at all agents of a network."""

    graph: Graph
    quorum: int
    """Fewest members of a start."""
    strikes: int
    """Strikes at which an edge or a member is out."""
    scope: bytes
    """Digest of network file, settings and run, which all signatures cover."""
    genesis: Propose | None = None
    """Start number 0, which all have begun; None where none has been formed yet."""

    def statement(self, said: bytes) -> bytes:
        """What is signed of a word."""
        return signed_for(self.scope, said)

    def struck(self, last: Propose | None) -> set[int]:
        """Agents that are out by the strikes that a start has noted."""
        return (
            {i for i, j, count in last.strikes if i == j and count >= self.strikes > 0} if last is not None else set()
        )

    def read(self, data: bytes) -> tuple[Said, bytes]:
        """Return a word and its signature, which nobody has verified; CheckFailed if the bytes are none."""
        try:
            found: Said = _DECODER.decode(data[SIGNATURE:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CheckFailed("an agent's word of a start has another form than such words") from None
        if written(found) != data[SIGNATURE:]:
            raise CheckFailed("an agent's word of a start is spelt in another way than such words")
        if found.agent >= len(self.graph):
            raise CheckFailed(f"there is no agent {found.agent}")
        if isinstance(found, Dispute) and not self.graph.has_edge(found.agent, found.with_):
            raise CheckFailed(f"agent {found.agent} disputes an edge to agent {found.with_}, which there is not")
        return found, data[:SIGNATURE]


def scope_of(network: str, run: str) -> bytes:
    """What signatures of a run cover, of its name, and of a network file with this digest."""
    return statement("scope", network, run)


def signed_for(scope: bytes, said: bytes) -> bytes:
    """What is signed of a word."""
    return statement("start", scope, said)


def written(said: Word) -> bytes:
    """Bytes of a word, without its signature."""
    return msgspec.json.encode(said)


def name_of(data: bytes) -> str:
    """sha256 of a word as signed, or as ``written``."""
    return hashlib.sha256(data).hexdigest()


def place_of(said: Said) -> tuple[object, ...]:
    """Whose word of what it is: an honest agent says no two of one place."""
    return type(said), said.number, said.agent, said.with_ if isinstance(said, Dispute) else None


class Promise(Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent has on its disk before it says anything that follows from it."""

    number: int = 0
    """It takes part in no start below."""
    agreed: str = ""
    """PROPOSE of this number that it has signed."""
    staged: tuple[int, str] | None = None
    """Start and digest of the end whose files it has."""
    last: Certificate | None = None
    """Highest start that it knows."""


class Standing(NamedTuple):
    """What an agent brings into the next start, as ``Here`` has it."""

    ended: Ended | None = None
    lineage: int = 0
    charged: int = -1
    states: tuple[int, ...] = ()
    about: Mapping[str, Any] = {}


class Patience(NamedTuple):
    """Pulses to wait."""

    regroup: int
    """For agents that are away, before a start without them is proposed."""
    give_up: int
    """For any start."""


class Start(Struct, frozen=True):
    """A start that all its members have signed."""

    propose: Propose
    name: str
    """64 hexadecimal digits, which nobody can have known before."""
    certificate: Certificate
    about: Mapping[int, Mapping[str, Any]]
    """What its members have said of themselves."""


class Certificates:
    """Certificates that were checked: ``genuine`` says whether an agent has signed a statement."""

    def __init__(self, rules: Rules, genuine: Callable[[int, bytes, bytes], bool]) -> None:
        self._rules, self._genuine = rules, genuine
        self._known: dict[Certificate | None, Propose | None] = {None: rules.genesis}

    def start_of(self, certificate: Certificate | None) -> Propose | None:
        """Start of a certificate; None of none, and of one that its members have not signed."""
        if len(self._known) > KNOWN:
            self._known = {None: self._rules.genesis}
        if certificate is not None and certificate not in self._known:
            try:
                self._known[certificate] = self._checked(certificate)
            except CheckFailed:
                self._known[certificate] = None
        return self._known[certificate]

    def _checked(self, certificate: Certificate) -> Propose | None:
        if len(certificate.agrees) > len(self._rules.graph):
            return None
        read = [(data, *self._rules.read(data)) for data in (certificate.propose, *certificate.agrees)]
        if not all(self._genuine(said.agent, sig, self._rules.statement(data[len(sig) :])) for data, said, sig in read):
            return None
        propose = read[0][1]
        if not isinstance(propose, Propose) or len(set(propose.members)) < self._rules.quorum:
            return None
        name = name_of(written(propose))
        right = {said.agent for _, said, _ in read[1:] if said == Agree(said.agent, propose.number, name)}
        return propose if right == set(propose.members) else None
