"""Tables for people."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from decimal import ROUND_CEILING, Context
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from admmnet.cli import columns
from admmnet.cli.fitted import show, table
from admmnet.config.modes import mode_words
from admmnet.errors import counted
from admmnet.running.yardsticks import no_better_than, one_class, yardsticks

NO_TEST = "test error: none, there are no test records"
FEW = 40
"""Agents shown one by one; of more, the first ones."""


def console() -> Console:
    """Console on standard output; wide enough for a table when it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, emoji=False)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table cell; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}g}"


def epsilon(value: float | None, digits: int = 4) -> str:
    """Return an epsilon for a table cell, rounded up: none may look smaller than it is.

    A relative 1e-9 is taken for rounding, so that a budget of 1 that was used up to 0.9999999999 or exceeded by as
    much reads 1.
    """
    if value is None:
        return "-"
    up = Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value * (1.0 - 1e-9))
    return f"{float(up):.{digits}g}"


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    return "-" if value is None else f"{100 * value:.2f}%"


def figure(summary: Mapping[str, Any], value: float | None) -> str:
    """Return a test figure of a run: a percentage of errors, or a mean square."""
    return percent(value) if summary["metric"] == "error" else number(value)


def print_run(summary: Mapping[str, Any], folder: Path, told: Collection[str] = ()) -> None:
    """Print the closing table of a run or a baseline, and where everything lies; further notes to standard error."""
    _tell_run(console(), summary, folder)
    for note in summary["notes"]:
        if note not in told:
            print(f"note: {note}", file=sys.stderr)


def run_text(summary: Mapping[str, Any], folder: Path) -> str:
    """Return the closing table as text, notes included."""
    out = Console(file=StringIO(), width=120, highlight=False, emoji=False)
    _tell_run(out, summary, folder)
    assert isinstance(out.file, StringIO)
    return "".join([out.file.getvalue(), *(f"note: {note}\n" for note in summary["notes"])])


def _say(out: Console, line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)


def _tell_run(out: Console, summary: Mapping[str, Any], folder: Path) -> None:
    grid = (_tell_baseline if "baseline" in summary else _tell_network)(out, summary)
    _say(out, f"run folder: {folder}   (admmnet ledger show {folder}; --explain says what the columns mean)")
    dependent = summary["data"].get("preprocessing") == "data-dependent"
    words = mode_words(summary["mode"], seeded=summary["seeded"], dependent=dependent)
    _say(out, f"mode:       {words}")
    if columns.asked():
        rows = ["network"] * ("baseline" not in summary) + [words for words, _ in yardsticks(summary)]
        _say(out, columns.explained([*headers(grid), *rows]))


def headers(grid: Table) -> list[str]:
    """Names of a table's columns."""
    return [str(column.header) for column in grid.columns]


