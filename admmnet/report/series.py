"""A run as arrays: figures of every round, and every agent's epsilon spent so far."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from admmnet.errors import CheckFailed
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.folder import PUBLIC_COLUMNS
from admmnet.record.forms import AgentEntry, Summary
from admmnet.record.reader import Run, read_run

Floats = NDArray[np.float64]


def joining(entries: Collection[AgentEntry]) -> dict[int, str]:
    """What the entries of summary.json say of an agent's part in a joining gate; nothing where all are in the core."""
    alone = {entry.agent: "relay" if entry.releases else "listened" for entry in entries}
    rounds = _joined_at(entries).items()
    found = {agent: alone[agent] if at is None else f"from round {at}" if at else "core" for agent, at in rounds}
    return {} if set(found.values()) <= {"core"} else found


def gate_line(summary: Summary) -> str | None:
    """What a run's gate was asked and saved, in one line; None without one."""
    gate, parts = summary.gate, list(joining(summary.per_agent).values())
    if gate is None:
        return None
    if not (gate.asked or parts):
        return "asked 0, agents of near-equal size all speak, as in pp-admm"
    first = ""
    if parts:
        relays = parts.count("relay")
        passing = f", {relays} {'passes' if relays == 1 else 'pass'} messages on" * bool(relays)
        first = f" ({parts.count('core')} of {len(parts)} agents speak from the start{passing})"
    return f"asked {gate.asked}, yes {gate.yes}, saved {gate.saved} broadcasts of {gate.broadcasts}{first}"


def _joined_at(entries: Collection[AgentEntry]) -> dict[int, int | None]:
    """Round in which each agent of a joining gate joined, None for never; without agents that gave no figures."""
    return {one.agent: one.joined_at for one in entries if one.joined_at is not UNSET and one.rho_proven is not None}


@dataclass(frozen=True)
class RunSeries:
    """A run folder, verified and read; T rounds, N agents.

    Attributes
    ----------
    rounds : ndarray of int, shape (T,)
        All up to the last one that metrics.csv or a ledger knows; of a baseline the epochs in metrics.csv.
    network, agents : dict of str to ndarray
        Columns of metrics.csv (docs/ledger.md), nan where unknown: of the consensus and the sums, (T,); of every
        agent, (T, N). Private runs have none that was computed from training records.
    epsilon_spent, epsilon_published : ndarray, shape (T, N)
        Totals of the ledger after each round, at the budget's delta: proven, and by the paper's arithmetic. 0 before
        the first event, inf where infinite, nan where there is none, or the ledger lies elsewhere.
    targets, deltas : ndarray, shape (N,)
        Budget of every agent; nan without one, or where the ledger lies elsewhere.
    edges : tuple of (int, int) or None
        The graph, lower end first, ascending; None of a baseline and of one agent's part.
    part : int or None
        The agent, where the folder is one agent's own.
    """

    path: Path
    settings: dict[str, Any]
    rounds: NDArray[np.int64]
    network: dict[str, Floats]
    agents: dict[str, Floats]
    epsilon_spent: Floats
    epsilon_published: Floats
    targets: Floats
    deltas: Floats
    edges: tuple[tuple[int, int], ...] | None
    ledgers: tuple[VerifiedLedger, ...]
    summary: Summary | None
    part: int | None

    @property
    def header(self) -> dict[str, Any]:
        """First line of the first ledger: the part that all agents' share."""
        return self.ledgers[0].header

    @property
    def algorithm(self) -> str:
        """Name of the method."""
        return str(self.header["algorithm"])

    @property
    def size(self) -> int:
        """Number of agents N."""
        return int(self.epsilon_spent.shape[1])

    @property
    def private(self) -> bool:
        """Whether the method has a privacy budget."""
        return bool(np.isfinite(self.targets).any())

    @property
    def seeded(self) -> bool:
        """Whether the seed can regenerate the noise: a simulation."""
        return bool(self.header["noise"] == "seeded")

    @property
    def baseline(self) -> bool:
        """Whether one holder has all records: rounds are epochs, and there is no graph."""
        return not self.header["neighbours"]

    @property
    def unit(self) -> str:
        """What is counted: ``round``, or ``epoch`` of a baseline."""
        return "epoch" if self.baseline else "round"

    @property
    def metric(self) -> str | None:
        """What ``test_error`` is: ``error`` or ``mean-squared-error``; None where an unfinished run does not tell."""
        if self.summary is not None:
            return self.summary.metric
        return None if self.baseline and self.settings.get("loss") == "squared" else "error"

    def at(self, places: NDArray[np.intp]) -> RunSeries:
        """Return the same run at some of its rounds."""
        return replace(
            self,
            rounds=self.rounds[places],
            network={name: values[places] for name, values in self.network.items()},
            agents={name: values[places] for name, values in self.agents.items()},
            epsilon_spent=self.epsilon_spent[places],
            epsilon_published=self.epsilon_published[places],
        )


