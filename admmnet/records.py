"""The run folder: what a run leaves behind, and reading it again (docs/run-folder.md)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy import audit
from admmnet.types import Matrix

PUBLIC_COLUMNS = ("round", "agent", "test_error", "releases", "bytes_sent")
SEEDED_COLUMNS = ("train_loss", "objective", "consensus_gap")
"""Computed from training records: only in seeded runs, which are simulations."""


def default_folder(algorithm: str) -> Path:
    """Return runs/<time>-<algorithm>, with a number behind it where that exists."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{algorithm}"
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder


def create_folder(folder: Path) -> None:
    """Make the run folder with its ledger folder.

    Raises
    ------
    RequestError
        If it exists and is not empty, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RequestError(f"the run folder {folder} is not empty: name another one with --out")
        (folder / "ledger").mkdir()
    except OSError as error:
        raise RequestError(
            f"cannot make the run folder {folder}: {error.strerror}; name another one with --out"
        ) from None


def ledger_path(folder: Path, agent: int, agents: int) -> Path:
    """File of one agent's ledger."""
    return folder / "ledger" / f"agent-{agent:0{max(3, len(str(agents - 1)))}d}.jsonl"


class MetricsFile:
    """metrics.csv: a row an agent and round, agent -1 being the network."""

    def __init__(self, path: Path, *, seeded: bool) -> None:
        self._columns = len(PUBLIC_COLUMNS + SEEDED_COLUMNS if seeded else PUBLIC_COLUMNS)
        self._file: TextIO = path.open("w", encoding="utf-8", newline="\n")
        self._file.write(",".join((PUBLIC_COLUMNS + SEEDED_COLUMNS)[: self._columns]) + "\n")

    def write(self, round: int, agents: Sequence[int], rows: Matrix) -> None:
        """Append rows of test_error, releases, bytes_sent and, in seeded runs, the training figures."""
        for agent, row in zip(agents, rows, strict=True):
            error, releases, sent, *rest = row.tolist()
            values = (round, agent, error, int(releases), int(sent), *rest)
            self._file.write(",".join(map(repr, values[: self._columns])) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_model(path: Path, theta: Matrix, feature_names: Sequence[str]) -> None:
    """model.npz: theta (N, d) of released vectors, their mean, and the names of the d features; no pickle."""
    names = np.array(feature_names, dtype=np.str_)
    np.savez(path, theta=theta, consensus=theta.mean(axis=0), feature_names=names)


def sha256(path: Path) -> str:
    """sha256 of a file's content in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON with one key a line."""
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class RunFolder:
    """A run folder read back: verified ledgers in the order of their agents, and the summary of a finished run."""

    path: Path
    ledgers: dict[str, audit.Account]
    summary: dict[str, Any] | None


def read_run(path: Path) -> RunFolder:
    """Read a run folder and verify everything in it.

    Raises
    ------
    RequestError
        If it is no run folder.
    CheckFailed
        Naming file, line and fault, if anything does not hold.
    """
    files = sorted((path / "ledger").glob("agent-*.jsonl"))
    if not files:
        raise RequestError(f"{path} is no run folder: it has no ledger/agent-*.jsonl")
    summary = _read_summary(path / "summary.json")
    ledgers = {f"ledger/{file.name}": audit.read(file) for file in files}
    for number, (name, account) in enumerate(ledgers.items()):
        if account.header["agent"] != number or ledger_path(path, number, len(files)).name != Path(name).name:
            raise CheckFailed(
                f"{path / name}: line 1: is the ledger of agent {account.header['agent']}, expected agent {number} "
                "(a file is missing, misnamed or swapped)"
            )
    if summary is not None:
        _check_digests(path, summary, ledgers)
    return RunFolder(path, ledgers, summary)


def _read_summary(path: Path) -> dict[str, Any] | None:
    try:
        summary = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(summary, dict) or not isinstance(summary.get("ledgers"), dict):
        raise CheckFailed(f"{path}: has no digests of the ledgers")
    return summary


def _check_digests(path: Path, summary: dict[str, Any], ledgers: dict[str, audit.Account]) -> None:
    if set(summary["ledgers"]) != set(ledgers):
        missing = sorted(set(summary["ledgers"]) ^ set(ledgers))
        raise CheckFailed(f"{path / 'summary.json'}: ledgers and digests do not match: {', '.join(missing)}")
    for name, account in ledgers.items():
        if sha256(path / name) != summary["ledgers"][name]:
            raise CheckFailed(f"{path / name}: its sha256 is not the one in summary.json")
        if not account.finished:
            raise CheckFailed(f"{path / name}: has no end line though summary.json says the run finished")