def _tell_network(out: Console, summary: Mapping[str, Any]) -> Table:
    """Say an agent a row, then the network's line."""
    from admmnet.report.series import joining  # loaded late, as all of the report is

    privacy = summary["privacy"]
    where = f"{summary['agents']} agents, {summary['topology']}" if summary["topology"] else "one holder"
    title = (
        f"{summary['algorithm']} ({summary['method']}) on {summary['data']['name']}: {where}, "
        f"{counted(summary['rounds'], 'round')}, {summary['transport']}, {summary['seconds']['total']:.1f} s"
    )
    grid = table(
        title,
        "agent",
        "records",
        "degree",
        "releases",
        "rho spent",
        "eps proven",
        "eps published",
        "test error" if summary["metric"] == "error" else "test MSE",
    )
    parts = joining({entry["agent"]: entry for entry in summary["per_agent"]})
    for entry in summary["per_agent"][:FEW]:
        stopped = "" if entry["refused_at"] is None else f" (refused at {entry['refused_at']})"
        if entry["lost_at"] is not None:
            stopped = f" (lost at {entry['lost_at']})"
        elif str(entry["agent"]) in summary.get("far_from_others", {}):
            stopped += " (far off)"
        elif entry["agent"] in parts and not stopped:
            stopped = f" ({parts[entry['agent']]})"
        grid.add_row(
            str(entry["agent"]),
            str(entry["records"]),
            str(entry["degree"]),
            f"{entry['releases']}{stopped}",
            number(entry["rho"]),
            epsilon(entry["epsilon_proven"]),
            epsilon(entry["epsilon_published"]),
            figure(summary, entry["test_error"]),
        )
    if len(summary["per_agent"]) > FEW:
        grid.add_row("...", *[""] * 7)
    grid.add_section()
    grid.add_row(
        "network",
        str(summary["data"]["train"]),
        "",
        str(sum(entry["releases"] for entry in summary["per_agent"])),
        number(privacy["rho_spent"]),
        epsilon(privacy["epsilon_proven"]),
        epsilon(privacy["epsilon_published"]),
        figure(summary, summary["test_error"]["consensus"]),
        style="bold",
    )
    for words, value in yardsticks(summary):
        grid.add_row(words, *[""] * 6, figure(summary, value))
    show(out, grid)
    error = summary["test_error"]
    own = f"{figure(summary, error['mean'])} +- {figure(summary, error['std'])} over agents"
    averages = {"mean": "agents' average vector", "screened": "average of the agents' vectors, far ones left out"}
    vector = averages[summary.get("aggregate", "mean")]
    differ = f" of the consensus (the {vector}), {own}"
    _tell_error(out, summary, differ if error["std"] else " of the model that every agent holds")
    _tell_privacy(out, summary, "none; vectors are sent as they are")
    if privacy["account"] is not None:
        spent = epsilon(privacy["account_epsilon_spent"])
        _say(out, f"account:    {privacy['account']}: epsilon {spent} spent over all runs{_over_runs(privacy)}")
    return grid


def _tell_error(out: Console, summary: Mapping[str, Any], whose: str) -> None:
    """Say the test figure, what goes with it, and whether it is worth anything."""
    error = summary["test_error"]
    if not summary["data"]["test"]:
        _say(out, NO_TEST)
        return
    shown = figure(summary, error["consensus"])
    if summary["metric"] == "error":
        macro = "" if error.get("macro") is None else f"; macro {percent(error['macro'])} (mean over the classes)"
        _say(out, f"test error: {shown}{whose}{macro}")
    else:
        _say(out, f"test MSE:   {shown}{whose}, of targets scaled to [-1, 1]")
        root = f"root mean square {number(error['root_in_units'])} in the target's own unit"
        _say(out, f"            {root}" + (f"; R^2 {number(error['r2'])}" if error.get("r2") is not None else ""))
    if (guess := no_better_than(summary)) is not None:
        _say(out, f"            that is no better than {guess[0]}, {figure(summary, guess[1])}")
    if (only := one_class(summary)) is not None:
        _say(out, f"            {only}")


def _tell_privacy(out: Console, summary: Mapping[str, Any], none: str) -> None:
    privacy = summary["privacy"]
    if privacy["epsilon_target"] is None:
        _say(out, f"privacy:    {none}")
        return
    proven = "nothing is proven"
    if privacy["epsilon_proven"] is not None:
        figure = epsilon(privacy["epsilon_proven"])
        proven = f"proven for the worst case: epsilon {figure} a record"
        if summary["seeded"]:
            proven = f"with secret noise it would be proven for the worst case: epsilon {figure} a record"
        if privacy.get("trust") == "masked":
            proven += f", if {_together(privacy['colluders'])}"
    _say(
        out,
        f"privacy:    target ({privacy['epsilon_target']:g}, {privacy['delta']:g}) by the {privacy['accountant']} "
        f"accountant; {proven}, {privacy['adjacency']}",
    )
    if privacy.get("trust") == "masked":
        _tell_trust(out, privacy)
    if privacy["epsilon_group"] is not None:
        be = "would be" if summary["seeded"] else "is"
        _say(
            out,
            f"group:      a person with {privacy['group_size']} records, wherever they are held, {be} promised "
            f"epsilon {epsilon(privacy['epsilon_group'])} of this run",
        )


