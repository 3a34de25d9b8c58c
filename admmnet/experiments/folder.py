"""The comparison's folder: compare.json, finished runs, and the lock that keeps two calls apart."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admmnet.config.run_config import find_setting
from admmnet.errors import RequestError, RunError
from admmnet.experiments.grid import Grid
from admmnet.experiments.parsing import said
from admmnet.version import __version__

FILE = "compare.json"
LISTS = ("algorithms", "epsilons", "seeds")
"""Settings that a further call may add to."""
OF_A_RUN = {
    "config.toml",
    "encoding.json",
    "ledger",
    "metrics.csv",
    "model.npz",
    "summary.json",
}
"""What a run writes: an unfinished run's folder is removed only if it holds nothing else."""


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all.

    Raises
    ------
    RunError
        If the disk refuses.
    """
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        os.replace(beside, path)
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; free some space and make the same call again"
        ) from None


def settings_of(grid: Grid) -> dict[str, Any]:
    """What a further call must agree with, as JSON gives it back."""
    comparison = grid.comparison
    settings = {
        "admmnet": __version__,
        "algorithms": [entry.text for entry in grid.entries],
        "epsilons": list(grid.epsilons),
        "seeds": list(grid.seeds),
        "resplit": comparison.resplit,
        "tune": {
            entry.text: [said(values) for values in grid.candidates[entry]]
            for entry in grid.entries
            if grid.candidates[entry] != ((),)
        },
        "tune_seeds": comparison.tune_seeds,
        # where the records lie does not matter: their sha256 is compared
        **{name: value for name, value in grid.common.items() if name != "data_dir"},
    }
    found: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return found


def read_agreeing(folder: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Content of an earlier call's compare.json, None in a new or empty folder.

    Raises
    ------
    RequestError
        If the folder holds something else, or the earlier call had other settings; lists may grow.
    """
    try:
        content: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        _check(folder, content["settings"], settings)
    except NotADirectoryError:
        raise RequestError(f"{folder} is no folder: name another one with -o") from None
    except FileNotFoundError:
        if folder.is_dir() and any(path.name != f"{FILE}.new" for path in folder.iterdir()):
            raise RequestError(
                f"the folder {folder} is not empty and holds no {FILE}: name another one with -o"
            ) from None
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"cannot read {folder / FILE}: {error}; name another folder with -o") from None
    return content


def _check(folder: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    for key in dict.fromkeys((*now, *then)):  # the version comes first
        before = then.get(key, _default(key))  # an older call knew fewer settings
        if key not in (*LISTS, "tune") and before != now.get(key, _default(key)):
            _refuse(folder, key, before, now.get(key, _default(key)))
    _check_lists(folder, then, now)
    for method in then["algorithms"]:
        if then["tune"].get(method) != now["tune"].get(method):
            _refuse(folder, f"tune of {method}", then["tune"].get(method), now["tune"].get(method))


def _default(name: str) -> Any:
    try:
        return find_setting(name).default
    except RequestError:
        return None


def _check_lists(folder: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    for key in LISTS:
        missing = [value for value in then[key] if value not in now[key]]
        if missing:
            raise RequestError(
                f"{folder} was made with other settings: its {key} include {missing[0]}, this call's do not; lists may "
                f"only grow: add it to --{key}, or name another folder with -o"
            )


def _refuse(folder: Path, key: str, then: Any, now: Any) -> None:
    raise RequestError(
        f"{folder} was made with other settings: {key} was {json.dumps(then)}, this call has {json.dumps(now)}; "
        "repeat the call with the former, or name another folder with -o"
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and keep every other call out of it.

    Raises
    ------
    RequestError
        If another call is at work in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RequestError(
            f"cannot make the folder {folder}: {error.strerror}; name another one with -o"
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"another call is at work in {folder}: wait for its end") from None
        yield
    finally:
        os.close(handle)


def summary_of(run: Path) -> dict[str, Any] | None:
    """Summary of a finished run, None if it has not finished."""
    try:
        summary = json.loads((run / "summary.json").read_bytes())
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) and "test_error" in summary else None


def clear(run: Path) -> None:
    """Remove what an unfinished run has left.

    Raises
    ------
    RequestError
        If there is anything that no run writes.
    """
    try:
        strange = sorted(path.name for path in run.iterdir() if path.name not in OF_A_RUN)
        if strange:
            raise RequestError(
                f"{run} holds {strange[0]}, which no run writes: move it elsewhere and call again"
            )
        shutil.rmtree(run)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RequestError(f"cannot remove the unfinished run {run}: {error.strerror}") from None
