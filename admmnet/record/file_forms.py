"""JSON files of a run folder beside summary.json, as typed values."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from admmnet.holder.encoding import Column
from admmnet.privacy.ledger.form import Digest
from admmnet.record.forms import AgentKey, FileForm
from admmnet.transport.zmq.wire import Head, Round
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


class Keys(FileForm, frozen=True, kw_only=True):
    """First line of receipts/words.jsonl: the run, and the key by which each agent signs its words."""

    run: Digest
    """Name of the run: of its first start."""
    keys: dict[AgentKey, Digest]

    @property
    def by_agent(self) -> dict[int, str]:
        """Keys by the agents' numbers."""
        return {int(i): key for i, key in self.keys.items()}


class HeardWord(FileForm, frozen=True, kw_only=True):
    """A line of receipts/words.jsonl: a word that the folder's agent has heard of another one."""

    start: Digest
    """Name of the start in which it was said."""
    agent: Whole
    to: Annotated[int, Meta(ge=-1, le=2**31)]
    """The neighbour to which it was said with a part, or all (-1)."""
    turn: Whole
    round: Round
    """Highest round that its agent had been charged for; -5 of none."""
    lines: Whole
    """Lines of its agent's ledger; 0 in seeded runs."""
    head: Head
    """sha256 of the last one."""
    said: Digest
    """Digest of what was said."""
    signature: Signature


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
