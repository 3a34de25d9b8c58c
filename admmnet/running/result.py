"""What a run leaves in memory: figures, vectors, and the ways to look at them from Python or a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from admmnet.errors import RequestError
from admmnet.record import format, forms
from admmnet.types import Matrix

if TYPE_CHECKING:
    from admmnet.privacy.ledger.audit import VerifiedLedger


def _above(module: str, name: str) -> Any:
    """Words and pictures for people, found by name when somebody asks for them: no run needs them."""
    return getattr(import_module(f"admmnet.{module}"), name)


class Summary(dict[str, Any]):
    """Content of summary.json (docs/run-folder.md); called, it is the closing table as text."""

    def __init__(self, content: Mapping[str, Any], folder: Path) -> None:
        super().__init__(content)
        self._folder = folder

    def __call__(self) -> str:
        """Return what the command prints at the end of a run."""
        return str(_above("cli.tables", "run_text")(self, self._folder))


@dataclass(frozen=True, eq=False)  # vectors have no single truth value, and a dict has no hash
class RunResult:
    """What a run leaves.

    Attributes
    ----------
    folder : Path
        The run folder.
    summary : Summary
        Content of summary.json, a dict; ``summary()`` is the closing table as text.
    theta : ndarray of shape (N, d)
        Every agent's model: its last released vector, or what ``--answer`` makes of them.
    """

    folder: Path
    summary: Summary
    theta: Matrix = field(repr=False)

    @classmethod
    def of(cls, folder: Path, summary: forms.Summary, theta: Matrix) -> RunResult:
        """Return the result of a run from its folder, its summary, and its vectors."""
        return cls(folder, Summary(msgspec.to_builtins(summary), folder), theta)

    @property
    def ledgers(self) -> tuple[VerifiedLedger, ...]:
        """Every agent's ledger, read back from the folder and verified.

        Raises
        ------
        CheckFailed
            Naming file, line and fault, if anything does not hold.
        """
        from admmnet.record.reader import read_run

        return tuple(read_run(self.folder).ledgers.values())

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
        """Draw the run: error, loss, privacy, consensus, broadcasts, graph (docs/plot.md).

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
        return _above("report.run_plot", "plot_run")(self.folder, file=file, **options)

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
        found = [
            ("algorithm", f"{summary['algorithm']} ({summary['method']})"),
            ("data", str(summary["data"]["name"])),
            ("agents", str(summary["agents"])),
            ("rounds", str(summary["rounds"])),
            ("test_error", format.error(summary["test_error"]["consensus"], summary["metric"])),
        ]
        if privacy["epsilon_target"] is not None:
            names = ("epsilon_proven", "epsilon_if_all_collude", "epsilon_spent", "epsilon_published")
            found += [(name, format.epsilon(privacy[name])) for name in names if privacy.get(name) is not None]
            found.append(("delta", format.epsilon(privacy["delta"])))
        return [*found, ("folder", str(self.folder))]
