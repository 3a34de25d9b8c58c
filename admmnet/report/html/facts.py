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
    """An agent: its ledger, whose file and digest are named, and its entry and its part in a gate by summary.json.

    ``listed`` says whether summary.json has the digest.
    """

    account: audit.VerifiedLedger
    entry: AgentEntry | None
    file: str
    digest: str
    listed: bool
    part: str | None

    @property
    def agent(self) -> int:
        """Its number."""
        return int(self.account.header["agent"])

    @property
    def records(self) -> int:
        """How many it holds."""
        return int(self.account.header["records"])

    def figures(self) -> dict[str, Any]:
        """Figures by their names, None where there is none.

        ``promised`` is what the filter lets through at most; ``unmasked`` holds without masks.
        """
        header, contract, total = self.account.header, self.account.contract, self.account.total()
        most = contract.most() if contract.promise is not None and contract.covered else None
        return {
            "agent": self.agent,
            "records": self.records,
            "degree": len(header["neighbours"]),
            "releases": at(self.entry, "releases"),
            "events": self.account.count,
            "target": header["budget"]["epsilon"],
            "promised": None if most is None else most.epsilon,
            "spent": total["epsilon_spent"],
            "unmasked": total.get("epsilon_if_all_collude"),
            "published": total["epsilon_published"],
            "account_spent": at(self.entry, "account_epsilon_spent"),
            "test_error": at(self.entry, "test_error"),
        }


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
    agents = []
    for file, account in run.ledgers.items():
        agent = account.header["agent"]
        own = entries.get(agent), file, run.digests[file], file in listed, parts.get(agent)
        agents.append(AgentFacts(account, *own))
    try:
        tables = load_toml(settings.read_bytes())
    except (OSError, ValueError) as error:
        raise RequestError(f"{settings} cannot be read as TOML ({error}): take the original run folder") from None
    digest = None if summary is None else sha256(path / SUMMARY)
    return RunFacts(name, curves(run), tables, tuple(agents), digest, verdict_of(run))
