"""What a command has found, as it prints it: JSON, or a line a figure and a table a list of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from admmnet.cli.flags import lines
from admmnet.record.format import fact


def show(facts: Mapping[str, Any], *said: str, as_json: bool = False, title: str = "") -> None:
    """Print facts under a title, then sentences on what they hold for, which JSON does not need: its keys are fixed.

    A list of tables is a table; where its rows have tables themselves, each is shown by itself, those that are alike
    but for their ``agent`` once.
    """
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    tables = {name: value for name, value in facts.items() if _rows(value)}
    single = {name.replace("_", " "): (name, value) for name, value in facts.items() if name not in tables}
    width = max(map(len, single), default=0) + 3
    lines(*filter(None, [title]), *(f"{words + ':':<{width}}{fact(*own)}" for words, own in single.items()))
    for name, rows in tables.items():
        if any(_rows(value) for value in rows[0].values()):
            for agents, row in _alike(rows):
                more = ", ..." if len(agents) > 12 else ""
                show(row, title=f"\nagent{'s' * (len(agents) > 1)} {', '.join(map(str, agents[:12]))}{more}")
        else:
            from admmnet.report.columns import FEW, print_table

            title = name.replace("_", " ")
            print_table(title if len(rows) <= FEW else f"{title}: the first {FEW} of {len(rows)}", rows[:FEW])
    lines(*said)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _alike(rows: Sequence[Mapping[str, Any]]) -> list[tuple[list[Any], dict[str, Any]]]:
    """Rows without their agents, each once, behind the agents that have it."""
    found: dict[str, tuple[list[Any], dict[str, Any]]] = {}
    for row in rows:
        rest = {name: value for name, value in row.items() if name != "agent"}
        found.setdefault(json.dumps(rest), ([], rest))[0].append(row["agent"])
    return list(found.values())
