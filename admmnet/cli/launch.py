"""admmnet launch: ranks under mpirun, started again where they fail."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from admmnet.cli.settings import words_after
from admmnet.errors import RequestError


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-n", "ranks", type=click.IntRange(min=1), required=True, metavar="N", help="ranks")
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="R",
    help="how often ranks that fail are started again (default 0)",
)
@click.option(
    "--mpirun", metavar="COMMAND", help="launcher with its own words (default: the mpirun beside this Python)"
)
@click.argument("words", nargs=-1, required=True, metavar="run --out DIR [FLAGS]")
def launch(ranks: int, restarts: int, mpirun: str | None, words: tuple[str, ...]) -> int:
    """Run `admmnet run` on N ranks of MPI, in a process group of their own.

    Says which rank ended first, and how; starts all again, from the last checkpoint, up to R times. Signals are passed
    on: Ctrl-C and SIGTERM end the ranks.
    """
    from admmnet.running.ranks import launch as start

    given = [*words]
    folders = [*words_after(given, "--out"), *words_after(given, "-o")]
    if words[0] != "run" or len(folders) != 1 or any(words_after(given, "--resume")):
        raise RequestError(
            "give the words of a run behind --, with its folder and without --resume: admmnet launch -n 5 --restarts 3 "
            "-- run --out DIR"
        )
    beside = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if mpirun is None and beside is None:
        raise RequestError("there is no mpirun: pip install 'admmnet[mpich]', or name a launcher with --mpirun")
    command = [*(shlex.split(mpirun) if mpirun is not None else [str(beside)]), "-n", str(ranks)]
    command += [sys.executable, "-m", "admmnet", *words, "--resume", "auto", "--alive"]
    return start(command, Path(folders[0]), restarts)
