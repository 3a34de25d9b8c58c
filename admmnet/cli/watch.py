"""admmnet watch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from admmnet.cli.flags import PATH, asked, json_flag, lines, show
from admmnet.errors import RequestError, RunError
from admmnet.record.folder import PART
from admmnet.record.format import epsilon, error, seconds

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
    folder = _newest() if run is None else run
    deadline = time.monotonic() + wait
    while not (folder / "config.toml").exists():  # the first file of a run
        if time.monotonic() >= deadline:
            what = "is no run folder: it has no config.toml" if folder.exists() else "is not there"
            since = f" after {seconds(wait)}" if wait else ""
            remedy = "start the run first or, if it is still starting, give it time with --wait SECONDS"
            raise RequestError(f"{folder} {what}{since}; {remedy}")
        time.sleep(min(POLL, every))
    if once:
        sight = look(folder)
        if asked("json"):
            print(msgspec.json.format(msgspec.json.encode(sight), indent=2).decode())
        else:
            _show(folder, sight)
        raise click.exceptions.Exit(sight.verdict(stale))
    said, mode = None, None
    try:
        while said is None or sight.phase in ("running", "unknown"):
            if said is not None:
                time.sleep(every)
            sight = look(folder)
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
        raise RunError(f"the run in {folder} ended without a summary; {_last_words(folder)}")


def _newest() -> Path:
    """Run folder in runs/ whose settings were written last."""
    found = sorted(Path("runs").glob("*/config.toml"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RequestError("there is no run folder in runs/: name the folder to watch, admmnet watch RUN")
    return found[-1].parent


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
    last = [_last_words(folder)] if sight.phase == "broken" else []
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


def _last_words(folder: Path) -> str:
    """What a run that ended without a summary has spent, and how it goes on."""
    from admmnet.running.ends import last_words

    return last_words(folder, alone=(folder / PART).exists())
