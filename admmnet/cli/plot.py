"""admmnet plot: pictures of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from admmnet.cli.flags import PATH, out_flag
from admmnet.errors import RequestError


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
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