def read_series(path: str | Path) -> RunSeries:
    """``curves`` of a run folder: finished or not, a baseline's, or one agent's part. Raises as ``read_run`` does."""
    return curves(read_run(Path(path)))


def curves(folder: Run) -> RunSeries:
    """Arrays of a run that was read; of an unfinished one without a last round of which metrics.csv has not all.

    CheckFailed if metrics.csv is damaged.
    """
    settings, ledgers, summary = folder.settings, tuple(folder.ledgers.values()), folder.summary
    size = len(ledgers) if folder.part is None else folder.part.agents
    counted, figures = _metrics(folder.path / "metrics.csv", size)
    charged = {round_ for account in ledgers for round_, _, _ in account.events}
    rounds = np.array(sorted({*counted.tolist(), *charged}), dtype=np.int64)
    if len(rounds) and ledgers[0].header["neighbours"]:  # a baseline's epochs are many
        rounds = np.arange(rounds[-1] + 1)
    for name, values in figures.items():  # nan at rounds that only a ledger knows
        figures[name] = np.full((len(rounds), 1 + size), np.nan)
        figures[name][np.searchsorted(rounds, counted)] = values
    agents = {name: values[:, 1:] for name, values in figures.items()}
    spent, published = _odometers(ledgers, rounds, size)
    budgets = np.full((2, size), np.nan)
    for account in ledgers:
        budget = account.header["budget"]
        if budget["epsilon"] is not None:
            budgets[:, account.header["agent"]] = budget["epsilon"], budget["delta"]
    ends = (sorted((account.header["agent"], other)) for account in ledgers for other in account.header["neighbours"])
    edges = tuple(sorted({(low, high) for low, high in ends})) or None
    return RunSeries(
        path=folder.path,
        settings=settings,
        rounds=rounds,
        network={name: values[:, 0] for name, values in figures.items()},
        agents=agents,
        epsilon_spent=spent,
        epsilon_published=published,
        targets=budgets[0],
        deltas=budgets[1],
        edges=edges if folder.part is None else None,
        ledgers=ledgers,
        summary=summary,
        part=None if folder.part is None else folder.part.agent,
    )


def _metrics(path: Path, size: int) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Rounds (T,) that are whole, and figures by name, (T, 1 + N) with the network first."""
    try:
        head, *lines = (path.read_text(encoding="utf-8") if path.exists() else "").split("\n")[:-1] or [""]
        names = tuple(head.split(",")) if head else PUBLIC_COLUMNS
        lines = [line.replace(",,", ",nan,") for line in lines[: len(lines) // (1 + size) * (1 + size)]]
        rows = np.loadtxt(lines, delimiter=",", ndmin=2) if lines else np.zeros((0, len(names)))
        cube = rows.reshape(-1, 1 + size, len(names))
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{path}: cannot be read as figures: {error}") from None
    rounds, agents = cube[:, 0, 0], np.arange(-1, size)
    ordered = (
        (cube[:, :, 0] == rounds[:, None]).all() and (cube[:, :, 1] == agents).all() and (np.diff(rounds) > 0).all()
    )
    if names[: len(PUBLIC_COLUMNS)] != PUBLIC_COLUMNS or not ordered:
        raise CheckFailed(f"{path}: is not the network and agents 0 to {size - 1} of every round in order")
    return rounds.astype(np.int64), {name: cube[:, :, place] for place, name in enumerate(names) if place > 1}


def _odometers(ledgers: tuple[VerifiedLedger, ...], rounds: NDArray[np.int64], size: int) -> tuple[Floats, Floats]:
    """Running totals (T, N): proven, and by the paper's arithmetic.

    The last line of a round counts: its total has the others' charges in it.
    """
    both = np.full((2, len(rounds), size), np.nan)
    for account in ledgers:
        if account.delta is None:
            continue
        last = {round_: line["total"] for round_, _, line in account.events}
        charged = np.searchsorted(rounds, sorted(last))
        stretch = np.searchsorted(charged, np.arange(len(rounds)), side="right")
        for kind, key in enumerate(("epsilon_spent", "epsilon_published")):
            values = [last[round_][key] for round_ in sorted(last)]
            totals = np.array([0.0, *(np.inf if value is None else value for value in values)])
            both[kind, :, account.header["agent"]] = totals[stretch]
        if account.header["method"] == "proven":  # the paper has no figure for it
            both[1, :, account.header["agent"]] = np.nan
    return both[0], both[1]
