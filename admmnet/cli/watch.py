"""admmnet watch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from admmnet.cli.flags import PATH
from admmnet.errors import RequestError, RunError
from admmnet.record.format import seconds

if TYPE_CHECKING:
    from admmnet.evidence.follow import Sight, Watcher

POLL = 0.2
"""Seconds between looks for a folder that is not there yet."""


@click.command()
@click.argument("run", required=False, type=PATH, metavar="[RUN]")
@click.option("--once", is_flag=True, help="show its present state, and end")
@click.option("--json", "as_json", is_flag=True, help="with --once: print JSON")
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
def watch(run: Path | None, once: bool, as_json: bool, stale: float | None, wait: float, every: float) -> None:
    """Watch a run through its folder: rounds, error, epsilon spent, who is away.

    RUN is a run folder, also of one host's agent, of any transport, finished or not; by default the newest in
    runs/. It ends with the run. Nothing is verified but receipts: `admmnet ledger verify` does that.
    """
    from admmnet.evidence.follow import Watcher

    if not once and (as_json or stale is not None):
        raise RequestError("--json and --stale go with --once")
    watcher = Watcher(_newest() if run is None else run)
    deadline = time.monotonic() + wait
    while not watcher.there:
        if time.monotonic() >= deadline:
            what = "is no run folder: it has no config.toml" if watcher.folder.exists() else "is not there"
            since = f" after {seconds(wait)}" if wait else ""
            remedy = "start the run first or, if it is still starting, give it time with --wait SECONDS"
            raise RequestError(f"{watcher.folder} {what}{since}; {remedy}")
        time.sleep(min(POLL, every))
    if once:
        raise click.exceptions.Exit(_print(watcher, stale, as_json=as_json))
    try:
        sight = _follow(watcher, every)
    except KeyboardInterrupt as error:
        error.args = ("the run itself goes on",)
        raise
    if sight.phase == "broken":
        raise RunError(f"the run in {watcher.folder} ended without a summary; {_words(watcher)}")


def _newest() -> Path:
    """Run folder in runs/ whose settings were written last."""
    found = sorted(Path("runs").glob("*/config.toml"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RequestError("there is no run folder in runs/: name the folder to watch, admmnet watch RUN")
    return found[-1].parent


def _follow(watcher: Watcher, every: float) -> Sight:
    """Show the run until it has ended; return the last sight of it."""
    if not sys.stdout.isatty():
        return _tell(watcher, every)
    from rich.live import Live

    from admmnet.cli.frame import Screen
    from admmnet.report.columns import console

    out, frame = console(), Screen(watcher.folder)
    sight = watcher.look()
    with Live(frame.of(sight, out), console=out, auto_refresh=False) as live:
        while not sight.over:
            time.sleep(every)
            sight = watcher.look()
            live.update(frame.of(sight, out), refresh=True)
    return sight


def _tell(watcher: Watcher, every: float) -> Sight:
    """Say a line a look that has something new."""
    from admmnet.cli.frame import line

    said, mode = None, None
    while True:
        sight = watcher.look()
        if mode is None and sight.mode is not None:
            mode = sight.mode.line()
            print(f"mode:       {mode}", flush=True)
        words = line(sight)
        if words != said:
            print(words, flush=True)
        if sight.over:
            return sight
        said = words
        time.sleep(every)


def _print(watcher: Watcher, stale: float | None, *, as_json: bool) -> int:
    """Show the run once; return the exit code."""
    from admmnet.cli.frame import Screen
    from admmnet.report.columns import console

    out, sight = console(), watcher.look()
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(sight), indent=2).decode())
    else:
        out.print(Screen(watcher.folder).of(sight, out, whole=True))
        if sight.phase == "broken":
            print(_words(watcher))
    return sight.verdict(stale)


def _words(watcher: Watcher) -> str:
    """What a run that ended without a summary has spent, and how it goes on."""
    from admmnet.running.ends import last_words

    return last_words(watcher.folder, alone=watcher.alone)
