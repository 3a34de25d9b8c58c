"""Folders of results: an earlier call's files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from glob import escape, glob
from pathlib import Path
from typing import Any

from admmnet.data.settings import AGENT
from admmnet.errors import RequestError
from admmnet.files import load_json, refusing
from admmnet.record.folder import sha256


def begin(path: Path, check: Callable[[dict[str, Any]], None]) -> None:
    """Make the folder of a JSON file in which calls say what they make, and ``check`` what an earlier one has said.

    RequestError if it cannot be made, holds something else, or the file is damaged.
    """
    folder, another = path.parent, "name another one with -o"
    with refusing(f"make the folder {folder}", f"; {another}"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        content: dict[str, Any] = load_json(path.read_bytes())
        check(content)
    except FileNotFoundError:
        if not all(found.name.startswith(f".{path.name}") for found in folder.iterdir()):
            raise RequestError(f"the folder {folder} is not empty and holds no {path.name}: {another}") from None
    except RequestError:  # is a ValueError, too
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"cannot read {path}: {error}; name another folder with -o") from None


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
