"""The key `measured` of encoding.json: how records are encoded by sums before the first round, as typed values."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from admmnet.privacy.ledger.form import Digest
from admmnet.record.forms import Figure, FileForm, Real, Whole

Stage = Literal["bounds", "shape", "whiten"]


class NumberColumn(FileForm, frozen=True, kw_only=True, tag_field="kind", tag="number"):
    """A column of numbers, 8 features: six hats and a line of its place, and whether it is missing."""

    weight: Real
    """weight of its features"""
    low: Real
    high: Real
    """bounds"""
    shares: list[Figure] = field(default_factory=list)
    """shares of the records below each of 33 edges of equal bins; absent where noise drowned them: a public curve
    then"""


class PlainColumn(FileForm, frozen=True, kw_only=True, tag_field="kind", tag="plain"):
    """Numbers that are features as they stand."""

    width: Whole
    """features"""


class WordsColumn(FileForm, frozen=True, kw_only=True, tag_field="kind", tag="words"):
    """A column of categories, each with a feature."""

    width: Whole
    """features"""
    weight: Real
    """weight of its features"""


class Measured(FileForm, frozen=True, kw_only=True):
    """The key `measured` of encoding.json: what sums before the first round have told, and rows are made by."""

    stages: list[Stage]
    """sums that are over, void ones included"""
    columns: list[NumberColumn | PlainColumn | WordsColumn] | None = None
    """encoding of raw columns, in the order of the features"""
    omega: Real = 1.0
    """weight of columns of numbers against categories"""
    intercept: bool = True
    """whether a constant follows"""
    whitening: Digest | None = None
    """sha256 of whitening.npy"""
    source: Digest | None = None
    """sha256 of the sum behind whitening.npy, whose last bits differ between processors"""
    encoding_from: Digest | None = None
    """sha256 of the measuring run's manifest.json"""
