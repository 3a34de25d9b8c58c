"""What a run folder says of a run, and whether its ledgers bear it out: the figures of the report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import load_json, load_toml
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.segments import content, is_segment, strands
from admmnet.record import folder as records
from admmnet.record.agree import contradictions, entries_of
from admmnet.record.reader import manifest_fault
from admmnet.record.shelf import ledger_files
from admmnet.record.values import at, last_total, real, whole
from admmnet.report.series import Series, joining, read_series


@dataclass(frozen=True)
class Book:
    """One ledger file: what is in it, or the fault of one that does not verify.

    ``name`` is as ``ledger/agent-000.jsonl``, ``digest`` the sha256 of its bytes and ``listed`` that of summary.json;
    ``resumes`` has the round of each ``resume`` line and how many events stand above it.
    """

    name: str
    account: audit.VerifiedLedger | None
    fault: str | None
    digest: str
    listed: str | None
    resumes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class AgentFacts:
    """An agent's figures: those of its ledger, where it verifies, and what summary.json adds.

    ``proven`` says whether the ledger itself was read: then ``spent``, ``published``, ``rho``, the budget and
    the numbers of records and events are the ledger's own. None where nothing is known.
    """

    agent: int
    proven: bool
    records: int | None
    degree: int | None
    neighbours: tuple[int, ...]
    releases: int | None
    events: int | None
    epsilon_target: float | None
    delta: float | None
    epsilon_proven: float | None
    spent: float | None
    unmasked: float | None
    published: float | None
    rho: float | None
    account_spent: float | None
    refused_at: int | None
    lost_at: int | None
    part: str | None
    test_error: float | None
    book: str | None


@dataclass(frozen=True)
class RunFacts:
    """One run folder, as far as it can be read; what does not hold stands in ``faults``, each with its file.

    ``name`` is that of the folder, or its path where several runs have the same; ``summary`` and ``header`` (of the
    first ledger that verifies) are empty where there is none; ``part`` is the agent and the number of agents where the
    folder is one agent's own; ``series`` is None of a folder that does not verify.
    """

    path: Path
    name: str
    summary: Mapping[str, Any]
    finished: bool
    summary_digest: str | None
    settings: Mapping[str, Mapping[str, Any]] | None
    books: tuple[Book, ...]
    agents: tuple[AgentFacts, ...]
    part: tuple[int, int] | None
    header: Mapping[str, Any]
    faults: tuple[str, ...]
    series: Series | None

    def said(self, *keys: str) -> Any:
        """Value of summary.json below these keys, None where it is not there."""
        return at(self.summary, *keys)

    @property
    def baseline(self) -> bool:
        """Whether one party holds all the records."""
        return "baseline" in (self.settings or {}) or isinstance(self.said("baseline"), Mapping)

    @property
    def private(self) -> bool:
        """Whether there is a budget; without one nothing is promised."""
        return at(self.header, "budget", "delta") is not None

    @property
    def seeded(self) -> bool | None:
        """Whether the noise can be made again from a seed; None if no ledger could be read."""
        noise = self.header.get("noise")
        return None if noise is None else noise == "seeded"

    @property
    def mode(self) -> str | None:
        """``simulation`` or ``private``; None of ledgers that do not say, whose noise was secret."""
        told: str | None = self.header.get("mode")
        return "simulation" if told is None and self.seeded else told

    def largest(self, key: str) -> float | None:
        """Largest figure over the agents of which it is known."""
        values = [getattr(agent, key) for agent in self.agents]
        return max((value for value in values if value is not None), default=None)


def read_facts(path: Path, name: str) -> RunFacts:
    """Read a run folder and verify it; faults are collected, not raised.

    Raises
    ------
    RequestError
        If it is no run folder, or a file that no verification covers cannot be read.
    """
    faults: list[str] = []
    series: Series | None = None
    summary_file = path / "summary.json"
    try:
        series = read_series(path, ledgers_alone=True)
    except CheckFailed as error:
        faults.append(str(error))
    summary, digest = _summary(summary_file)
    listed = at(summary, "ledgers")
    listed = listed if isinstance(listed, Mapping) else {}
    found = _strands(path)
    verified = {} if series is None else {account.header["agent"]: account for account in series.ledgers}
    books = tuple(_book(name, own, verified.get(agent), listed.get(name)) for name, agent, own in found)
    faults += [book.fault for book in books if book.fault is not None and book.fault not in faults]
    entries, part = entries_of(summary), _part(path / records.PART)
    agents = _agents(books, entries, part)
    headers = [book.account.header for book in books if book.account is not None]
    if summary is not None:
        accounts = {book.name: book.account for book in books if book.account is not None}
        faults += contradictions(summary_file, summary, accounts)
    # which any of the faults above explains
    faults = faults or list(filter(None, [manifest_fault(path, summary)]))
    return RunFacts(
        path=path,
        name=name,
        summary=summary or {},
        finished=summary is not None,
        summary_digest=digest,
        settings=_settings(path / "config.toml"),
        books=books,
        agents=agents,
        part=part,
        header=headers[0] if headers else {},
        faults=tuple(faults),
        series=series,
    )


def _summary(path: Path) -> tuple[dict[str, Any] | None, str | None]:
    """summary.json, if it is one, and its digest; that it is damaged, the verification says."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None, None
    try:
        summary = load_json(raw)
    except ValueError:
        summary = None
    return (summary if isinstance(summary, dict) else None), records.sha256(path)