def _tell_trust(out: Console, privacy: Mapping[str, Any]) -> None:
    """Say both epsilons of masked sums, and under which trust each holds."""
    together = _together(privacy["colluders"])
    _say(
        out,
        f"trust:      A: epsilon {epsilon(privacy['epsilon_proven'])} as long as {together}; it rests on the masks' "
        "cryptography",
    )
    _say(
        out,
        f"            B: epsilon {epsilon(privacy['epsilon_if_all_collude'])} if all others work together, or the "
        "masks are broken; it rests on each agent's own noise",
    )


def _over_runs(privacy: Mapping[str, Any]) -> str:
    """Under which trust an account's epsilon holds; nothing where no run of it masked sums."""
    if (colluders := privacy.get("account_colluders")) is None:
        return ""
    second = epsilon(privacy["account_epsilon_if_all_collude"])
    return f", as long as {_together(colluders)}; {second} if all others work together, or masks are broken"


def _together(colluders: int) -> str:
    if not colluders:
        return "no other agent looks (K = 0: it holds against those who listen, alone)"
    return f"at most {colluders} other {'agent works' if colluders == 1 else 'agents work'} together against it"


def _tell_baseline(out: Console, summary: Mapping[str, Any]) -> Table:
    """Say one row, and its privacy."""
    privacy, facts, error = summary["privacy"], summary["baseline"], summary["test_error"]
    weight = "" if facts["regularisation"] is None else f", regularisation {facts['regularisation']:g}"
    grid = table(
        f"{summary['algorithm']} ({summary['method']}) on {summary['data']['name']}: {facts['loss']} loss{weight}, "
        f"{summary['seconds']['total']:.1f} s",
        *("records", "features", "epochs", "steps", "batch", "noise multiplier", "eps proven", "eps published"),
        "test error" if summary["metric"] == "error" else "test MSE",
    )
    grid.add_row(
        *(f"{summary['data'][name]:,}" for name in ("train", "features")),
        f"{facts['epochs']:,}",
        f"{summary['steps']:,}",
        "-" if facts["batch"] is None else f"{facts['batch']:,}",
        number(facts["noise_multiplier"]),
        epsilon(privacy["epsilon_proven"]),
        epsilon(privacy["epsilon_published"]),
        figure(summary, error["consensus"]),
    )
    show(out, grid)
    _tell_error(out, summary, f" of {summary['data']['test']:,} test records")
    if held := yardsticks(summary):
        _say(out, "compare:    " + "; ".join(f"{words} {figure(summary, value)}" for words, value in held))
    _tell_privacy(out, summary, "none; the model is a function of the records without noise")
    return grid


def print_plan(facts: Mapping[str, Any]) -> None:
    """Print what a baseline would draw and what that costs."""
    print(
        f"{facts['algorithm']} ({facts['method']}) on {facts['data']}: {facts['records']:,} records, "
        f"{facts['features']:,} features, {facts['loss']} loss, {facts['steps']:,} steps"
    )
    if facts["epsilon_target"] is None:
        print("no privacy: there is no noise")
        return
    grid = table("", "mechanism", "pays for", "parameters", "rho", "eps alone", "rho published")
    for column in grid.columns[:3]:
        column.justify = "left"
    grid.columns[2].no_wrap = False
    for charge in facts["charges"]:
        values = (f"{name} {short(value)}" for name, value in charge["parameters"].items())
        grid.add_row(
            charge["mechanism"],
            charge["pays_for"],
            ", ".join(values),
            number(charge["rho"]),
            epsilon(charge["epsilon_alone"]),
            number(charge["rho_published"]),
        )
    show(console(), grid)
    print(
        f"budget ({facts['epsilon_target']:g}, {facts['delta']:g}) by the {facts['accountant']} accountant; "
        f"worst case: epsilon {epsilon(facts['epsilon_proven'], 6)} proven, "
        f"{epsilon(facts['epsilon_published'], 6)} published, a record, {facts['adjacency']}"
    )


def short(value: Any) -> str:
    """Return a parameter of an event: a number with few digits, or its word."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
