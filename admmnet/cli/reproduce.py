"""admmnet reproduce."""

from __future__ import annotations

import click

from admmnet.cli.compare import GridProgress
from admmnet.cli.flags import debug_flag, notes, quiet_flag
from admmnet.papers import PAPERS


@click.command()
@click.argument("paper", type=click.Choice(PAPERS), metavar="|".join(PAPERS))
@click.option("--quick", is_flag=True, help="few seeds, few points: under three minutes on two idle cores")
@click.option("--data-dir", metavar="DIR", help="folder of the data sets, as for `run`")
@click.option("--seeds", type=int, metavar="N", help="runs of each point (default: the figure's own number)")
@click.option("--jobs", type=int, metavar="N", help="processes (default: as many as there are processors)")
@click.option("--ipums-brazil", metavar="FILE", help="your own IPUMS extract of Brazil, for ding2020's figure 7")
@click.option("--ipums-us", metavar="FILE", help="your own IPUMS extract of the US, for ding2020's figure 7")
@click.option("--simulate", is_flag=True, help="take your own extracts to be public: figures show them")
@click.option("--out", "-o", required=True, metavar="DIR", help="folder; the same again goes on with it")
@quiet_flag
@debug_flag
def reproduce(
    paper: str,
    quick: bool,
    data_dir: str | None,
    seeds: int | None,
    jobs: int | None,
    ipums_brazil: str | None,
    ipums_us: str | None,
    simulate: bool,
    out: str,
    quiet: bool,
    debug: bool,
) -> None:
    """Make the figures of a paper, and say which of its claims hold.

    Writes a CSV file and a picture for each figure, claims.csv and report.md. Sets that are not in the data folder have
    stand-ins, named in titles and text. The same call goes on where an earlier one stopped.
    """
    from admmnet.papers import Request
    from admmnet.papers import reproduce as make

    request = Request(
        paper,
        out,
        quick=quick,
        data_dir=data_dir,
        seeds=seeds,
        ipums_brazil=ipums_brazil,
        ipums_us=ipums_us,
        simulate=simulate,
    )
    with GridProgress(shown=not quiet) as progress:
        made = make(request, jobs=jobs, watch=progress)
    if made.undrawn is not None:
        notes(made.undrawn)
    if quiet:
        return
    for title, claims in made.claims.items():
        print(title)
        for claim in claims:
            print(f"  {claim.verdict}: {claim.words}{claim.place and f' ({claim.place})'}")
    print(f"written: {made.report}, {len(made.pictures)} pictures and their CSV files beside it")
