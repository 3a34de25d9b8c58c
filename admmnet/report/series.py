"""A run as arrays: figures of every round, and every agent's epsilon spent so far; and what it is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.folder import PUBLIC_COLUMNS
from admmnet.record.forms import AgentEntry, Summary
from admmnet.record.reader import Run, read_run

Floats = NDArray[np.float64]
WORDS = {"larger_class": "always the larger class", "mean": "always the mean", "pooled": "no privacy, pooled"}
"""Names of the references of a summary."""


def joining(entries: Collection[AgentEntry]) -> dict[int, str]:
    """What the entries of summary.json say of an agent's part in a joining gate; nothing where all are in the core.

    Agents that gave no figures are left out.
    """
    told = [one for one in entries if one.joined_at is not UNSET and one.rho_proven is not None]
    alone = {one.agent: "relay" if one.releases else "listened" for one in told if one.joined_at is None}
    joined = {one.agent: f"from round {one.joined_at}" if one.joined_at else "core" for one in told}
    return {} if set((found := joined | alone).values()) <= {"core"} else found


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


@dataclass(frozen=True, repr=False, kw_only=True)
class RunSeries(Run):
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
    targets : ndarray, shape (N,)
        Budget of every agent; nan without one, or where the ledger lies elsewhere.
    edges : tuple of (int, int) or None
        The graph, lower end first, ascending; None of a baseline and of one agent's part.
    """

    rounds: NDArray[np.int64]
    network: dict[str, Floats]
    agents: dict[str, Floats]
    epsilon_spent: Floats
    epsilon_published: Floats
    targets: Floats
    edges: tuple[tuple[int, int], ...] | None

    @property
    def header(self) -> dict[str, Any]:
        """First line of the first ledger: the part that all agents' share."""
        return next(iter(self.ledgers.values())).header

    @property
    def size(self) -> int:
        """Number of agents N."""
        return len(self.targets)

    @property
    def private(self) -> bool:
        """Whether the method has a privacy budget."""
        return bool(np.isfinite(self.targets).any())

    @property
    def baseline(self) -> bool:
        """Whether one holder has all records: rounds are epochs, and there is no graph."""
        return not self.header["neighbours"]

    @property
    def metric(self) -> str | None:
        """What ``test_error`` is: ``error`` or ``mean-squared-error``; None where an unfinished run does not tell."""
        if self.summary is not None:
            return self.summary.metric
        return None if self.baseline and self.settings.get("loss") == "squared" else "error"


def read_series(path: str | Path) -> RunSeries:
    """``curves`` of a run folder: finished or not, a baseline's, or one agent's part. Raises as ``read_run`` does."""
    return curves(read_run(Path(path)))


def curves(run: Run) -> RunSeries:
    """Arrays of a run that was read; of an unfinished one without a last round of which metrics.csv has not all.

    CheckFailed if metrics.csv is damaged.
    """
    ledgers = list(run.ledgers.values())
    size = len(ledgers) if run.part is None else run.part.agents
    counted, figures = metrics(run.path, size)
    rounds = np.array(sorted({*counted.tolist(), *(at for own in ledgers for at, _, _ in own.events)}), dtype=np.int64)
    if len(rounds) and ledgers[0].header["neighbours"]:  # a baseline's epochs are many
        rounds = np.arange(rounds[-1] + 1)
    for name, values in figures.items():  # nan at rounds that only a ledger knows
        figures[name] = np.full((len(rounds), 1 + size), np.nan)
        figures[name][np.searchsorted(rounds, counted)] = values
    spent, targets, edges = np.full((2, len(rounds), size), np.nan), np.full(size, np.nan), set[tuple[int, int]]()
    for ledger in ledgers:
        agent, budget = ledger.header["agent"], ledger.header["budget"]["epsilon"]
        edges |= {(min(agent, other), max(agent, other)) for other in ledger.header["neighbours"]}
        if budget is not None:
            targets[agent], spent[:, :, agent] = budget, _odometers(ledger, rounds)
    return RunSeries(
        *(getattr(run, own.name) for own in fields(Run)),
        rounds=rounds,
        network={name: values[:, 0] for name, values in figures.items()},
        agents={name: values[:, 1:] for name, values in figures.items()},
        epsilon_spent=spent[0],
        epsilon_published=spent[1],
        targets=targets,
        edges=tuple(sorted(edges)) if edges and run.part is None else None,
    )


def metrics(run: Path, size: int) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Rounds (T,) of metrics.csv that are whole, and figures by name, (T, 1 + N) with the network first."""
    path = run / "metrics.csv"
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


def _odometers(ledger: VerifiedLedger, rounds: NDArray[np.int64]) -> Floats:
    """Running totals (2, T): proven, and by the paper's arithmetic, nan where it has none.

    The last line of a round counts: its total has the others' charges in it.
    """
    last = {round_: line["total"] for round_, _, line in ledger.events}
    stretch = np.searchsorted(sorted(last), rounds, side="right")
    totals = [[0.0, *(last[at][key] for at in sorted(last))] for key in ("epsilon_spent", "epsilon_published")]
    found = np.array([[np.inf if value is None else value for value in own] for own in totals])[:, stretch]
    if ledger.header["method"] == "proven":
        found[1] = np.nan
    return found


def folder_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders; of several with the same name, their paths. RequestError if one is named twice."""
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise RequestError(f"{path} is named twice: name every run once")
    names = [path.resolve().name for path in paths]
    return [str(path) if names.count(name) > 1 or not name else name for path, name in zip(paths, names, strict=True)]


def heading(*runs: RunSeries) -> str:
    """Data and methods of runs, each once; the settings of an unfinished one only say what data was asked for."""
    asked = [str(run.settings.get("data", "unknown data")).rpartition("/")[2] for run in runs]
    data = [own if run.summary is None else run.summary.data.name for own, run in zip(asked, runs, strict=True)]
    methods = [f"{run.header['algorithm']} ({run.header['method']})" for run in runs]
    return ": ".join(", ".join(dict.fromkeys(words)) for words in (data, methods))


# what a finished run's figure is held against, as its summary.json has it, in words (docs/ledger.md)


def yardsticks(summary: Summary | None) -> list[tuple[str, float]]:
    """References in words, with their test figures."""
    values = [] if summary is None else [(words, getattr(summary.references, name)) for name, words in WORDS.items()]
    return [(words, value) for words, value in values if value is not None]


def one_class(summary: Summary | None) -> str | None:
    """Sentence on a model that gives every test record the same class; None of any other."""
    only = None if summary is None else summary.test_error.one_class
    return None if only is None else f"one class only: this model says {only!r} for every test record"


def no_better_than(summary: Summary) -> tuple[str, float] | None:
    """The reference that looks at no record, where the consensus is no better than that; else None."""
    error = summary.test_error.consensus
    guess = next(((words, value) for words, value in yardsticks(summary) if words != WORDS["pooled"]), None)
    return guess if guess is not None and error is not None and error >= guess[1] else None
