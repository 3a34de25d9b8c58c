"""The closing table: what is printed of a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from admmnet.errors import broken, counted
from admmnet.forms import ready
from admmnet.record.format import count, error, number, percent, seconds
from admmnet.record.forms import AgentEntry, Baseline, Summary
from admmnet.record.verdict import verdict_on
from admmnet.report.columns import FEW, Row, explained, marks_in, print_table
from admmnet.report.series import gate_line, joining, no_better_than, one_class, yardsticks


def run_text(summary: Mapping[str, Any], folder: Path) -> str:
    """Return the closing table as text, notes included."""
    text = StringIO()
    print_closing(Console(file=text, width=120, highlight=False, emoji=False), summary, folder)
    return "".join([text.getvalue(), *(f"note: {note}\n" for note in summary["notes"])])


def print_closing(out: Console, content: Mapping[str, Any], folder: Path, *, explain: bool = False) -> None:
    """Print the closing table of a run or a baseline, and where everything lies."""
    summary = msgspec.convert(content, ready(Summary))
    if summary.baseline is None:
        title, rows, below, lines = _network(summary)
    else:
        title, rows, below, lines = _baseline(summary, summary.baseline)
    mode, *verdict = verdict_on(summary, str(folder)).lines()
    out.print(broken(mode, out.file), markup=False, soft_wrap=True)
    what = f"{summary.algorithm} ({summary.method}) on {summary.data.name}"
    shown = print_table(f"{what}: {title}, {seconds(summary.seconds.total)}", rows, below, out)
    lines += [*verdict, f"run folder: {folder}   (admmnet ledger show {folder}; --explain explains the columns)"]
    if explain:
        others = ["network"] * (summary.baseline is None) + [words for words, _ in yardsticks(summary)]
        lines.append(explained([*shown, *marks_in(rows), *others]))
    for line in lines:
        out.print(broken(line, out.file), markup=False, soft_wrap=True)


Sections = tuple[str, list[Row], list[Row], list[str]]
"""End of the title, rows and closing rows of a table, and the lines below it."""


def _network(summary: Summary) -> Sections:
    """An agent a row, then the network's and what its error is held against."""
    privacy, entries, missed, metric = summary.privacy, summary.per_agent, summary.test_error, summary.metric
    last, parts = "test error" if metric == "error" else "test MSE", joining(entries)
    rows: list[Row] = [
        {
            "agent": entry.agent,
            "records": entry.records,
            "degree": entry.degree,
            "releases": f"{count(entry.releases)}{_state(entry, summary, parts)}",
            "rho spent": entry.rho,
            "eps proven": entry.epsilon_proven,
            "eps published": entry.epsilon_published,
            last: entry.test_error,
        }
        for entry in entries[:FEW]
    ]
    whole = {
        "agent": "network",
        "records": summary.data.train,
        "releases": count(sum(entry.releases for entry in entries)),
        "rho spent": privacy.rho_spent,
        "eps proven": privacy.epsilon_proven,
        "eps published": privacy.epsilon_published,
        last: missed.consensus,
    }
    where = f"{summary.agents} agents, {summary.topology}" if summary.topology else "one holder"
    each = f"{error(missed.mean, metric)} +- {error(missed.std, metric)} over agents"
    same = "the final model, the same at all agents"
    lines = _error(summary, f"the consensus (the agents' average vector), {each}" if missed.std else same)
    if (gate := gate_line(summary)) is not None:
        lines.append(f"gate:       {gate}")
    rows += [{"agent": "..."}] * (len(entries) > FEW)
    held = ({"agent": words, last: value} for words, value in yardsticks(summary))
    return f"{where}, {counted(summary.rounds, 'round')}, {summary.transport}", rows, [whole, *held], lines


def _state(entry: AgentEntry, summary: Summary, parts: Mapping[int, str]) -> str:
    """What else became of an agent's releases, in brackets."""
    name = str(entry.agent)
    if name in summary.away:
        return f" (away {', '.join(summary.away[name])})"
    found = [] if entry.refused_at is None else [f"refused at {entry.refused_at}"]
    found += ["far off"] * (name in summary.far_from_others)
    found = found or [parts[entry.agent]] if entry.agent in parts else found
    return "".join(f" ({words})" for words in found)


def _baseline(summary: Summary, facts: Baseline) -> Sections:
    """One row, and its privacy."""
    privacy, data, metric = summary.privacy, summary.data, summary.metric
    weight = "" if facts.regularisation is None else f", regularisation {number(facts.regularisation)}"
    row = {
        "records": data.train,
        "features": data.features,
        "epochs": facts.epochs,
        "steps": summary.steps,
        "batch": facts.batch,
        "noise multiplier": facts.noise_multiplier,
        "eps proven": privacy.epsilon_proven,
        "eps published": privacy.epsilon_published,
        "test error" if metric == "error" else "test MSE": summary.test_error.consensus,
    }
    lines = _error(summary, f"{count(data.test)} test records")
    if held := yardsticks(summary):
        lines.append("compare:    " + "; ".join(f"{words} {error(value, metric)}" for words, value in held))
    return f"{facts.loss} loss{weight}", [row], [], lines


def _error(summary: Summary, whose: str) -> list[str]:
    """The test figure, what goes with it, and whether it is worth anything."""
    found, metric = summary.test_error, summary.metric
    if not summary.data.test:
        return ["test error: none, there are no test records"]
    shown = f"{error(found.consensus, metric)} of {whose}"
    if metric == "error":
        macro = "" if found.macro is None else f"; macro {percent(found.macro)} (mean over the classes)"
        lines = [f"test error: {shown}{macro}"]
    else:
        r2 = "" if found.r2 is None else f"; R^2 {number(found.r2)}"
        root = f"root mean square {number(found.root_in_units)} in the target's own unit{r2}"
        lines = [f"test MSE:   {shown}, of targets scaled to [-1, 1]", f"            {root}"]
    if (guess := no_better_than(summary)) is not None:
        lines.append(f"            that is no better than {guess[0]}, {error(guess[1], metric)}")
    if (only := one_class(summary)) is not None:
        lines.append(f"            {only}")
    return lines
