"""Copies what became of lies into docs/tried.md, from what tests/attacks/test_liars.py wrote.

ADMMNET_LIES=all ADMMNET_TRIED=tried.jsonl python -m pytest tests/attacks/test_liars.py
python -m tests.benchmarks.tried_page tried.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.attacks.lies import LIES
from tests.processes.launch import ROOT

PAGE = ROOT / "docs" / "tried.md"
BEGIN, END = "<!-- lies -->\n", "<!-- end of lies -->\n"


def outcome(row: dict[str, Any]) -> str:
    """What the three honest agents did, in a few words."""
    codes = row["codes"]
    if set(codes) == {0}:
        held = "that of the run without the lie" if row["same"] else "another one, the same at all three"
        if not row["lost"]:
            return f"all finish, nobody lost; the model is {held}"
        return f"all finish, agent 0 lost in round {row['lost'][0]}"
    if 0 in codes:
        gone = sum(code != 0 for code in codes)
        return f"{gone} of 3 leaves with exit code 3 and names agent 0, the others finish without it"
    return f"all end with exit code {max(codes)} and name agent 0"


def table(rows: list[dict[str, Any]]) -> str:
    """Lines of the page, in the order of ``LIES``."""
    ordered = sorted(rows, key=lambda row: (row["on_loss"], list(LIES).index(row["name"])))
    lines = [f"| {row['what']} | `{row['on_loss']}` | {outcome(row)} |\n" for row in ordered]
    return "| what agent 0 says or does | `--on-loss` | the three others |\n|---|---|---|\n" + "".join(lines)


def main(path: str) -> None:
    rows = {(row["name"], row["on_loss"]): row for row in map(json.loads, Path(path).read_text().splitlines())}
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + table(list(rows.values())) + END + tail)
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1])
