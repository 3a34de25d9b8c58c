"""admmnet watch, plot and report: a run while it goes on, pictures of runs, and one page of them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from admmnet.cli.flags import PATH, asked, debug_flag, json_flag, lines, out_flag, put, quiet_flag, show, talks
from admmnet.errors import CheckFailed, RequestError, RunError, counted
from admmnet.record.format import epsilon, error, seconds, size
from admmnet.running.ends import last_words

if TYPE_CHECKING:
    from admmnet.evidence.follow import Sight

POLL = 0.2
"""Seconds between looks for a folder that is not there yet."""
PHASES = {
    "running": "running",
    "finished": "finished",
    "stopped": "finished: stopped by on_round",
    "broken": "ended without a summary",
    "unknown": "not finished; whether it runs cannot be told on this file system",
}


@click.command()
@click.argument("run", required=False, type=PATH, metavar="[RUN]")
@click.option("--once", is_flag=True, help="show its present state, and end")
@json_flag
@click.option("--stale", type=click.FloatRange(min=0.0), metavar="SECONDS", help="with --once: 3 if nothing new came")
@click.option(
    "--wait", type=click.FloatRange(min=0.0), default=0.0, metavar="SECONDS", help="wait so long for the folder (0)"
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1, max=3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="between two looks",
)
def watch(run: Path | None, once: bool, stale: float | None, wait: float, every: float) -> None:
    """Watch a run through its folder: a line a look that sees something new.

    RUN is a run folder, also of one host's agent, of any transport, finished or not; by default the newest in
    runs/. It ends with the run. Nothing is verified: `admmnet ledger verify` does that.
    """
    from admmnet.evidence.follow import look

    if not once and (asked("json") or stale is not None):
        raise RequestError("--json and --stale go with --once")
    if run is None:
        found = sorted(Path("runs").glob("*/config.toml"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise RequestError("there is no run folder in runs/: name the folder to watch, admmnet watch RUN")
        run = found[-1].parent
    deadline = time.monotonic() + wait
    while not (run / "config.toml").exists():  # the first file of a run
        if time.monotonic() >= deadline:
            what = "is no run folder: it has no config.toml" if run.exists() else "is not there"
            since = f" after {seconds(wait)}" if wait else ""
            remedy = "start the run first or, if it is still starting, give it time with --wait SECONDS"
            raise RequestError(f"{run} {what}{since}; {remedy}")
        time.sleep(min(POLL, every))
    if once:
        sight = look(run)
        if asked("json"):
            print(msgspec.json.format(msgspec.json.encode(sight), indent=2).decode())
        else:
            _show(run, sight)
        raise click.exceptions.Exit(sight.verdict(stale))
    said, mode = None, None
    try:
        while said is None or sight.phase in ("running", "unknown"):
            if said is not None:
                time.sleep(every)
            sight = look(run)
            if mode is None and sight.mode is not None:
                mode = sight.mode.line()
                lines(f"mode:       {mode}")
            if (words := _line(sight)) != said:
                lines(words)
            said = words
    except KeyboardInterrupt as interrupt:
        interrupt.args = ("the run itself goes on",)
        raise
    if sight.phase == "broken":
        raise RunError(f"the run in {run} ended without a summary; {last_words(run)}")


def _show(folder: Path, sight: Sight) -> None:
    """Print a sight of a run, with its agents."""
    agents = [
        {
            "agent": seen.agent,
            "eps spent": seen.spent,
            "budget": seen.target,
            "releases": seen.releases,
            "own error": _figure(sight, seen.error),
            "": seen.state,
        }
        for seen in sight.agents
    ]
    mode = "not known yet" if sight.mode is None else sight.mode.line()
    last = [last_words(folder)] if sight.phase == "broken" else []
    show({"mode": mode, "folder": str(folder), "state": _line(sight), "agents": agents}, *last)


def _line(sight: Sight) -> str:
    parts = [PHASES[sight.phase], f"{sight.unit} {sight.done}" + f" of {sight.rounds}" * (sight.rounds is not None)]
    if sight.errors:
        parts.append(f"test error {_figure(sight, sight.errors[max(sight.errors)])}")
    if (most := sight.most_spent) is not None:
        parts.append(f"epsilon {epsilon(most.spent)} of {epsilon(most.target)} spent")
    elif sight.agents:
        parts.append("no budget")
    if sight.away:
        more = f" and {len(sight.away) - 4} more" if len(sight.away) > 4 else ""
        parts.append("away: " + ", ".join(f"agent {i}" for i in sight.away[:4]) + more)
    return ", ".join(parts)


def _figure(sight: Sight, value: float | None) -> str:
    """A test figure by the run's measure; while it runs, by its loss's."""
    from admmnet.evidence.follow import at
    from admmnet.solvers.losses import get_loss, tasks_of

    name, metric = at(sight.settings, "problem", "loss"), None if sight.summary is None else sight.summary.metric
    try:
        shares = "real" not in tasks_of(get_loss(str(name))) if metric is None else metric == "error"
    except RequestError:  # a loss of a package that is not installed here
        shares = False
    return error(value, "error" if shares else None)


_RUNS = click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")


@click.command()
@_RUNS
@out_flag("FILE", "picture: .png, .svg or .pdf")
@click.option(
    "--panels", metavar="NAME,...", help="error, loss, privacy, gap, broadcasts, graph (default: all that the run has)"
)
@click.option("--width", type=click.Choice(["column", "page"]), default="page", help="3.4 or 7 inches")
@click.option("--title", metavar="TEXT", help="heading (default: data and method)")
def plot(runs: tuple[Path, ...], out: Path, panels: str | None, width: Any, title: str | None) -> None:
    """Draw error, loss, privacy, consensus gap and broadcasts of runs, and the graph of one."""
    from admmnet.report.run_plot import plot_run

    if out.is_dir():
        raise RequestError(f"-o {out} is a folder: name a picture in it, such as {out / 'run.png'}")
    plot_run(*runs, panels=panels, width=width, title=title, file=out)
    print(f"picture: {out}")


@click.command()
@_RUNS
@click.option(
    "--out",
    "-o",
    type=PATH,
    default="report.html",
    show_default=True,
    metavar="FILE",
    help=".html file, replaced if it exists",
)
@quiet_flag
@debug_flag
def report(runs: tuple[Path, ...], out: Path) -> None:
    """Verify run folders and show them on one page that needs no network.

    Of several runs the page begins with a comparison. A ledger that does not verify is said in red on top of
    the page; the page is made all the same, and the exit code is 1.
    """
    from admmnet.report.page import make_report

    if out.is_dir():
        raise RequestError(f"-o {out} is a folder: name a page in it, such as {out / 'report.html'}")
    if out.suffix.lower() not in (".html", ".htm"):
        raise RequestError(f"{out}: a report ends in .html, got {out.suffix!r}")
    if not out.parent.is_dir():
        raise RequestError(f"{out}: there is no folder {out.parent}: make it, or name another file")
    made = make_report(runs)
    put(made.html, out)
    if talks():
        print(f"{out}: {counted(len(runs), 'run')}, {size(out.stat().st_size)}")
    for fault in made.faults[1:11]:
        print(f"also: {fault}", file=sys.stderr)
    if made.faults:
        more = "" if len(made.faults) == 1 else f" (and {len(made.faults) - 1} more)"
        raise CheckFailed(f"{made.faults[0]}{more}; the page {out} says so on top")