def _part(path: Path) -> tuple[int, int] | None:
    try:
        part = load_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    agent, agents = whole(at(part, "agent")), whole(at(part, "agents"))
    return None if agent is None or agents is None or not 0 <= agent < agents else (agent, agents)


def _settings(path: Path) -> dict[str, dict[str, Any]] | None:
    try:
        tables = load_toml(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} cannot be read as TOML ({error}): take the original run folder") from None
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def _strands(path: Path) -> list[tuple[str, int | None, audit.Strand | str]]:
    """Names, agents and lines of the ledgers in a folder; of a file that cannot be taken apart what is wrong."""
    found: list[tuple[str, int | None, audit.Strand | str]] = []
    apart: list[tuple[int, audit.Strand]] = []
    for file in ledger_files(path):
        name = f"ledger/{file.name}"
        try:
            if is_segment(file):
                apart += [(_agent_of(own) or 0, own) for own in strands(file)]
            else:
                own = audit.whole_lines(file)
                found.append((name, _agent_of(own), own))
        except CheckFailed as error:
            found.append((name, None, str(error)))
    apart.sort(key=lambda one: one[0])
    count = len(found) + len(apart)
    return [*found, *((records.ledger_name(agent, count), agent, own) for agent, own in apart)]


def _agent_of(own: audit.Strand) -> int | None:
    """Whose ledger it is, by its header; unverified."""
    try:
        return whole(at(load_json(own.lines[0][1]), "agent"))
    except (IndexError, ValueError):
        return None


def _book(name: str, own: audit.Strand | str, account: audit.VerifiedLedger | None, told: Any) -> Book:
    told = told if isinstance(told, str) else None
    if isinstance(own, str):
        return Book(name, None, own, "", told, ())
    fault, digest = None, hashlib.sha256(content(own)).hexdigest()
    if account is None:
        try:
            account = audit.check(own)
        except CheckFailed as error:
            fault = str(error)
    if fault is None and told is not None and told != digest:
        account, fault = None, f"{own.path}: its sha256 is not the one in summary.json"
    resumes = () if account is None or not account.resumed else _resumes(own)
    return Book(name, account, fault, digest, told, resumes)


def _resumes(own: audit.Strand) -> tuple[tuple[int, int], ...]:
    """Where the resume lines of a verified ledger stand."""
    found, events = [], 0
    for _, line in own.lines:
        if line.startswith(b'{"kind":"event"'):
            events += 1
        elif line.startswith(b'{"kind":"resume"'):
            found.append((int(json.loads(line)["round"]), events))
    return tuple(found)


def _number(book: Book) -> int | None:
    if book.account is not None:
        return int(book.account.header["agent"])
    digits = book.name.removeprefix("ledger/agent-").removesuffix(".jsonl")
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _agents(
    books: tuple[Book, ...], entries: Mapping[int, Mapping[str, Any]], part: tuple[int, int] | None
) -> tuple[AgentFacts, ...]:
    by_number: dict[int, Book] = {}
    for book in books:
        number = _number(book)
        if number is not None:
            by_number.setdefault(number, book)
    numbers = set(by_number) | set(entries)
    if part is not None:
        numbers &= {part[0]}  # what a part's summary says of others stands in no ledger here
    parts = joining(entries)
    return tuple(_agent(i, by_number.get(i), entries.get(i, {}), parts.get(i)) for i in sorted(numbers))


def _agent(number: int, book: Book | None, entry: Mapping[str, Any], part: str | None) -> AgentFacts:
    account = None if book is None else book.account
    header: Mapping[str, Any] = {} if account is None else account.header
    total = last_total(account)
    read = account is not None
    budget = header.get("budget", entry) if read else entry
    return AgentFacts(
        agent=number,
        proven=read,
        records=header["records"] if read else whole(entry.get("records")),
        degree=len(header["neighbours"]) if read else whole(entry.get("degree")),
        neighbours=tuple(header.get("neighbours", ())),
        releases=whole(entry.get("releases")),
        events=None if account is None else account.count,
        epsilon_target=real(budget.get("epsilon")) if read else real(entry.get("epsilon_target")),
        delta=real(budget.get("delta")),
        epsilon_proven=real(entry.get("epsilon_proven")),
        spent=real(total["epsilon_spent"]) if read else None,
        unmasked=real(total.get("epsilon_if_all_collude")) if read else None,
        published=real(total["epsilon_published"]) if read else None,
        rho=real(total["rho"]) if read else None,
        account_spent=real(entry.get("account_epsilon_spent")),
        refused_at=whole(entry.get("refused_at")),
        lost_at=whole(entry.get("lost_at")),
        part=part,
        test_error=real(entry.get("test_error")),
        book=None if book is None else book.name,
    )
