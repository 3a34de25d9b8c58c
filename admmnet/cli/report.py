"""admmnet plot, admmnet report: pictures of runs, and one page of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from admmnet.cli.flags import PATH, debug_flag, out_flag, put, quiet_flag, talks
from admmnet.errors import CheckFailed, RequestError, counted
from admmnet.record.format import size

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
