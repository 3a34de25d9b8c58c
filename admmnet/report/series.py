"""A run folder as arrays: figures of every round, who spoke when, and the privacy odometer of every agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.config.toml import read_values
from admmnet.errors import CheckFailed
from admmnet.faults.model import parse_offline
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.folder import CLOCK_COLUMNS, PUBLIC_COLUMNS, TRAINING_COLUMNS
from admmnet.record.reader import RunFolder, read_run

Floats = NDArray[np.float64]
UNKNOWN, SILENT, SPOKE, USED_UP, REFUSED, OFFLINE, LOST, RELAYED = -1, 0, 1, 2, 3, 4, 5, 6
"""States of an agent in a round, see ``Series.state``."""
STATES = {
    UNKNOWN: "not recorded",
    SILENT: "silent",
    SPOKE: "spoke",
    USED_UP: "releases used up",
    REFUSED: "budget refused",
    OFFLINE: "offline",
    LOST: "lost",
    RELAYED: "passed on what it heard",
}


def joining(entries: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """What the entries of summary.json say of an agent's part in a joining gate; nothing where all are in the core."""
    with_gate = {i: entry for i, entry in entries.items() if _tells(entry)}
    if all(entry["joined_at"] == 0 for entry in with_gate.values()):
        return {}
    return {i: _joined(entry["joined_at"], entry.get("releases")) for i, entry in with_gate.items()}


def _tells(entry: Mapping[str, Any]) -> bool:
    """Whether an entry says when its agent joined; what a lost one did is not known."""
    return "joined_at" in entry and entry.get("lost_at") is None


def _joined(at: object, releases: object) -> str:
    if type(at) is int:
        return f"from round {at}" if at else "core"
    return "relay" if releases else "listened"


