"""admmnet reproduce."""

from __future__ import annotations

from typing import Any

import click

from admmnet.cli.compare import GridProgress
from admmnet.cli.flags import debug_flag, executor_flag, jobs_flag, notes, quiet_flag
from admmnet.cli.settings import setting_flags
from admmnet.papers import PAPERS


@click.command()
@click.argument("paper", type=click.Choice(PAPERS), metavar="|".join(PAPERS))
@click.option("--quick", is_flag=True, help="few seeds and points: under three minutes")
@setting_flags("data_dir")
@click.option("--seeds", type=int, metavar="N", help="runs of each point (default: the figure's)")
@jobs_flag
@executor_flag
@click.option("--out", "-o", required=True, metavar="DIR", help="folder; the same again goes on with it")
@quiet_flag
@debug_flag
@click.pass_obj
def reproduce(executor: Any, /, jobs: int | None, quiet: bool, debug: bool, **asked: Any) -> None:
    """Make the figures of a paper, and say which of its claims hold.

    Writes a CSV file and a picture for each figure, claims.csv and report.md. Sets that are not in the data folder have
    stand-ins, named in titles and text; those that are there count as public. The same call goes on where an earlier
    one stopped.
    """
    from admmnet.papers import Request
    from admmnet.papers import reproduce as make

    with GridProgress(shown=not quiet) as progress:
        made = make(Request(**asked), jobs=jobs, watch=progress, executor=executor)
    if made.undrawn is not None:
        notes(made.undrawn)
    if quiet:
        return
    for title, claims in made.claims.items():
        print(title)
        for theirs, ours, holds, place in claims:
            print(f"  {holds} ({ours}): {theirs}{place and f' ({place})'}")
    print(f"written: {made.report}, {len(made.pictures)} pictures and their CSV files beside it")
