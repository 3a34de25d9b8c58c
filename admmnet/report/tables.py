"""The closing table: what is printed of a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from admmnet.errors import broken, counted
from admmnet.record.format import count, error, number, percent, seconds
from admmnet.record.forms import AgentEntry, Summary
from admmnet.record.verdict import verdict_on
from admmnet.report.columns import FEW, Row, explained, marks_in, print_table
from admmnet.report.series import gate_line, joining
from admmnet.running.yardsticks import no_better_than, one_class, yardsticks

NO_TEST = "test error: none, there are no test records"
SAME = "the final model, the same at all agents"


def run_text(summary: Mapping[str, Any], folder: Path) -> str:
    """Return the closing table as text, notes included."""
    text = StringIO()
    print_closing(Console(file=text, width=120, highlight=False, emoji=False), summary, folder)
    return "".join([text.getvalue(), *(f"note: {note}\n" for note in summary["notes"])])


def print_closing(out: Console, summary: Mapping[str, Any], folder: Path, *, explain: bool = False) -> None:
    """Print the closing table of a run or a baseline, and where everything lies."""
    lone = "baseline" in summary
    title, rows, below, lines = (_baseline if lone else _network)(summary)
    mode, *verdict = verdict_on(msgspec.convert(summary, Summary), str(folder)).lines()
    out.print(broken(mode, out.file), markup=False, soft_wrap=True)
    shown = print_table(title, rows, below, out)
    lines += verdict
    lines.append(f"run folder: {folder}   (admmnet ledger show {folder}; --explain explains the columns)")
    if explain:
        others = ["network"] * (not lone) + [words for words, _ in yardsticks(summary)]
        lines.append(explained([*shown, *marks_in(rows), *others]))
    for line in lines:
        out.print(broken(line, out.file), markup=False, soft_wrap=True)


Told = tuple[str, list[Row], list[Row], list[str]]
"""Title, rows and closing rows of a table, and the lines below it."""


def _network(summary: Mapping[str, Any]) -> Told:
    """An agent a row, then the network's and what its error is held against."""
    privacy, entries, missed = summary["privacy"], summary["per_agent"], summary["test_error"]
    last = "test error" if summary["metric"] == "error" else "test MSE"
    parts = joining(msgspec.convert(entries, list[AgentEntry]))
    rows = []
    for entry in entries[:FEW]:
        state = _state(entry, summary, parts)
        rows.append(
            {
                "agent": entry["agent"],
                "records": entry["records"],
                "degree": entry["degree"],
                "releases": f"{count(entry['releases'])}{f' ({state})' * bool(state)}",
                "rho spent": entry["rho"],
                "eps proven": entry["epsilon_proven"],
                "eps published": entry["epsilon_published"],
                last: entry["test_error"],
            }
        )
    whole = {
        "agent": "network",
        "records": summary["data"]["train"],
        "releases": count(sum(entry["releases"] for entry in entries)),
        "rho spent": privacy["rho_spent"],
        "eps proven": privacy["epsilon_proven"],
        "eps published": privacy["epsilon_published"],
        last: missed["consensus"],
    }
    where = f"{summary['agents']} agents, {summary['topology']}" if summary["topology"] else "one holder"
    title = f"{_what(summary)}: {where}, {counted(summary['rounds'], 'round')}, {summary['transport']}"
    each = f"{_missed(summary, missed['mean'])} +- {_missed(summary, missed['std'])} over agents"
    whose = f" of the consensus (the agents' average vector), {each}" if missed["std"] else f" of {SAME}"
    lines = _error(summary, whose)
    if (gate := gate_line(msgspec.convert(summary, Summary))) is not None:
        lines.append(f"gate:       {gate}")
    cut = [{"agent": "..."}] * (len(entries) > FEW)
    held = ({"agent": words, last: value} for words, value in yardsticks(summary))
    return f"{title}, {seconds(summary['seconds']['total'])}", [*rows, *cut], [whole, *held], lines


def _state(entry: Mapping[str, Any], summary: Mapping[str, Any], parts: Mapping[int, str]) -> str:
    """What else became of an agent's releases."""
    if away := summary.get("away", {}).get(str(entry["agent"])):
        return f"away {', '.join(away)}"
    refused = [] if entry["refused_at"] is None else [f"refused at {entry['refused_at']}"]
    if str(entry["agent"]) in summary.get("far_from_others", {}):
        return ") (".join([*refused, "far off"])
    return refused[0] if refused else parts.get(entry["agent"], "")


def _baseline(summary: Mapping[str, Any]) -> Told:
    """One row, and its privacy."""
    privacy, facts, data = summary["privacy"], summary["baseline"], summary["data"]
    weight = "" if facts["regularisation"] is None else f", regularisation {number(facts['regularisation'])}"
    row = {
        "records": data["train"],
        "features": data["features"],
        "epochs": facts["epochs"],
        "steps": summary["steps"],
        "batch": facts["batch"],
        "noise multiplier": facts["noise_multiplier"],
        "eps proven": privacy["epsilon_proven"],
        "eps published": privacy["epsilon_published"],
        "test error" if summary["metric"] == "error" else "test MSE": summary["test_error"]["consensus"],
    }
    lines = _error(summary, f" of {count(data['test'])} test records")
    if held := yardsticks(summary):
        lines.append("compare:    " + "; ".join(f"{words} {_missed(summary, value)}" for words, value in held))
    title = f"{_what(summary)}: {facts['loss']} loss{weight}, {seconds(summary['seconds']['total'])}"
    return title, [row], [], lines


def _what(summary: Mapping[str, Any]) -> str:
    return f"{summary['algorithm']} ({summary['method']}) on {summary['data']['name']}"


def _missed(summary: Mapping[str, Any], value: float | None) -> str:
    """Return a test figure of a run: a percentage of errors, or a mean square."""
    return error(value, summary["metric"])


def _error(summary: Mapping[str, Any], whose: str) -> list[str]:
    """The test figure, what goes with it, and whether it is worth anything."""
    found = summary["test_error"]
    if not summary["data"]["test"]:
        return [NO_TEST]
    shown = _missed(summary, found["consensus"])
    if summary["metric"] == "error":
        macro = "" if found.get("macro") is None else f"; macro {percent(found['macro'])} (mean over the classes)"
        lines = [f"test error: {shown}{whose}{macro}"]
    else:
        r2 = "" if found.get("r2") is None else f"; R^2 {number(found['r2'])}"
        root = f"root mean square {number(found['root_in_units'])} in the target's own unit{r2}"
        lines = [f"test MSE:   {shown}{whose}, of targets scaled to [-1, 1]", f"            {root}"]
    if (guess := no_better_than(summary)) is not None:
        lines.append(f"            that is no better than {guess[0]}, {_missed(summary, guess[1])}")
    if (only := one_class(summary)) is not None:
        lines.append(f"            {only}")
    return lines