@dataclass(frozen=True)
class Figures:
    """Columns of metrics.csv (docs/run-folder.md): (T,) of the network, (T, N) of agents; nan where unknown.

    Attributes
    ----------
    test_error : ndarray
        Share, 0 to 1; nan without test records. With real targets the mean squared error.
    releases, bytes_sent : ndarray
        So far; bytes of payload.
    train_loss, objective, consensus_gap : ndarray or None
        Mean loss, objective, 2-norm of the distance from the consensus; None in private runs.
    virtual_seconds : ndarray or None
        Of the virtual clock, None without one.
    """

    test_error: Floats
    releases: Floats
    bytes_sent: Floats
    train_loss: Floats | None = None
    objective: Floats | None = None
    consensus_gap: Floats | None = None
    virtual_seconds: Floats | None = None

    def at(self, places: NDArray[np.intp]) -> Figures:
        """Return the figures of some of the rounds."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return replace(self, **{name: value[places] for name, value in values if value is not None})


@dataclass(frozen=True)
class Series:
    """A run folder, verified and read; T rounds, N agents.

    Attributes
    ----------
    rounds : ndarray of int, shape (T,)
        All up to the last one that metrics.csv or a ledger knows; of a baseline the epochs in metrics.csv.
    network, agents : Figures
        Of the consensus and the sums, (T,); of every agent, (T, N).
    state : ndarray of int8, shape (T, N)
        One of ``STATES``. ``SILENT``: its gate said no, or it had nothing to say; ``LOST``: the others had lost it;
        ``UNKNOWN``: metrics.csv has not the round, and its count of releases does not tell either.
    epsilon_spent, epsilon_published : ndarray, shape (T, N)
        Totals of the ledger after each round, at the budget's delta: proven, and by the paper's arithmetic. 0 before
        the first event, inf where infinite, nan where there is none, or the ledger lies elsewhere.
    targets, deltas : ndarray, shape (N,)
        Budget of every agent; nan without one, or where the ledger lies elsewhere.
    lost_at, refused_at : dict of int to int
        Agent to round, of agents lost and refused, as the summary has it: empty in unfinished runs.
    edges : tuple of (int, int) or None
        The graph, lower end first, ascending; None of a baseline and of one agent's part.
    part : int or None
        The agent, where the folder is one agent's own.
    """

    path: Path
    settings: dict[str, Any]
    rounds: NDArray[np.int64]
    network: Figures
    agents: Figures
    state: NDArray[np.int8]
    epsilon_spent: Floats
    epsilon_published: Floats
    targets: Floats
    deltas: Floats
    lost_at: dict[int, int]
    refused_at: dict[int, int]
    edges: tuple[tuple[int, int], ...] | None
    ledgers: tuple[VerifiedLedger, ...]
    summary: dict[str, Any] | None
    part: int | None

    @property
    def algorithm(self) -> str:
        """Name of the method."""
        return str(self.ledgers[0].header["algorithm"])

    @property
    def size(self) -> int:
        """Number of agents N."""
        return int(self.state.shape[1])

    @property
    def private(self) -> bool:
        """Whether the method has a privacy budget."""
        return bool(np.isfinite(self.targets).any())

    @property
    def seeded(self) -> bool:
        """Whether the seed can regenerate the noise: a simulation."""
        return bool(self.ledgers[0].header["noise"] == "seeded")

    @property
    def baseline(self) -> bool:
        """Whether one holder has all records: rounds are epochs, and there is no graph."""
        return not self.ledgers[0].header["neighbours"]

    @property
    def metric(self) -> str | None:
        """What ``test_error`` is: ``error`` or ``mean-squared-error``; None where an unfinished run does not tell."""
        if self.summary is not None:
            return str(self.summary.get("metric", "error"))
        return None if self.baseline and self.settings.get("loss") == "squared" else "error"

    def at(self, places: NDArray[np.intp]) -> Series:
        """Return the same run at some of its rounds."""
        rows = {name: getattr(self, name)[places] for name in ("rounds", "state", "epsilon_spent", "epsilon_published")}
        return replace(self, network=self.network.at(places), agents=self.agents.at(places), **rows)


def read_series(path: str | Path, *, ledgers_alone: bool = False) -> Series:
    """Read a run folder, finished or not, a baseline's, or one agent's part, and verify it as ``read_run`` does.

    The figures of metrics.csv are taken as they stand where no manifest covers them. The last round of an unfinished
    run is left out where metrics.csv has not all of it.

    Raises
    ------
    RequestError
        If it is no run folder, or its config.toml is missing or wrong.
    CheckFailed
        Naming file, line and fault, if a ledger does not hold or metrics.csv is damaged.
    """
    folder = read_run(Path(path), ledgers_alone=ledgers_alone)
    settings = read_values(folder.path / "config.toml")
    ledgers = tuple(folder.ledgers.values())
    size = len(ledgers) if folder.part is None else folder.part[1]
    counted, cube, columns = _metrics(folder.path / "metrics.csv", size, finished=folder.summary is not None)
    charged = {round_ for account in ledgers for round_, _, _ in account.events}
    rounds = np.array(sorted({*counted, *charged}), dtype=np.int64)
    if len(rounds) and ledgers[0].header["neighbours"]:  # a baseline's epochs are many
        rounds = np.arange(rounds[-1] + 1)
    cube = _stretched(cube, np.searchsorted(rounds, counted), len(rounds))
    spent, published = _odometers(ledgers, rounds, size)
    budgets = np.full((2, size), np.nan)
    for account in ledgers:
        budget = account.header["budget"]
        if budget["epsilon"] is not None:
            budgets[:, account.header["agent"]] = budget["epsilon"], budget["delta"]
    lost_at, refused_at = (_moments(folder, key) for key in ("lost_at", "refused_at"))
    agents = _figures(cube[:, 1:], columns)
    return Series(
        path=folder.path,
        settings=settings,
        rounds=rounds,
        network=_figures(cube[:, 0], columns),
        agents=agents,
        state=_states(rounds, agents.releases, settings, lost_at, refused_at, _joined_at(folder)),
        epsilon_spent=spent,
        epsilon_published=published,
        targets=budgets[0],
        deltas=budgets[1],
        lost_at=lost_at,
        refused_at=refused_at,
        edges=_edges(ledgers) if folder.part is None else None,
        ledgers=ledgers,
        summary=folder.summary,
        part=None if folder.part is None else folder.part[0],
    )


def _metrics(path: Path, size: int, *, finished: bool) -> tuple[NDArray[np.int64], Floats, tuple[str, ...]]:
    """Rounds (T,), figures (T, 1 + N, k) with the network first, and the names of the k columns."""
    names = PUBLIC_COLUMNS[2:]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not finished:  # it ended before the first round
            return np.zeros(0, dtype=np.int64), np.zeros((0, 1 + size, len(names))), names
        raise CheckFailed(f"{path}: cannot be read: {error}") from None
    if "\n" not in text and not finished:  # it ended at the first line
        return np.zeros(0, dtype=np.int64), np.zeros((0, 1 + size, len(names))), names
    head, *lines = text.split("\n")
    columns = tuple(head.split(","))
    training = columns[len(PUBLIC_COLUMNS) :][: len(TRAINING_COLUMNS)] == TRAINING_COLUMNS
    expected = PUBLIC_COLUMNS + (TRAINING_COLUMNS if training else ())
    if columns not in (expected, expected + CLOCK_COLUMNS):
        raise CheckFailed(f"{path}: line 1: has not the columns that admmnet writes, {','.join(expected)}")
    torn = lines.pop() if lines else ""
    rest = len(lines) % (1 + size)
    if finished and (rest or torn):
        raise CheckFailed(f"{path}: its last round is not whole though summary.json says the run finished")
    lines = lines[: len(lines) - rest]
    try:
        rows = (
            np.loadtxt([line.replace(",,", ",nan,") for line in lines], delimiter=",", ndmin=2)
            if lines
            else np.zeros((0, len(columns)))
        )
    except ValueError as error:
        raise CheckFailed(f"{path}: cannot be read as numbers: {error}") from None
    if rows.shape[1] != len(columns):
        raise CheckFailed(f"{path}: rows of {rows.shape[1]} numbers under {len(columns)} columns")
    cube = rows.reshape(-1, 1 + size, len(columns))
    rounds = cube[:, 0, 0]
    if (cube[:, :, 0] != rounds[:, None]).any() or (cube[:, :, 1] != np.arange(-1, size)).any():
        raise CheckFailed(f"{path}: its rows are not the network and agents 0 to {size - 1} of every round in order")
    if (np.diff(rounds) <= 0).any() or (rounds != np.floor(rounds)).any() or (rounds < 0).any():
        raise CheckFailed(f"{path}: its rounds are not ascending whole numbers")
    return rounds.astype(np.int64), cube[:, :, 2:], columns[2:]


def _stretched(cube: Floats, places: NDArray[np.intp], rounds: int) -> Floats:
    """Figures at their places among all rounds, nan at rounds that only a ledger knows."""
    whole = np.full((rounds, *cube.shape[1:]), np.nan)
    whole[places] = cube
    return whole


def _figures(rows: Floats, columns: tuple[str, ...]) -> Figures:
    return Figures(**{name: rows[..., place] for place, name in enumerate(columns)})


def _odometers(ledgers: tuple[VerifiedLedger, ...], rounds: NDArray[np.int64], size: int) -> tuple[Floats, Floats]:
    """Running totals (T, N): proven, and by the paper's arithmetic.

    The last line of a round counts. Where a resumed run repeats rounds, that is the repetition's line, whose
    total has the first attempt's charges in it.
    """
    both = np.full((2, len(rounds), size), np.nan)
    place = {int(round_): t for t, round_ in enumerate(rounds)}
    for account in ledgers:
        if account.delta is None:
            continue
        agent = account.header["agent"]
        last = {place[round_]: line["total"] for round_, _, line in account.events}
        for kind, key in enumerate(("epsilon_spent", "epsilon_published")):
            running = 0.0
            for t in range(len(rounds)):
                if t in last:
                    value = last[t][key]
                    running = np.inf if value is None else value
                both[kind, t, agent] = running
        if account.header["method"] == "proven":  # the paper has no figure for it
            both[1, :, agent] = np.nan
    return both[0], both[1]


def _moments(folder: RunFolder, key: str) -> dict[int, int]:
    entries = (folder.summary or {}).get("per_agent")
    if not isinstance(entries, list):
        return {}
    return {
        entry["agent"]: entry[key]
        for entry in entries
        if isinstance(entry, dict) and type(entry.get("agent")) is int and type(entry.get(key)) is int
    }


def _joined_at(folder: RunFolder) -> dict[int, float]:
    """Agent to the round from which on it spoke with its records, inf for never, where the summary says so."""
    entries = (folder.summary or {}).get("per_agent")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {
        entry["agent"]: entry["joined_at"] if type(entry["joined_at"]) is int else np.inf
        for entry in found
        if type(entry.get("agent")) is int and _tells(entry)
    }


def _states(
    rounds: NDArray[np.int64],
    releases: Floats,
    settings: dict[str, Any],
    lost_at: dict[int, int],
    refused_at: dict[int, int],
    joined_at: dict[int, float],
) -> NDArray[np.int8]:
    """State (T, N); what happened counts before what did not, and what came from outside before the rest.

    Of rounds between two that were measured an agent has spoken in all in which it was there, in none, or, where it
    has spoken in some, nobody can tell in which.
    """
    size = releases.shape[1]
    state = np.full(releases.shape, SILENT, dtype=np.int8)
    (told,) = np.nonzero(~np.isnan(releases[:, 0]))
    stretch = np.searchsorted(told, np.arange(len(rounds)))  # which ends with a round that was measured
    none = np.zeros((1, size))

    def grown(total: NDArray[Any]) -> NDArray[Any]:
        return np.diff(np.vstack([none, total[told], none]), axis=0)[stretch]

    before = np.vstack([none, releases[told]])[stretch]
    most = settings.get("max_releases")
    if isinstance(most, int):
        state[before >= most] = USED_UP
    for agent, first in refused_at.items():
        state[rounds >= first, agent] = REFUSED
    if settings.get("offline") is not None and len(rounds):
        planned = int(settings.get("rounds", rounds[-1] + 1))
        for absence in parse_offline(settings["offline"], size, planned):
            last = np.inf if absence.last is None else absence.last
            state[(rounds >= absence.first) & (rounds <= last), absence.agent] = OFFLINE
    for agent, first in lost_at.items():
        state[rounds >= first, agent] = LOST
    there = ~np.isin(state, (REFUSED, OFFLINE, LOST))
    there[told[np.diff(told, prepend=-1) == 1]] = True  # a stretch of one round
    spoken = grown(releases)
    in_all = spoken >= grown(np.cumsum(there, axis=0))
    state[there & (spoken > 0)] = UNKNOWN
    state[there & (spoken > 0) & in_all] = SPOKE
    for agent, joined in joined_at.items():
        state[(rounds < joined) & (state[:, agent] == SPOKE), agent] = RELAYED
    state[stretch == len(told)] = UNKNOWN
    return state


def _edges(ledgers: tuple[VerifiedLedger, ...]) -> tuple[tuple[int, int], ...] | None:
    found = {
        (min(i, j), max(i, j))
        for account in ledgers
        for i in [account.header["agent"]]
        for j in account.header["neighbours"]
    }
    return tuple(sorted(found)) or None
