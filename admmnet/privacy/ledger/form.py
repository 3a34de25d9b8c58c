"""The lines of a ledger: the keys of each kind, and how they are made of a contract and of charges (docs/ledger.md).

Tables of keys in docs/ledger.md are made of the types below.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from admmnet.errors import CheckFailed
from admmnet.forms import encode
from admmnet.privacy import proven, published
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import EARLIEST, STAGES, Contract, Filter, Promise
from admmnet.privacy.events import Booked, Event, Natural, Number, Positive, parameters

Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]  # `$` would let a newline in
Form: TypeAlias = Literal["proven", "published"]
Round: TypeAlias = Annotated[int, Meta(ge=EARLIEST, le=2**53)]
NO_DIGEST = "0" * 64
"""Stands where the digest of the line before will: agents with equal charges share the rest of a line."""


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """What was promised before the first round; both `null` without privacy."""

    epsilon: Positive | None
    delta: Annotated[float, Meta(gt=0.0, lt=1.0)] | None
    """as asked for"""


class Total(Struct, frozen=True, forbid_unknown_fields=True):
    """Sums over this line and all before it; infinite or undefined is `null`."""

    rho: Booked | None
    xi: Booked | None
    """proven costs"""
    epsilon_spent: Booked | None
    """proven epsilon at the budget's delta; the number of steps on sampled batches is rounded up to four bits"""
    epsilon_published: Booked | None
    """by the paper: (P3) of the sum of `rho_published`, of sampled batches (P13)"""
    epsilon_if_all_collude: Booked | UnsetType | None = UNSET
    """of masked sums: the same where more than `colluders` others collude, Theorem 23 (B)"""


class _Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    pass


class HeaderLine(_Line, frozen=True, kw_only=True, tag="header"):
    """First line: who, under which promise and which relation."""

    schema: Literal[4]
    """version of this form"""
    agent: Number
    neighbours: tuple[Number, ...]
    """its number, and agents that hear it"""
    records: Natural
    """n_i, training records; public"""
    adjacency: Literal["replace-one", "zero-out"]
    """neighbouring relation of every figure"""
    unit: Literal["record"]
    """unit of protection; not a person with several rows"""
    budget: Budget
    """`epsilon` and `delta` of the guarantee; `null` without privacy"""
    delta_clipping: Positive | None = None
    """most that scaling back unlikely noise adds to delta (V10)"""
    accountant: Form
    """arithmetic that calibrates and guards"""
    filter: Filter | None = None
    """the most that the run may charge, below"""
    account_filter: Filter | None = None
    """the same of all runs of the account, fixed by its first"""
    group_size: Annotated[int, Meta(ge=2, le=2**53)] | None = None
    """K of `--group-size`, if not 1"""
    method: Form
    """form of the method"""
    covered: bool | None = None
    """`false` where the method reads records beyond its proof: nothing is proven"""
    algorithm: str
    """name of the method"""
    loss: str | None = None
    """loss from outside, as it was asked for"""
    weight: Positive | None = None
    """w_i of (60), if not 1"""
    trust: Literal["masked"] | None = None
    """`masked`: sums are"""
    colluders: Number | None = None
    """K, other agents that may collude for `total.epsilon_spent` to hold; the same in every event"""
    mode: Literal["simulation", "private"]
    """whether figures of the records may show"""
    noise: Literal["private", "seeded"]
    """`private`: keyed by the operating system; `seeded`: anyone with the seed can make it again"""
    preprocessing: str
    """`public-bounds`, `private` (measured by noisy sums), or `data-dependent` (anything else read from rows)"""
    stages: tuple[Literal["bounds", "shape", "whiten"], ...] = ()
    """sums before round 0, in rounds -3, -2 and -1"""
    encoding_from: Digest | None = None
    """with `--encode from:RUN`: sha256 of RUN's manifest.json, where the measuring is charged"""
    shards: Literal["fixed"]
    """shards are public and do not change"""
    admmnet: str
    """version that wrote the file"""
    account: Digest | None = None
    """sha256 of the account's last line before this run; of a new account, of nothing (`e3b0c442...`)"""


class RunLine(HeaderLine, frozen=True, kw_only=True, tag="run"):
    """In an account alone: beginning of a further run, with the keys of its header."""

    previous: Digest
    """sha256 of the bytes of the line before, without its newline"""


