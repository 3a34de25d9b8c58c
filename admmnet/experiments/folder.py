"""Folders of results: an earlier call's files, and the lock that keeps two calls apart."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from glob import escape, glob
from pathlib import Path
from typing import Any

from admmnet.data.settings import AGENT
from admmnet.errors import RequestError
from admmnet.files import load_json, refusing
from admmnet.record.folder import sha256


def read_about(path: Path, check: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
    """Content of the JSON file in which an earlier call said what it makes; None in a new or empty folder.

    RequestError if the folder holds something else, the file is damaged, or ``check`` refuses its content.
    """
    folder, another = path.parent, "name another one with -o"
    try:
        content: dict[str, Any] = load_json(path.read_bytes())
        check(content)
    except NotADirectoryError:
        raise RequestError(f"{folder} is no folder: {another}") from None
    except FileNotFoundError:
        ours = (f".{path.name}", ".part-")
        if folder.is_dir() and not all(found.name.startswith(ours) for found in folder.iterdir()):
            raise RequestError(f"the folder {folder} is not empty and holds no {path.name}: {another}") from None
        return None
    except RequestError:  # is a ValueError, too
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"cannot read {path}: {error}; name another folder with -o") from None
    return content


def sums_of(names: Iterable[str]) -> list[list[str]]:
    """Name and sha256 of every file that texts of settings name: a path, also with ``{agent}``, or KIND:FILE."""
    texts = [text for name in names for text in (name, name.partition(":")[2]) if text]
    found = [path for text in texts for path in map(Path, sorted(glob("*".join(map(escape, text.split(AGENT))))))]
    return [[path.name, sha256(path)] for path in found if path.is_file()]


def refuse_others(folder: Path | str, pairs: Iterable[tuple[str, Any, Any]]) -> None:
    """Refuse to go on with a folder of which a setting was another one; pairs are a name, the value then, and now."""
    for name, before, now in pairs:
        if before != now:
            raise RequestError(
                f"{folder} was made with other settings: {name} was {json.dumps(before)}, this call has "
                f"{json.dumps(now)}; repeat the call with the former, or name another folder with -o"
            )


def csv_text(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows under their names as CSV; numbers read back exactly, what is undefined is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)  # None is written as nothing
    return text.getvalue()


@contextmanager
def opened(path: Path, check: Callable[[dict[str, Any]], None], part: tuple[int, int] = (1, 1)) -> Iterator[None]:
    """Make the folder of a file as ``read_about`` reads it, and keep every other call out, but for other parts.

    RequestError if one is at work, or as ``read_about`` says.
    """
    folder = path.parent

    def lock(place: Path, kind: int) -> None:
        handle = os.open(place, os.O_RDONLY)
        locks.callback(os.close, handle)
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"another call is at work in {folder}: wait for its end") from None

    with ExitStack() as locks:
        with refusing(f"make the folder {folder}", "; name another one with -o"):
            folder.mkdir(parents=True, exist_ok=True)
            lock(folder, fcntl.LOCK_EX if part == (1, 1) else fcntl.LOCK_SH)
            read_about(path, check)
            if part != (1, 1):
                own = folder / f".part-{part[0]}-of-{part[1]}"
                own.touch()
                lock(own, fcntl.LOCK_EX)
        yield
