"""What a run folder says of a run, for its page; or what does not hold in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.files import load_toml
from admmnet.privacy.ledger import audit
from admmnet.record.folder import SUMMARY, sha256
from admmnet.record.forms import AgentEntry
from admmnet.record.reader import look_at
from admmnet.record.values import at
from admmnet.record.verdict import Verdict, verdict_of
from admmnet.report.series import RunSeries, curves, joining


@dataclass(frozen=True)
class AgentFacts:
    """An agent: figures of its ledger, whose file and digest are named, and what summary.json adds.

    ``listed`` says whether summary.json has the digest. ``promised`` is what the filter lets through at most,
    ``unmasked`` holds without masks. None where there is no such figure.
    """

    agent: int
    account: audit.VerifiedLedger
    file: str
    digest: str
    listed: bool
    records: int
    degree: int
    events: int
    target: float | None
    delta: float | None
    promised: float | None
    spent: float | None
    unmasked: float | None
    published: float | None
    releases: int | None
    account_spent: float | None
    test_error: float | None
    refused_at: int | None
    lost_at: int | None
    part: str | None


@dataclass(frozen=True)
class RunFacts:
    """A run folder that verifies; ``name`` is the folder's, ``settings`` the tables of config.toml."""

    name: str
    series: RunSeries
    settings: Mapping[str, Mapping[str, Any]]
    agents: tuple[AgentFacts, ...]
    summary_digest: str | None
    verdict: Verdict

    def said(self, *keys: str) -> Any:
        """Value of summary.json below these keys, None where it is not there."""
        return at(self.series.summary, *keys)

    @property
    def header(self) -> Mapping[str, Any]:
        """First line of the first ledger."""
        return self.series.header

    @property
    def finished(self) -> bool:
        """Whether there is a summary."""
        return self.series.summary is not None


@dataclass(frozen=True)
class Broken:
    """A run folder that does not verify: nothing else is said of it than what does not hold, with the file."""

    name: str
    path: Path
    faults: tuple[str, ...]


def read_facts(path: Path, name: str) -> RunFacts | Broken:
    """Read a run folder and verify it; RequestError if it is none."""
    run = look_at(path)
    if run.faults:
        return Broken(name, path, run.faults)
    summary, settings = run.summary, path / "config.toml"
    entries = {} if summary is None else {entry.agent: entry for entry in summary.per_agent}
    listed = {} if summary is None else summary.ledgers
    parts = joining(entries.values())
    agents = tuple(
        _agent(account, entries.get(account.header["agent"]), parts, file, run.digests[file], file in listed)
        for file, account in run.ledgers.items()
    )
    try:
        tables = load_toml(settings.read_bytes())
    except (OSError, ValueError) as error:
        raise RequestError(f"{settings} cannot be read as TOML ({error}): take the original run folder") from None
    digest = None if summary is None else sha256(path / SUMMARY)
    return RunFacts(name, curves(run), tables, agents, digest, verdict_of(run))


def _agent(
    account: audit.VerifiedLedger,
    entry: AgentEntry | None,
    parts: Mapping[int, str],
    file: str,
    digest: str,
    listed: bool,
) -> AgentFacts:
    header, contract, total = account.header, account.contract, account.total()
    most = contract.most() if contract.promise is not None and contract.covered else None
    return AgentFacts(
        agent=header["agent"],
        account=account,
        file=file,
        digest=digest,
        listed=listed,
        records=header["records"],
        degree=len(header["neighbours"]),
        events=account.count,
        target=header["budget"]["epsilon"],
        delta=account.delta,
        promised=None if most is None else most.epsilon,
        spent=total["epsilon_spent"],
        unmasked=total.get("epsilon_if_all_collude"),
        published=total["epsilon_published"],
        releases=at(entry, "releases"),
        account_spent=at(entry, "account_epsilon_spent"),
        test_error=at(entry, "test_error"),
        refused_at=at(entry, "refused_at"),
        lost_at=at(entry, "lost_at"),
        part=parts.get(header["agent"]),
    )