class EventLine(_Line, frozen=True, kw_only=True, tag="event"):
    """What was released, and what that costs."""

    round: Number | UnsetType = UNSET
    stage: Literal["bounds", "shape", "whiten"] | UnsetType = UNSET
    """where it was charged: in a round, from 0, or in a stage of the header's"""
    mechanism: str
    parameters: dict[str, float | int | bool | str]
    """[kind of release](#mechanisms), and the numbers that its cost depends on"""
    rho: Booked | None
    xi: Booked | None
    """proven cost: (xi, rho)-zCDP, (P1); `xi` is 0 today"""
    rho_published: Booked | None
    """cost by the paper's arithmetic; `null` where it has none, and for proven methods"""
    total: Total
    """sums up to this event, below"""
    previous: Digest
    """sha256 of the bytes of the line before, without its newline"""

    @property
    def at(self) -> int:
        """Round of its charge, of a stage as in ``STAGES``; CheckFailed unless it says one of both."""
        if isinstance(self.round, int) and self.stage is UNSET:
            return self.round
        if self.round is not UNSET or isinstance(self.stage, UnsetType):
            raise CheckFailed("an event has either a round or a stage")
        return STAGES[self.stage]


class EndLine(_Line, frozen=True, kw_only=True, tag="end"):
    """Last line of a finished run."""

    events: Number
    """number of event lines"""
    total: Total
    """the last totals"""
    account: Digest | None = None
    """sha256 of the account's last line when the run ended"""
    previous: Digest
    """as of an event"""


class StartLine(_Line, frozen=True, kw_only=True, tag="start"):
    """Where other agents take part, and noise for the rounds that are left was planned anew."""

    round: Number
    """first round of the start"""
    neighbours: tuple[Number, ...]
    """agents that hear it"""
    weight: Positive | None = None
    """w_i, as of the header"""
    previous: Digest
    """as of an event"""


class RestoredLine(_Line, frozen=True, tag="restored"):
    """In an account alone: a run's folder was an older copy, and charges of it may be missing here, too."""

    epsilon: Positive
    """all that `account_filter` lets through up to it counts as spent"""
    total: Total
    """as of an event"""
    previous: Digest
    """sha256 of the bytes of the line before, without its newline"""


Line = HeaderLine | RunLine | StartLine | EventLine | EndLine | RestoredLine


class Header(NamedTuple):
    """First line of a ledger, and the contract that it states, under which it charges."""

    line: HeaderLine
    contract: Contract

    @classmethod
    def of(cls, contract: Contract, **own: Any) -> Header:
        """Header of a contract; keys that do not follow from that are as of the line."""
        keys: dict[str, Any] = {"schema": 4, "unit": "record", "shards": "fixed"} | stated(contract) | own
        return cls(HeaderLine(**keys), contract)


def stated(contract: Contract) -> dict[str, Any]:
    """Keys of a header that say what its contract is."""
    promise = contract.promise or Promise(math.nan, math.nan, contract.form)
    return {
        "adjacency": contract.adjacency,
        "budget": Budget(None, None)
        if contract.promise is None
        else Budget(float(promise.epsilon), float(promise.delta)),
        "delta_clipping": contract.delta_clipping,
        "accountant": promise.accountant,
        "filter": contract.filter,
        "account_filter": contract.account,
        "group_size": promise.group if promise.group > 1 else None,
        "method": contract.form,
        "covered": None if contract.covered else False,
        "trust": None if promise.colluders is None else "masked",
        "colluders": promise.colluders,
    }


def finite(value: float | None) -> float | None:
    """Return the value, or None where it is infinite or undefined: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


@lru_cache(maxsize=SHARED)
def total_line(totals: Totals, contract: Contract) -> Total:
    """Totals as every ledger line states them."""
    unmasked, promise = contract.spent(totals, alone=True), contract.promise
    return Total(
        rho=finite(totals.rho),
        xi=0.0,
        epsilon_spent=finite(contract.spent(totals)),
        epsilon_published=None if promise is None else finite(totals.epsilon_published(promise.delta)),
        epsilon_if_all_collude=UNSET if unmasked is None else finite(unmasked),
    )


@lru_cache(maxsize=SHARED)
def event_start(round: int, event: Event, totals: Totals, contract: Contract) -> bytes:
    """Line of an event before the digest in it; ``totals`` already include the event."""
    stage: Any = UNSET if round >= 0 else next(name for name, own in STAGES.items() if own == round)
    line = EventLine(
        round=round if round >= 0 else UNSET,
        stage=stage,
        mechanism=event.mechanism,
        parameters=parameters(event),
        rho=finite(proven.cost(event).rho),
        xi=0.0,
        rho_published=finite(published.rho(event)) if totals.method == "published" else None,
        total=total_line(totals, contract),
        previous=NO_DIGEST,
    )
    return encode(line)[: -len(NO_DIGEST) - 2]


def with_digest(start: bytes, previous: str) -> bytes:
    """Line of an event, from ``event_start`` and the digest of the line before."""
    return b'%b%b"}' % (start, previous.encode())
