"""A run seen through its folder alone, finished or not, also while it is written (docs/cli.md, "watch").

Figures are taken as they stand: `admmnet ledger verify` holds them against each other. Files may hold anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from admmnet.errors import IN_PART, CheckFailed, RequestError, RunError
from admmnet.files import load_toml
from admmnet.forms import read_form
from admmnet.record.folder import SUMMARY, followed, is_held, ledger_files, measured
from admmnet.record.forms import Summary, absent
from admmnet.record.journal import starts_of
from admmnet.record.verdict import ModeFacts, mode_of


def at(settings: Mapping[str, Any], table: str, key: str) -> Any:
    """Setting of a file that may hold anything; None where there is none."""
    own = settings.get(table)
    return own.get(key) if isinstance(own, Mapping) else None


def _whole(value: Any) -> int | None:
    """Return the value if it is a whole number of at most 53 bits, which a script can count with, else None."""
    return value if type(value) is int and abs(value) < 1 << 53 else None


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
    summary: Summary | None

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


def look(folder: Path) -> Sight:
    """Present state of a run folder; RequestError if it is none."""
    held = is_held(folder)  # before the summary, which is written before the lock is given up
    settings: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):
        settings = load_toml((folder / "config.toml").read_bytes())
    if at(settings, "algorithm", "algorithm") is None:
        raise RequestError(f"{folder} is no run folder: it has no config.toml that names an algorithm")
    summary = None
    with suppress(CheckFailed):
        summary = read_form(Summary, folder / SUMMARY)
    files = [folder / "config.toml", folder / "metrics.csv", *ledger_files(folder)]
    newest = max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
    phase = "broken" if held is False else "running" if held else "unknown"
    starts = [set(one.members) for one in starts_of(folder)] if summary is None else []
    away = tuple(sorted(absent(summary) if summary is not None else set[int]().union(*starts).difference(*starts[-1:])))
    figures = list(measured(folder))
    ledgers = followed(folder)
    # a series may be charged ahead: its rounds are those of metrics.csv
    charged = [one.round for one in ledgers if one.header.neighbours and one.round is not None]
    refused = {} if summary is None else {one.agent: one.refused_at for one in summary.per_agent}
    budgets = {one.header.agent: (one.header.budget.epsilon, one.spent) for one in ledgers}
    latest = {agent: (releases, error) for _, agent, releases, error in figures if agent >= 0}
    agents = []
    for agent in sorted({*budgets, *latest, *away}):
        state = "away" if agent in away else ""
        if not state and refused.get(agent) is not None:
            state = f"refused in round {refused[agent]}"
        target, spent = budgets.get(agent, (None, None))
        releases, error = latest.get(agent, (None, None))
        agents.append(AgentSight(agent, target, spent, releases, error, state))
    mode = mode_of(to_builtins(ledgers[0].header), _whole(at(settings, "run", "seed"))) if ledgers else None
    return Sight(
        settings=settings,
        mode=mode,
        phase=phase if summary is None else "stopped" if summary.stopped else "finished",
        rounds=_whole(at(settings, "algorithm", "rounds")) or _whole(at(settings, "baseline", "epochs")),
        done=max([*(round_ + 1 for round_, *_ in figures), *charged], default=0),
        quiet=max(0.0, time.time() - newest),
        errors={round_: error for round_, agent, _, error in figures if agent < 0 and error is not None},
        agents=tuple(agents),
        away=away,
        summary=summary,
    )
