"""Pages of docs that are made from results.

admmnet compare docs/benchmark.toml --json > benchmark.json
python -m tests.benchmarks.pages benchmark.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.processes.launch import ROOT

from .common import row

DOCS = ROOT / "docs"
BEGIN, END = "<!-- made by tests.benchmarks.pages -->\n", "<!-- end -->\n"
MIDDLE = 1.0
"""Epsilon by which a table is sorted, and whose messages it has."""


def benchmark(places: dict[str, Any]) -> str:
    """A table for each place, from the lowest error on."""
    return "\n".join(place(name, found) for name, found in places.items())


def place(name: str, found: dict[str, Any]) -> str:
    """Facts and references of a place, and its table: a line a method, from the lowest error at ``MIDDLE`` on."""
    (facts,) = found["data"]
    real = facts["task"] == "real"
    private = [one for one in found["lines"] if one["epsilon"] is not None]
    epsilons = sorted({one["epsilon"] for one in private})

    def error(value: float) -> str:
        return f"{value:.4f}" if real else f"{100 * value:.2f}"

    known = [] if facts["pooled"] is None else [f"pooled {error(facts['pooled'])}"]
    plain = (one for one in found["lines"] if one["epsilon"] is None)
    known += [f"`{one['name']}` {error(one['error'])} by {one['releases']:g} messages" for one in plain]
    without = f"; without privacy {', '.join(known)}" if known else ""
    lines = [
        f"## {name}\n",
        f"{facts['train']:,} training and {facts['test']:,} test records, {facts['features']} features. "
        f"{'Mean squared error' if real else 'Error in %'}: always the "
        f"{'mean' if real else 'larger class'} {error(facts['larger_class'])}{without}.\n",
        row("method", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "messages", "MB"),
        "|---" * (3 + len(epsilons)) + "|",
    ]
    by = {(one["name"], one["epsilon"]): one for one in private}
    middle = sorted((one for one in private if one["epsilon"] == MIDDLE), key=lambda one: float(one["error"]))
    for one in middle:
        whole = [by.get((one["name"], epsilon)) for epsilon in epsilons]
        sent = (f"{one['releases']:g}", f"{one['bytes_sent'] / 1e6:.3g}") if one["bytes_sent"] else ("-", "-")
        lines.append(
            row(
                f"`{one['name']}`{'' if one['adjacency'] == 'replace-one' else ' *'}",
                *("-" if own is None else f"{error(own['error'])} ({error(own['spread'])})" for own in whole),
                *sent,
            )
        )
    lines += [f"\nRefused: {one['reason']}." for one in found["refused"]]
    return "\n".join([*lines, ""])


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Of what `admmnet compare --json` prints of a place, what the page and its readers need."""
    names = ("name", "epsilon", "epsilon_proven", "adjacency", "error", "spread", "errors", "releases", "bytes_sent")
    lines = [{key: one[key] for key in names} for one in found["lines"]]
    tuning = [{key: one[key] for key in ("algorithm", "epsilon", "chosen")} for one in found["tuning"]]
    same = {key: found[key] for key in ("delta", "data", "refused")}
    return same | {"tuning": tuning, "lines": lines}


def fill(page: str, content: str) -> None:
    """Put what was made between the marks of a page."""
    head, _, rest = (DOCS / page).read_text().partition(BEGIN)
    (DOCS / page).write_text(head + BEGIN + content + END + rest.partition(END)[2])


def main(path: Path) -> None:
    places = {name: shown(found) for name, found in json.loads(path.read_text()).items()}
    (DOCS / "benchmark.json").write_text(written(places))
    fill("benchmark.md", benchmark(places))


def written(places: dict[str, Any]) -> str:
    """Text of docs/benchmark.json: a line of it for each line of a table."""
    parts = []
    for name, found in places.items():
        head = json.dumps({key: value for key, value in found.items() if key != "lines"})
        lines = ",\n  ".join(json.dumps(one) for one in found["lines"])
        parts.append(f'{json.dumps(name)}: {head[:-1]}, "lines": [\n  {lines}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
