"""JSON files of a run folder beside summary.json, as typed values."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from admmnet.holder.encoding import Column
from admmnet.privacy.ledger.form import Digest, Round
from admmnet.record.forms import AgentKey, FileForm
from admmnet.types import Real, Whole

Stage = Literal["bounds", "shape", "whiten"]
Signature = Annotated[str, Meta(pattern="^[0-9a-f]{128}$", max_length=128)]


class FileEntry(FileForm, frozen=True, kw_only=True):
    """One file of a manifest."""

    sha256: Digest
    size: Whole


class Manifest(FileForm, frozen=True, kw_only=True):
    """manifest.json: size and sha256 of every file of a finished run folder."""

    schema: Literal[3]
    files: dict[str, FileEntry]


class PartFile(FileForm, frozen=True, kw_only=True):
    """part.json: the folder holds the ledger of one agent alone."""

    agent: Whole
    agents: Annotated[int, Meta(ge=1)]


class Beginning(FileForm, frozen=True, kw_only=True):
    """One start of a run, in receipts/identities.json."""

    run: Digest
    round: Round
    source: Literal["network", "run"]
    keepers: list[Whole]
    keys: dict[AgentKey, Digest]
    since: Round | None = None
    """Rounds of the checkpoint from which a start with another first round went on."""


class Identities(FileForm, frozen=True, kw_only=True):
    """receipts/identities.json: the starts of a run, who keeps receipts, and keys."""

    starts: list[Beginning]


class Finish(FileForm, frozen=True, kw_only=True):
    """finish.json: the end of a run whose agents have folders of their own, and who had its files on disk by then."""

    run: Digest
    """Name of the run: of its first start."""
    network: str
    """Digest of the network file."""
    digest: Digest
    staged: dict[AgentKey, Signature]
    """Their signatures of the end."""


class Measured(FileForm, frozen=True, kw_only=True):
    """The key `measured` of encoding.json: what sums before the first round have told, and rows are made by."""

    stages: list[Stage]
    """sums that are over, void ones included"""
    columns: list[Column] | None = None
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
