"""The library's face: ``run``, and what a run leaves in memory, with the ways to look at it (docs/library.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from admmnet.errors import RequestError
from admmnet.record import format, reader
from admmnet.record.reader import Run
from admmnet.types import Matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from admmnet.config.keywords import Settings
    from admmnet.config.run_config import RunConfig
    from admmnet.predict.model import Model
    from admmnet.privacy.ledger.audit import VerifiedLedger
    from admmnet.running.events import OnRound
    from admmnet.running.loading import Loader
    from admmnet.running.plan import Plan
    from admmnet.transport import World


class RunSummary(dict[str, Any]):
    """Content of summary.json (docs/ledger.md); called, it is the closing table as text."""

    def __init__(self, content: Mapping[str, Any], folder: Path) -> None:
        super().__init__(content)
        self._folder = folder

    def __call__(self) -> str:
        """Return what the command prints at the end of a run."""
        from admmnet.report.tables import run_text

        return run_text(self, self._folder)


@dataclass(frozen=True, eq=False)  # vectors have no single truth value, and a dict has no hash
class RunResult:
    """What a run leaves.

    Attributes
    ----------
    folder : Path
        The run folder.
    summary : RunSummary
        Content of summary.json, a dict; ``summary()`` is the closing table as text.
    theta : ndarray of shape (N, d)
        Every agent's model: its last released vector, or what ``--answer`` makes of them.
    """

    folder: Path
    summary: RunSummary
    theta: Matrix = field(repr=False)

    @property
    def ledgers(self) -> tuple[VerifiedLedger, ...]:
        """Every agent's ledger, read back from the folder and verified.

        Raises
        ------
        CheckFailed
            Naming file, line and fault, if anything does not hold.
        """
        return tuple(read_run(self.folder).ledgers.values())

    @cached_property
    def model(self) -> Model:
        """The model with all that encodes rows for it, read back from the folder."""
        from admmnet.predict.model import read_model

        return read_model(self.folder)

    def predict(self, X: Any, *, agent: int | None = None) -> NDArray[Any]:
        """Predict the labels of new rows, encoded as the run's.

        Parameters
        ----------
        X : array_like, sparse matrix or data frame, shape (n, d)
            As the run's records were; the label column may be missing.
        agent : int, optional
            Whose model; by default their average.

        Returns
        -------
        ndarray of shape (n,)
            -1.0 and +1.0, or the declared labels; real targets in their unit.
        """
        from admmnet.predict.apply import NewData, predict

        words = predict(self.model, NewData(data=X), agent=agent).prediction
        try:
            return np.array(words, dtype=np.float64)
        except ValueError:
            return np.array(words)

    def score(self, X: Any, y: Any) -> float:
        """Return the share of rows whose label is predicted, or R^2 of real targets; it is a figure of these rows."""
        from admmnet.predict.apply import NewData, evaluate

        error = evaluate(self.model, NewData(data=(X, y)))["error"]
        return float(error["r2"] if "r2" in error else 1.0 - error["consensus"])

    def to_dataframe(self) -> Any:
        """Return metrics.csv as a pandas DataFrame: a row an agent and round, agent -1 being the network.

        Raises
        ------
        RequestError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise RequestError("a data frame needs pandas: pip install 'admmnet[frames]'") from None
        return pd.read_csv(self.folder / "metrics.csv")

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """Draw the run: error, loss, privacy, consensus, broadcasts, graph (docs/results.md).

        Parameters
        ----------
        file : path, optional
            Picture to write: .png, .svg or .pdf.
        **options
            Those of ``admmnet.report.run_plot.plot_run``, as ``panels=("error", "privacy")``.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from admmnet.report.run_plot import plot_run

        return plot_run(self.folder, file=file, **options)

    def __repr__(self) -> str:
        """One line: method, error, privacy, folder."""
        return f"RunResult({', '.join(f'{name}={value}' for name, value in self._figures())})"

    def _repr_html_(self) -> str:
        """Table for notebooks."""
        from html import escape

        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._figures()
        )
        return f"<table>{rows}</table>"

    def _figures(self) -> list[tuple[str, str]]:
        summary, privacy = self.summary, self.summary["privacy"]
        error = summary["test_error"]["consensus"]
        found = [
            ("algorithm", f"{summary['algorithm']} ({summary['method']})"),
            ("data", str(summary["data"]["name"])),
            ("agents", str(summary["agents"])),
            ("rounds", str(summary["rounds"])),
            ("test_error", format.error(error, summary["metric"])),
        ]
        if privacy["epsilon_target"] is not None:
            names = ("epsilon_proven", "epsilon_if_all_collude", "epsilon_spent", "epsilon_published")
            found += [(name, format.epsilon(privacy[name])) for name in names if privacy.get(name) is not None]
            found.append(("delta", format.epsilon(privacy["delta"])))
        return [*found, ("folder", str(self.folder))]


class RunFolder(Run):
    """A run folder read back, with its pictures."""

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """As ``RunResult.plot``."""
        from admmnet.report.run_plot import plot_run

        return plot_run(self.path, file=file, **options)


def read_run(path: str | Path, *, events: bool = True) -> RunFolder:
    """Read a run folder, or one agent's part of it, and verify everything in it.

    Without ``events`` what every single one says is not kept.

    Raises
    ------
    RequestError
        If it is no run folder.
    CheckFailed
        Naming file, line and fault, if anything does not hold.
    """
    run = reader.read_run(path, events=events)
    return RunFolder(run.path, run.ledgers, run.summary, run.part)


def run(
    config: RunConfig | None = None,
    *,
    shards: Any = None,
    X: Any = None,
    y: Any = None,
    data: Any = None,
    test: Any = None,
    schema: Any = None,
    graph: Any = None,
    scaled: bool = False,
    kinds: str | None = None,
    world: World | None = None,
    loader: Loader | None = None,
    on_start: Callable[[Plan], None] | None = None,
    on_round: OnRound | None = None,
    stoppable: bool = True,
    debug: bool = False,
    **settings: Unpack[Settings],
) -> RunResult:
    """Train one model on the network, or in one place, and write the run folder.

    Records are a data set's, a file's, or in memory: ``shards``, ``X`` with ``y``, or a frame as ``data``. Those in
    memory are private unless ``seed`` or ``simulate`` is given, and treated as a file's: an intercept is appended,
    then every row is scaled to norm 1, by itself.

    Parameters
    ----------
    config : RunConfig, optional
        The settings; keywords change them, or make them: ``run(algorithm="dvp", epsilon=1)``. Their ``mode``
        follows from them alone: a run on records that are not public needs ``data`` to name them, or ``private``,
        also where a loader brings them.
    shards : list of (X, y), or {agent: (X, y)}
        Every agent's own records, as arrays or data frames. A list holds those of all N agents, at every process. A
        mapping may hold those of this process's agents alone; then nothing is read from rows that could be declared.
    X, y : array_like, scipy.sparse matrix, frame of numbers, shape (n, d); array_like, shape (n,)
        Records that are dealt to the agents as ``split`` says. Labels are -1 and +1 or 0 and 1, else ``positive``,
        ``task`` or ``schema`` says what they are.
    data : str, path or data frame
        Name of a data set, file, or frame (pandas, or what speaks for one) with the column ``label``. A simulation
        reads from the rows what no ``schema`` declares; a private run refuses that.
    test : path, (X, y) or data frame
        Test records, encoded alike, and taken to be public; or say ``no_test=True``. Without either a simulation draws
        a quarter of pooled records.
    schema : dict or path
        Public schema of columns and labels (docs/data.md).
    graph : networkx.Graph, str or path
        Network with the nodes 0 to N - 1: another word for ``topology``.
    scaled : bool
        Whether rows are taken as they are, without an intercept; longer ones than 1 are refused.
    kinds : "dtype", optional
        Says that the types of a frame's columns are public: numbers are numeric, all others categorical, where
        ``schema`` names no kind. One "?" makes words of a column of numbers, and the width shows it.
    world : World, optional
        Processes to run on; by default those that ``config.transport`` asks for.
    loader : callable, optional
        Where the records come from, as in ``prepare``.
    on_start : callable, optional
        Called before the first round with the ``Plan``.
    on_round : callable, optional
        Called after every round (of a method in one place: epoch) with a ``RoundEvent``, at the process that writes the
        run folder. If it raises ``StopRun``, that round is the last one, and the run ends as if no more were planned.
    stoppable : bool
        Whether it may raise; if not, processes are spared a word about that after every round.
    debug : bool
        Whether an error that ends all MPI ranks comes with its traceback.
    **settings
        As those of ``RunConfig``: ``algorithm`` and ``loss`` may be classes, ``topology`` a graph.

    Returns
    -------
    RunResult
        The same at every process.

    Raises
    ------
    RequestError
        If the settings, the graph or the data are wrong.
    BudgetError
        If the budget affords no round.
    RunError
        If a solve misses its certificate, steps run away, or a ledger cannot be written.
    """
    from msgspec import to_builtins

    from admmnet.running.loop import perform

    records = {"shards": shards, "X": X, "y": y, "data": data, "test": test, "schema": schema, "loader": loader}
    asked = SimpleNamespace(**records, graph=graph, scaled=scaled, kinds=kinds, on_start=on_start, on_round=on_round)
    folder, summary, theta = perform(config, settings, asked, world, stoppable=stoppable, debug=debug)
    return RunResult(folder, RunSummary(to_builtins(summary), folder), theta)
