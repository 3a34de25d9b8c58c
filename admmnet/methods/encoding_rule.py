"""Whether records are measured before the first round, from public facts alone: docs/methods.md, (117) to (119)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from msgspec import Struct, structs

from admmnet.errors import RequestError, counted
from admmnet.holder.encoding import Encoding, Number, Words
from admmnet.methods.base import Facts
from admmnet.methods.encoding import EVEN, BoundsStage, ShapeStage, Stage, WhitenStage, numbers_of
from admmnet.methods.settings import MethodSettings
from admmnet.methods.sums import total_variance
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Target
from admmnet.settings import Auto
from admmnet.types import Matrix

WIDEST = 2048
"""Largest d whose second moments are asked for."""
WIDEST_ENCODED = 1499
"""And of rows that come encoded, which may be sparse from 1,500 on."""
TRIED = ("noisy-gd", "pp-admm", "ipp-admm", "dp-dsgd")
"""Methods for two classes with which both were measured, and which ``auto`` is for."""


class Taken(NamedTuple):
    """What a finished run has released of how rows are made, for a run that takes it over."""

    name: str
    """Of that run."""
    digest: str
    """sha256 of its manifest."""
    encoding: Encoding | None
    """Of raw records; None where they come encoded."""
    whitening: Matrix | None
    """A, shape (d, d)."""
    source: str
    """sha256 of the total that A was made from."""


class Wish(NamedTuple):
    """What the settings say of encodings."""

    encode: str = "declared"
    """``auto``, ``declared``, ``private``, or another word where something is taken over."""
    whiten: str = "off"
    """``auto``, ``on``, ``off``."""
    encode_share: float | Auto = "auto"
    whiten_share: float | Auto = "auto"
    """Shares of mu^2."""


class Prologue(Struct, frozen=True):
    """Sums before the first round, in their order, and what raw records are encoded by where they tell nothing."""

    stages: tuple[Stage, ...] = ()
    encoding: Encoding | None = None
    notes: tuple[str, ...] = ()
    """What is measured, at which share of the budget, or why not."""
    taken: Taken | None = None
    """What is taken over from another run."""

    @property
    def share(self) -> float:
        """Of every agent's nominal budget."""
        return sum(stage.share for stage in self.stages)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def released(self) -> bool:
        """Whether rows are made by noisy sums: those of this run, or of the one from which they are taken over."""
        return bool(self.stages) or self.taken is not None

    def before(self, agent: int, target: Target) -> Charges:
        """What the stages charge an agent."""
        return tuple(charge for stage in self.stages for charge in stage.plan(agent, target).charges)

    def rest(self, facts: Facts) -> Facts:
        """Facts for the method: what the stages leave of every nominal budget."""
        left = {agent: rho * (1.0 - self.share) for agent, rho in facts.nominal.items()}
        return replace(facts, nominal=left) if self.stages else facts


def prologue_of(
    settings: MethodSettings, facts: Facts, raw: Encoding | None, wish: Wish, taken: Taken | None = None
) -> Prologue:
    """Decide which stages a run has.

    Parameters
    ----------
    raw : Encoding or None
        Encoding of raw records of which nothing is known; None where they come encoded.
    taken : Taken or None
        What is taken over in place of sums.

    Raises
    ------
    RequestError
        If stages are asked for where there can be none.
    """
    able = bool(facts.nominal) and settings.method == "proven"
    asks = {"encode": wish.encode == "private" or taken is not None, "whiten": wish.whiten == "on"}
    for name, asked in asks.items():
        if asked and not able:
            raise RequestError(
                f"{name} = {getattr(wish, name)!r} does not go with algorithm = {settings.algorithm!r} and method = "
                f"{settings.method!r}: it needs the proven form of a method of a network; leave it out"
            )
    if wish.encode == "private" and raw is None:
        raise RequestError("encode = 'private' needs raw records, and these come encoded: take encode = 'declared'")
    if taken is not None:
        return _taken_over(settings, facts, wish, taken)
    if not able or (raw is None and wish.whiten == "off"):
        return Prologue(encoding=raw)
    m = signal(facts, settings.colluders if settings.trust == "masked" else None)
    columns = 0 if raw is None else sum(isinstance(column, Number) for column in raw.columns)
    measured = bool(columns) and (wish.encode == "private" or encoding_helps(columns, m))
    tried = settings.algorithm in TRIED and facts.task == "binary"
    share, word = _whitening(facts.width, m, wish, private=measured, tried=tried, quiet=raw is None)
    whiten = (WhitenStage(settings, facts, share),) if share else ()
    if wish.whiten == "auto" and not all(stage.fits for stage in whiten):
        share, whiten, word = 0.0, (), f"whitening: no, {_UNFIT.format(facts.records)}"
    if raw is not None and not share:
        raw = replace(raw, omega=omega(raw))
    encode, said = _encoding(settings, facts, raw, wish, m, measured=measured) if raw and columns else ((), "")
    stages: tuple[Stage, ...] = (*encode, *whiten)
    if (cost := sum(stage.share for stage in stages)) > MOST_SHARE:
        raise RequestError(
            f"encode_share and whiten_share take {cost:.3g} of the budget: lower them to {MOST_SHARE} together, so "
            "that the method has some"
        )
    return Prologue(stages, raw, tuple(filter(None, (said, word))))


