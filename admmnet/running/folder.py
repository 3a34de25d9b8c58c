"""The run folder: what a run leaves behind, and reading it again (docs/run-folder.md)."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import re
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy.ledger import audit
from admmnet.types import Matrix, Vector

if TYPE_CHECKING:
    from admmnet.transport import World

PUBLIC_COLUMNS = ("round", "agent", "test_error", "releases", "bytes_sent")
TRAINING_COLUMNS = ("train_loss", "objective", "consensus_gap")
"""Computed from training records: only in simulations."""
CLOCK_COLUMNS = ("virtual_seconds",)
"""Where delays are simulated: when the network, or an agent, could go on to the next round."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Said by file systems of clusters that know no locks: there nothing keeps two runs apart."""
PART = "part.json"
"""File of a folder that holds the ledger of one agent alone: {"agent": 3, "agents": 5}."""


def default_folder(algorithm: str) -> Path:
    """Return runs/<time>-<algorithm>, with a number behind it where that exists; of module:Class it has the class."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{algorithm.rpartition(':')[2]}"
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder


def agreed_folder(world: World, algorithm: str) -> Path:
    """Name of a new run folder: the first process's where all write one folder, else this process's own.

    Raises
    ------
    RequestError
        If the first process names anything but a folder such as ``default_folder`` does.
    """
    own = default_folder(algorithm)
    if not world.shared_folder:
        return own
    said = world.gather(str(own))[0]
    pattern = rf"runs/\d{{8}}-\d{{6}}-{re.escape(algorithm.rpartition(':')[2])}(-\d+)?"
    if not isinstance(said, str) or re.fullmatch(pattern, Path(said).as_posix()) is None:
        raise RequestError("the first process names no new folder in runs/: name one with --out")
    return Path(said)


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


def hold(folder: Path, *, first: bool) -> BinaryIO:
    """Keep every other run out of a run folder, as long as the file that is returned stays open.

    All processes of a run share the lock; the first one takes it before the others, and only if nobody has it: a
    process of an interrupted run that still lives could write behind the charges of the one that is resumed.

    Raises
    ------
    RequestError
        If another run is at work there.
    """
    file = (folder / "config.toml").open("r+b")
    try:
        if first:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_SH | (fcntl.LOCK_NB if first else 0))
    except BlockingIOError:
        file.close()
        raise RequestError(
            f"the run folder {folder} is in use by another run, or by a process of it that has not ended: wait for "
            "its end, or end it"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            file.close()
            raise
    return file


def part_name(algorithm: str, agent: int) -> str:
    """Return what stands in place of the algorithm in the name of a folder of one agent."""
    return f"{algorithm}-agent-{agent:03d}"


def write_part(folder: Path, agent: int, agents: int) -> None:
    """Say that a run folder is one agent's own: it holds its ledger and no other."""
    write_json(folder / PART, {"agent": agent, "agents": agents})


def ledger_path(folder: Path, agent: int, agents: int) -> Path:
    """File of one agent's ledger."""
    return folder / "ledger" / f"agent-{agent:0{max(3, len(str(agents - 1)))}d}.jsonl"


