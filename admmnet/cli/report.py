"""admmnet report."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import drafted


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="page to write, .html; replaced if it exists",
)
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@click.option("--debug", is_flag=True, help="show the traceback of an error")
def report(runs: tuple[Path, ...], out: Path, quiet: bool, debug: bool) -> None:
    """Verify run folders and show them on one page that needs no network.

    Of several runs the page begins with a comparison. A ledger that does not verify is said in red on top of
    the page; the page is made all the same, and the exit code is 1.
    """
    from admmnet.report.html import make_report

    if out.is_dir():
        raise RequestError(f"-o {out} is a folder: name a page in it, such as {out / 'report.html'}")
    if out.suffix.lower() not in (".html", ".htm"):
        raise RequestError(f"{out}: a report ends in .html, got {out.suffix!r}")
    if not out.parent.is_dir():
        raise RequestError(f"{out}: there is no folder {out.parent}: make it, or name another file")
    made = make_report(runs)
    content = made.html.encode("utf-8", "backslashreplace")
    try:
        with drafted(out) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise RequestError(f"{out}: cannot be written: {error.strerror}") from None
    if not quiet:
        print(f"{out}: {len(runs)} run{'s' if len(runs) > 1 else ''}, {len(content) / 1e6:.2f} MB")
    for fault in made.faults[1:11]:
        print(f"also: {fault}", file=sys.stderr)
    if made.faults:
        more = "" if len(made.faults) == 1 else f" (and {len(made.faults) - 1} more)"
        raise CheckFailed(f"{made.faults[0]}{more}; the page {out} says so on top")