def _taken_over(settings: MethodSettings, facts: Facts, wish: Wish, taken: Taken) -> Prologue:
    """Nothing is asked but second moments, where they are wished for and the other run has none."""
    if wish.whiten == "off":
        taken = taken._replace(whitening=None, source="")
    share, word, encoding = 0.0, "", taken.encoding
    if wish.whiten == "on" and taken.whitening is None:
        m = signal(facts, settings.colluders if settings.trust == "masked" else None)
        share, word = _whitening(facts.width, m, wish, private=encoding is not None, tried=True)
    if encoding is not None:
        encoding = replace(encoding, omega=1.0 if share or taken.whitening is not None else omega(encoding))
    over = " and ".join(
        name for name, part in (("encoding", encoding), ("whitening", taken.whitening)) if part is not None
    )
    stages = (WhitenStage(settings, facts, share),) if share else ()
    said = f"{over}: taken over from {taken.name}, which has measured and paid for it; nothing more is charged"
    return Prologue(stages, encoding, tuple(filter(None, (said if over else "", word))), taken)


MOST_SHARE = 0.9
"""Largest share of the budget for all stages."""
_DROWNED = (
    "encoding: nothing is measured, as noise would drown {found} of numbers (m is {m:.4g}, and sqrt(20 p)/m is "
    "{noise:.3g}, above 0.08): {rest}"
)


_UNFIT = "as sums over {:,} records do not fit 64 bits"


def _paid(share: float, m: float) -> str:
    return f"{100.0 * share:.3g} % of the budget (m = {m:.4g}: records over noise)"


def _encoding(
    settings: MethodSettings, facts: Facts, raw: Encoding, wish: Wish, m: float, *, measured: bool
) -> tuple[tuple[Stage, ...], str]:
    """Stages that measure columns of numbers, and the words for them; none where they are not ``measured``, or fit."""
    bounds = len(numbers_of(raw, bounded=False))
    columns = len(numbers_of(raw, bounded=True)) + bounds
    found = counted(columns, "column")
    if not measured:
        rest = "columns with bounds keep them, others are put on a public curve; raise epsilon, find more records, or"
        rest = f"{rest} declare bounds" if bounds else "they keep their bounds"
        return (), _DROWNED.format(found=found, m=m, noise=math.sqrt(20.0 * columns) / m, rest=rest)
    share = 0.5 * (encoding_share(columns, m) if wish.encode_share == "auto" else float(wish.encode_share))
    even = (structs.replace(c, shares=EVEN) if isinstance(c, Number) else c for c in raw.columns)
    shape = ShapeStage(settings, facts, share, replace(raw, columns=tuple(even)), raw)
    stages = (BoundsStage(settings, facts, share, raw, raw), shape) if bounds else (shape,)
    if wish.encode != "private" and not all(stage.fits for stage in stages):
        return (), f"encoding: nothing is measured, {_UNFIT.format(facts.records)}"
    found = f"the shape of {found} of numbers"
    found = f"bounds of {bounds} and {found} are" if bounds else f"{found} is"
    return stages, f"encoding: {found} measured, {_paid(share * len(stages), m)}"


def _whitening(
    width: int, m: float, wish: Wish, *, private: bool, tried: bool, quiet: bool = False
) -> tuple[float, str]:
    """Share of the stage that whitens, 0 without, and the words for it; none, if quiet, where it would not help."""
    share = 0.05 if wish.whiten_share == "auto" else float(wish.whiten_share)
    if wish.whiten == "off" or (wish.whiten == "auto" and not tried):
        return 0.0, ""
    if quiet and wish.whiten == "auto" and not (width <= WIDEST_ENCODED and whitening_helps(width, m, private=False)):
        return 0.0, ""
    if width > WIDEST:
        if wish.whiten == "on":
            raise RequestError(f"whiten = 'on' needs d <= {WIDEST}, and these rows have d = {width}: leave it out")
        return 0.0, f"whitening: no, as d = {width} is above {WIDEST}"
    if wish.whiten == "auto" and not whitening_helps(width, m, private=private):
        noise, limit = math.sqrt(20.0) * width**1.5 / m, _most_noise(private=private)
        return 0.0, (
            f"whitening: no, noise would drown second moments of d = {width} features: m is {m:.4g} (at least 550), "
            f"sqrt(20) d^1.5/m is {noise:.3g} (at most {limit})"
        )
    return share, f"whitening: second moments of d = {width} features are measured, {_paid(share, m)}"


def signal(facts: Facts, colluders: int | None) -> float:
    """Records over the noise of a sum of sensitivity 1 and all of the budget, m of eq. (117)."""
    return facts.records / math.sqrt(total_variance(facts, facts.nominal, colluders))


def encoding_share(columns: int, m: float) -> float:
    """Share of mu^2 for bounds and shape together, eq. (118): at most .2, else noise of a count of .45 % of all."""
    return min(0.2, max(0.05, 4.0 * columns / (0.0045 * m) ** 2))


def encoding_helps(columns: int, m: float) -> bool:
    """Whether counts of so many columns say enough, eq. (118)."""
    return math.sqrt(20.0 * columns) / m <= 0.08


def whitening_helps(width: int, m: float, *, private: bool) -> bool:
    """Whether second moments of rows of width d say enough, eq. (119), under a private encoding or a declared one."""
    return m >= 550.0 and math.sqrt(20.0) * width**1.5 / m <= _most_noise(private=private)


def _most_noise(*, private: bool) -> int:
    return 12 if private else 4


def omega(encoding: Encoding) -> float:
    """Weight of columns of numbers where rows are not whitened: counters must not drown the words."""
    words = sum(isinstance(column, Words) for column in encoding.columns)
    numbers = sum(isinstance(column, Number) for column in encoding.columns)
    return math.sqrt(min(1.0, max(4.0, words) / numbers)) if words and numbers else 1.0
