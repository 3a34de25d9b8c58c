"""Figures that docs/benchmark.json keeps of a comparison; the site makes the tables of docs/results.md from them.

admmnet compare docs/benchmark.toml --json > benchmark.json
python -m tests.benchmarks.pages benchmark.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.processes.launch import ROOT


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Of what `admmnet compare --json` prints of a place, what the page and its readers need."""
    names = ("name", "epsilon", "epsilon_proven", "adjacency", "error", "spread", "errors", "releases", "bytes_sent")
    lines = [{key: one[key] for key in names} for one in found["lines"]]
    tuning = [{key: one[key] for key in ("algorithm", "epsilon", "chosen")} for one in found["tuning"]]
    same = {key: found[key] for key in ("delta", "data", "refused")}
    return same | {"tuning": tuning, "lines": lines}


def written(places: dict[str, Any]) -> str:
    """Text of docs/benchmark.json: a line of it for each line of a table."""
    parts = []
    for name, found in places.items():
        head = json.dumps({key: value for key, value in found.items() if key != "lines"})
        lines = ",\n  ".join(json.dumps(one) for one in found["lines"])
        parts.append(f'{json.dumps(name)}: {head[:-1]}, "lines": [\n  {lines}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    places = json.loads(Path(sys.argv[1]).read_text())
    (ROOT / "docs" / "benchmark.json").write_text(written({name: shown(found) for name, found in places.items()}))