class MetricsFile:
    """metrics.csv: a row an agent and round, agent -1 being the network."""

    def __init__(self, path: Path, *, training: bool, start: int = 0, clock: bool = False) -> None:
        self._columns = len(PUBLIC_COLUMNS + TRAINING_COLUMNS if training else PUBLIC_COLUMNS)
        kept = _earlier(path, start)
        draft = path.with_name(f".{path.name}.new")  # a crash here loses no round
        columns = (PUBLIC_COLUMNS + TRAINING_COLUMNS)[: self._columns] + (CLOCK_COLUMNS if clock else ())
        draft.write_text(",".join(columns) + "\n" + "".join(kept), encoding="utf-8", newline="\n")
        draft.replace(path)
        self._file: TextIO = path.open("a", encoding="utf-8", newline="\n")

    def write(self, round: int, agents: Sequence[int], rows: Matrix, seconds: Vector | None = None) -> None:
        """Append rows of test_error, releases, bytes_sent and, in simulations, the training figures; virtual times.

        An error without test records, nan, is an empty field.
        """
        times = [()] * len(rows) if seconds is None else [(float(value),) for value in seconds]
        for agent, row, time_ in zip(agents, rows, times, strict=True):
            error, releases, sent, *rest = row.tolist()
            values = (round, agent, error, int(releases), int(sent), *rest)
            words = list(map(repr, values[: self._columns] + time_))
            if isnan(error):
                words[2] = ""
            self._file.write(",".join(words) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _earlier(path: Path, start: int) -> list[str]:
    """Lines of the rounds before ``start``, without the header; none of a file that is not there."""
    if start == 0 or not path.exists():
        return []
    _, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n") and int(line.split(",", 1)[0]) < start]


def write_model(
    path: Path,
    theta: Matrix,
    feature_names: Sequence[str],
    classes: Sequence[str] = (),
    aggregate: str = "mean",
) -> None:
    """model.npz: theta (N, d) of released vectors, their mean by ``aggregate``, the d features' names; no pickle.

    Of three ``classes`` or more theta (N, K d) is written as (N, K, d), and their names besides.
    """
    from admmnet.methods.aggregate import mean_of  # here: the command line starts faster

    arrays: dict[str, Any] = {"feature_names": np.array(feature_names, dtype=np.str_)}
    if classes:
        arrays["classes"] = np.array(classes, dtype=np.str_)
        theta = theta.reshape(len(theta), len(classes), -1)
    np.savez(path, theta=theta, consensus=mean_of(theta, aggregate), **arrays)


def sha256(path: Path) -> str:
    """sha256 of a file's content in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON with one key a line."""
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class RunFolder:
    """A run folder read back.

    Attributes
    ----------
    path : Path
    ledgers : dict
        File to verified ledger, in the order of the agents.
    summary : dict or None
        Of a finished run.
    part : (int, int) or None
        Agent and number of agents, where the folder is one agent's own.
    """

    path: Path
    ledgers: dict[str, audit.VerifiedLedger]
    summary: dict[str, Any] | None
    part: tuple[int, int] | None = None


def read_run(path: Path) -> RunFolder:
    """Read a run folder, or one agent's part of it, and verify everything in it.

    Raises
    ------
    RequestError
        If it is no run folder.
    CheckFailed
        Naming file, line and fault, if anything does not hold.
    """
    files = sorted((path / "ledger").glob("agent-*.jsonl"))
    if not files:
        lacks = "it has no ledger/agent-*.jsonl" if path.exists() else "there is nothing of that name"
        raise RequestError(f"{path} is no run folder: {lacks}; name a folder that a run wrote")
    part = _read_part(path / PART)
    summary = _read_summary(path / "summary.json")
    ledgers = {f"ledger/{file.name}": audit.read(file) for file in files}
    expected: Sequence[int]
    expected, agents = (range(len(files)), len(files)) if part is None else ((part[0],), part[1])
    if len(files) != len(expected):
        raise CheckFailed(f"{path / PART}: says one agent's ledger, but there are {len(files)}")
    if part is None and summary is None and not any(account.events for account in ledgers.values()):
        # the run died while its ledgers were being made, by several processes at once: nothing was sent
        expected = [int(account.header["agent"]) for account in ledgers.values()]
        agents = max(_declared(path / "config.toml"), agents, expected[-1] + 1)
    for number, (name, account) in zip(expected, ledgers.items(), strict=True):
        if account.header["agent"] != number or ledger_path(path, number, agents).name != Path(name).name:
            raise CheckFailed(
                f"{path / name}: line 1: is the ledger of agent {account.header['agent']}, expected agent {number} "
                "(a file is missing, misnamed or swapped)"
            )
    if summary is not None:
        _check_digests(path, summary, ledgers, whole=part is None)
    return RunFolder(path, ledgers, summary, part)


def _declared(path: Path) -> int:
    """Return the number of agents that the settings name, 0 where they do not."""
    try:
        return int(tomllib.loads(path.read_text(encoding="utf-8"))["network"]["agents"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{path}: cannot be read as JSON: {error}") from None


def _read_part(path: Path) -> tuple[int, int] | None:
    if not path.exists():
        return None
    part = _read_json(path)
    keys = ("agent", "agents")
    if (
        not isinstance(part, dict)
        or set(part) != set(keys)
        or any(type(part[key]) is not int for key in keys)
    ):
        raise CheckFailed(f'{path}: is not of the form {{"agent": 3, "agents": 5}}')
    if not 0 <= part["agent"] < part["agents"]:
        raise CheckFailed(f"{path}: there is no agent {part['agent']} among {part['agents']}")
    return part["agent"], part["agents"]


def _read_summary(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    summary = _read_json(path)
    if not isinstance(summary, dict) or not isinstance(summary.get("ledgers"), dict):
        raise CheckFailed(f"{path}: has no digests of the ledgers")
    return summary


def _check_digests(
    path: Path, summary: dict[str, Any], ledgers: dict[str, audit.VerifiedLedger], *, whole: bool
) -> None:
    """Hold the ledgers against the summary, which a run writes when every agent that it still has is through.

    An agent that was lost on the way has no digest there, and its ledger, as a rule, no end.
    """
    lost = _lost(summary)
    missing = {
        name for name in set(ledgers) - set(summary["ledgers"]) if ledgers[name].header["agent"] not in lost
    }
    if whole:  # a part's summary lists the ledgers of the others, which are elsewhere
        missing |= set(summary["ledgers"]) - set(ledgers)
    if missing:
        raise CheckFailed(
            f"{path / 'summary.json'}: ledgers and digests do not match: {', '.join(sorted(missing))}"
        )
    for name, account in ledgers.items():
        if name not in summary["ledgers"]:
            continue
        if sha256(path / name) != summary["ledgers"][name]:
            raise CheckFailed(f"{path / name}: its sha256 is not the one in summary.json")
        if not account.finished:
            raise CheckFailed(f"{path / name}: has no end line though summary.json says the run finished")


def _lost(summary: dict[str, Any]) -> set[object]:
    """Agents that the summary says were lost."""
    entries = summary.get("per_agent")
    if not isinstance(entries, list):
        return set()
    return {
        entry.get("agent")
        for entry in entries
        if isinstance(entry, dict) and entry.get("lost_at") is not None
    }
