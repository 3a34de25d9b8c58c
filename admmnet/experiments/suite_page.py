"""The benchmark as a page: what was measured at every place, from the lowest error on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admmnet.experiments.parsing import short

_HEAD = """# Benchmark

Methods side by side on fixed records, networks, budgets and seeds. All settings are automatic: nothing was tuned, and
no test record chose anything. Made by

```bash
admmnet compare --suite{quick} --data-dir DIR -o runs/benchmark
```

which writes this page and [benchmark.json](benchmark.json), with the error of every seed;
[how to add a method](compare.md#the-suite).

- Epsilon is that of every agent, at delta {delta:g}; `proven` is the proven accountant's worst case. It is for
  replace-one, but of methods marked * for zero-out; these have all records in one place.
- The error is of the model at the end, on test records: mean and sample standard deviation over the noise of seeds
  {seeds}. `admm` has no privacy, and no noise.
- `NAME:published:proven` is the paper's algorithm with its own constants, and noise that gives the proven epsilon.
  Tuned constants give lower errors ([reproduction](reproduction.md)).
- Messages are vectors that agents release, each to all neighbours; MB are what that sends.
- Seconds are of one run, several side by side, on the machine where the file was made: compare them within the page.
"""


def page_of(content: Mapping[str, Any]) -> str:
    """Page of what ``benchmark.json`` holds."""
    suite = content["suite"]
    seeds = f"{suite['seeds'][0]} to {suite['seeds'][-1]}"
    quick = "" if len(suite["places"]) > 1 else " --quick"
    parts = [_HEAD.format(quick=quick, delta=suite["delta"], seeds=seeds)]
    for place in suite["places"]:
        facts = content["places"].get(place["name"])
        rows = [row for row in content["rows"] if row["place"] == place["name"]]
        if facts is not None and rows:
            parts.append(_place(place, facts, rows))
    return "\n".join(parts)


def _place(place: Mapping[str, Any], facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    real = facts["task"] == "real"
    pooled = "" if facts["pooled"] is None else f"; without privacy, pooled: {_error(facts['pooled'], real)}"
    guess = "the mean" if real else "the larger class"
    lines = [
        f"## {place['name']}",
        "",
        f"`--data {place['data']} --topology {place['topology']}`: {facts['train']:,} training and "
        f"{facts['test']:,} test records, {facts['features']} features. Always {guess}: "
        f"{_error(facts['larger_class'], real)}{pooled}.",
        "",
        f"| epsilon | method | proven | {'mean squared error' if real else 'error in %'} | messages | MB | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["epsilon"] or 1e99, row["error"])):
        star = "" if row["adjacency"] == "replace-one" else " *"
        spread = "" if row["spread"] is None or row["epsilon"] is None else f" +- {_error(row['spread'], real)}"
        cells = (
            "none" if row["epsilon"] is None else short(row["epsilon"]),
            f"`{row['method']}`{star}",
            "-" if row["epsilon_proven"] is None else f"{row['epsilon_proven']:.3g}",
            f"{_error(row['error'], real)}{spread}".replace(" %", ""),
            *((f"{row['messages']:g}", f"{row['bytes'] / 1e6:.3g}") if row["bytes"] else ("-", "-")),
            f"{row['seconds']:.{0 if row['seconds'] >= 10.0 else 1}f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _error(value: float, real: bool) -> str:
    return f"{value:.4f}" if real else f"{100 * value:.2f} %"
