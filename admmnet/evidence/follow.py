"""A run seen through its folder alone, finished or not, also while it is written (docs/cli.md, "watch").

Figures are taken as they stand: `admmnet ledger verify` holds them against each other. Files may hold anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from admmnet.errors import IN_PART, CheckFailed, RequestError, RunError, printable
from admmnet.evidence.compare import read_evidence
from admmnet.files import load_toml
from admmnet.forms import read_form
from admmnet.privacy.ledger.form import HeaderLine
from admmnet.record.folder import PART, SUMMARY, is_held
from admmnet.record.forms import Summary, absent
from admmnet.record.journal import past_of
from admmnet.record.shelf import Follower, ledger_files
from admmnet.record.values import at, whole
from admmnet.record.verdict import ModeFacts, mode_of

SHARE = 0.05
"""Share of the time that goes into receipts at most, whose signatures are verified."""


@dataclass(frozen=True)
class AgentSight:
    """One agent."""

    agent: int
    target: float | None
    """Epsilon of its budget; None for none."""
    spent: float | None
    """What its ledger has spent of it, by the accountant that guards it."""
    releases: int | None
    """As metrics.csv says; None where it says nothing of the agent yet."""
    last: int | None
    """Round of its last release; None where metrics.csv does not tell: rounds between were not measured."""
    error: float | None
    """Test error of its last released vector."""
    state: str
    """That it is away, or its budget refused."""


@dataclass(frozen=True)
class Sight:
    """A run at one moment."""

    settings: Mapping[str, Any]
    """Tables of config.toml."""
    mode: ModeFacts | None
    """As the ledgers say; None where there is none yet."""
    phase: str
    """``running``, ``finished``, ``stopped`` (by ``on_round``), ``broken``
    (no process is at work, and there is no summary) or ``unknown`` (no summary, and the file system knows no locks)."""
    rounds: int | None
    """How many are planned; None where nobody can tell."""
    done: int
    """How many are over, as far as metrics.csv and the ledgers tell."""
    quiet: float
    """Seconds since anything new came: settings, a charge, a round."""
    errors: Mapping[int, float]
    """Test errors of the consensus by round."""
    agents: tuple[AgentSight, ...]
    """Those of which the folder knows something."""
    away: tuple[int, ...]
    """Agents without which the others go on, or have finished."""
    trouble: str | None
    """What is wrong with the receipts, or with a file."""
    summary: Summary | None

    def word(self, *keys: str) -> str:
        """Return a setting as text that no terminal stumbles over; a dash where there is none."""
        value = at(self.settings, *keys)
        return "-" if value is None else printable(str(value), 60)

    @property
    def over(self) -> bool:
        """Whether no process is at work, as far as one can tell."""
        return self.phase not in ("running", "unknown")

    @property
    def unit(self) -> str:
        """``round``, or ``epoch`` of a method in one place."""
        return "epoch" if at(self.settings, "network", "agents") is None else "round"

    def verdict(self, stale: float | None = None) -> int:
        """Exit code: 0 going on or finished, 5 finished in part, 3 dead, or nothing new for ``stale`` seconds."""
        if self.summary is not None:
            return IN_PART if self.away else 0
        silent = stale is not None and self.quiet >= stale
        return RunError.exit_code if silent or self.phase == "broken" else 0

    @property
    def most_spent(self) -> AgentSight | None:
        """Agent that has spent the largest share of its budget; None without budgets."""
        budgets = [seen for seen in self.agents if seen.target and seen.spent is not None]
        return max(budgets, key=lambda seen: (seen.spent or 0.0) / (seen.target or 1.0), default=None)


class Metrics:
    """metrics.csv as far as it was read; parts read once are not read again."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, -1
        self._begin()

    def _begin(self) -> None:
        self.errors: dict[int, float] = {}  # of the consensus, by round
        self.agents: dict[int, tuple[float | None, int]] = {}  # last test error, and releases
        self.last: dict[int, int] = {}  # round of the last release, where that is known
        self.done = self._offset = self._new = 0

    def read(self) -> None:
        """Take in what is new."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._offset:
                    self._file = status.st_ino
                    self._begin()  # a run that goes on has cut it back
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        lines = data[: data.rfind(b"\n") + 1]
        self._offset += len(lines)
        for line in lines.splitlines():
            self._take(line.split(b","))

    def _take(self, row: list[bytes]) -> None:
        try:
            round, agent, releases = int(row[0]), int(row[1]), int(row[3])
            error = float(row[2]) if row[2] else None
        except (ValueError, IndexError):  # the header, or what is no row
            return
        if round >= self.done:
            self._new, self.done = round + 1 - self.done, round + 1
        if agent < 0:
            if error is not None:
                self.errors[round] = error
            return
        made = releases - self.agents.get(agent, (None, 0))[1]
        if made >= self._new:
            self.last[agent] = round
        elif made > 0:  # in some of the rounds since the last one that was measured
            self.last.pop(agent, None)
        self.agents[agent] = error, releases


class Watcher:
    """Looks at a run folder again and again; ``clock`` gives the time of day, as files bear it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder, self._clock = folder, clock
        self._metrics = Metrics(folder / "metrics.csv")
        self._header: HeaderLine | None = None
        self._followed: dict[Path, Follower] = {}
        self._trouble: str | None = None
        self._charged = 0
        self._next = 0.0

    @property
    def there(self) -> bool:
        """Whether there is a run: its settings are the first file of it."""
        return (self.folder / "config.toml").exists()

    @property
    def alone(self) -> bool:
        """Whether the folder is one host's of several."""
        return (self.folder / PART).exists()

    def look(self) -> Sight:
        """Return the folder's present state; RequestError if it is no run folder."""
        held = is_held(self.folder)  # before the summary, which is written before the lock is given up
        settings: Mapping[str, Any] = {}
        with suppress(OSError, ValueError):
            settings = load_toml((self.folder / "config.toml").read_bytes())
        if at(settings, "algorithm", "algorithm") is None:
            raise RequestError(f"{self.folder} is no run folder: it has no config.toml that names an algorithm")
        summary = self._summary()
        self._metrics.read()
        paths = [self.folder / "config.toml", self.folder / "metrics.csv", *ledger_files(self.folder)]
        newest = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
        ended = summary is not None or held is False
        started = past_of(self.folder)
        phase = "broken" if held is False else "running" if held else "unknown"
        phase = phase if summary is None else "stopped" if summary.stopped else "finished"
        rounds = whole(at(settings, "algorithm", "rounds")) or whole(at(settings, "baseline", "epochs"))
        away = tuple(sorted(started.away if summary is None else absent(summary)))
        agents = tuple(self._agents(summary, away))
        header = self._header
        return Sight(
            settings=settings,
            mode=None if header is None else mode_of(to_builtins(header), whole(at(settings, "run", "seed"))),
            phase=phase,
            rounds=rounds,
            done=max(self._metrics.done, self._charged),
            quiet=max(0.0, self._clock() - newest),
            errors=self._metrics.errors,
            agents=agents,
            away=away,
            trouble=self._receipts(at_once=ended),
            summary=summary,
        )

    def _summary(self) -> Summary | None:
        with suppress(CheckFailed):
            return read_form(Summary, self.folder / SUMMARY)
        return None

    def _agents(self, summary: Summary | None, away: Collection[int]) -> list[AgentSight]:
        refused = {} if summary is None else {entry.agent: entry.refused_at for entry in summary.per_agent}
        self._charged = 0
        budgets = dict(self._budgets())
        seen = []
        for agent in sorted({*budgets, *self._metrics.agents, *away}):
            error, releases = self._metrics.agents.get(agent, (None, None))
            state = "away" if agent in away else ""
            if not state and refused.get(agent) is not None:
                state = f"refused in round {refused[agent]}"
            target, spent = budgets.get(agent, (None, None))
            seen.append(AgentSight(agent, target, spent, releases, self._metrics.last.get(agent), error, state))
        return seen

    def _budgets(self) -> Iterator[tuple[int, tuple[float | None, float | None]]]:
        """Agents whose ledgers are here: epsilon of the budget, and what is spent of it."""
        for path in ledger_files(self.folder):
            for header, total, round in self._followed.setdefault(path, Follower(path)).look():
                self._header = self._header or header
                target, spent = header.budget.epsilon, None
                if target is not None and total is None:
                    spent = 0.0
                elif target is not None and total is not None:
                    published = header.accountant == "published"
                    spent = total.epsilon_published if published else total.epsilon_spent
                if header.neighbours:  # a series may be charged ahead
                    self._charged = max(self._charged, round or 0)
                yield header.agent, (target, spent)

    def _receipts(self, *, at_once: bool) -> str | None:
        """What is wrong with the receipts, found again after some time; ``at_once`` where nothing more comes."""
        begin = time.monotonic()
        if at_once or begin >= self._next:
            try:
                read_evidence(self.folder)
                self._trouble = None
            except (CheckFailed, RequestError) as error:
                self._trouble = printable(str(error))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                self._trouble = f"receipts cannot be read: {type(error).__name__}"
            self._next = time.monotonic() + (time.monotonic() - begin) / SHARE
        return self._trouble
