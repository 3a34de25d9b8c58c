"""The command line: words, tables, progress and exit codes; no numerics."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import click

from admmnet.errors import AdmmnetError, RequestError
from admmnet.gone import GONE
from admmnet.running.ends import terminating
from admmnet.transport import World, open_world
from admmnet.transport.collective import KEPT, as_one, install_exception_hook, report_error
from admmnet.version import __version__

COMMANDS = {
    "account": "Read the accounts that many runs share.",
    "agent": "Run one agent by itself, for several hosts.",
    "audit": "Bound a method's epsilon from below, by trials with and without a record.",
    "baseline": "Train one model in one place: SDCA, DP-SCD, SGD, DP-SGD and others.",
    "calibrate": "Print the noise and the cost of each step; touches no data.",
    "compare": "Compare methods over epsilons and seeds: table, CSV and picture.",
    "data": "Check a file of records, draft its schema, show encodings.",
    "evaluate": "Errors of a saved model on labelled rows.",
    "ledger": "Read, check and export the agents' privacy ledgers.",
    "model": "Coefficients of a saved model beside their noise; files of it for other programs.",
    "network": "Make the network file and the keys of agents on several hosts.",
    "plot": "Draw one run, or several beside each other.",
    "predict": "Predictions of a saved model for new rows.",
    "relay": "Pass on the messages of agents on several hosts.",
    "report": "Make one page of runs: figures, charts, graph, ledgers, the meaning of epsilon.",
    "reproduce": "Make the figures of a paper: CSV, pictures and a verdict on each claim.",
    "run": "Train on the network and write a run folder.",
    "topology": "Make and inspect graphs of agents.",
    "watch": "Watch a run through its folder: rounds, error, epsilon spent, absent agents.",
}


_MODULES = {
    **{"account": "ledger", "agent": "again", "audit": "compare", "baseline": "calibrate", "evaluate": "model"},
    **{"plot": "watch", "predict": "model", "relay": "network", "report": "watch", "reproduce": "compare"},
    "topology": "network",
}
"""Modules of commands that are in no module of their own name."""


class _Commands(click.Group):
    """Commands whose modules are imported when they are called."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found: click.Command | None = None
        if name in COMMANDS:
            found = getattr(import_module(f"admmnet.cli.{_MODULES.get(name, name)}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, commands=dict.fromkeys(COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="admmnet")
def command_line() -> None:
    """Train one model on records that never leave their owners, with a privacy ledger for every agent.

    Flags without a command are those of `run`. The default run: mpirun -n 5 python -m admmnet
    """


GRIDS = ("audit", "compare", "reproduce")
"""Commands whose tasks go over all ranks."""
_OWN_OPTIONS = ("-h", "--help", "--version")


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code (docs/cli.md); under mpirun every rank calls this.

    All ranks get the same words, so the first rank alone reports their faults.
    """
    args = list(arguments)
    if not args or (args[0].startswith("-") and args[0] not in _OWN_OPTIONS) or args[0].endswith(".toml"):
        args.insert(0, "run")
    world = World()
    with terminating():
        try:
            world = open_world("auto")
            install_exception_hook(world)
            with _ranks(world, args) as executor:
                if world.rank > 0 and (args[0] != "run" or not {"-h", "--help"}.isdisjoint(args)):
                    return 0
                if args[0] != "run":  # which calls it later
                    KEPT.begin()
                obj = executor if args[0] in GRIDS else world
                code = command_line.main(args, prog_name="admmnet", standalone_mode=False, obj=obj)
                return code if type(code) is int else 0  # of an exit by `leave`
        except click.exceptions.Exit as leave:
            return leave.exit_code
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output has left; say no more
            return 0
        except (Exception, KeyboardInterrupt) as raised:
            error: BaseException = raised
            if isinstance(raised, click.ClickException):
                error = RequestError(_usage(raised))
            elif isinstance(raised, click.Abort):
                error = raised.__cause__ or KeyboardInterrupt()
            if isinstance(error, RequestError) and not error.shared:
                try:
                    # all ranks read the words of `run`: others may have found nothing wrong with theirs
                    with as_one(world) if args[0] == "run" else nullcontext():
                        raise error
                except AdmmnetError as first:
                    error = first.of_all()
            return report_error(error, world, debug="--debug" in args)


def _ranks(world: World, args: list[str]) -> AbstractContextManager[Any]:
    """Work on grids at ranks of mpirun: an executor at the first, at the others there is nothing left once it ends."""
    if args[0] not in GRIDS:
        return nullcontext()
    from admmnet.cli.settings import words_after

    asked = [*words_after(args, "--executor")][-1:]
    if asked == ["mpi"] and world.size == 1:
        raise RequestError("--executor mpi needs ranks: start it as mpirun -n N admmnet ..., with N of at least 2")
    if world.size == 1 or asked == ["local"]:
        return nullcontext()
    from mpi4py.futures import MPICommExecutor

    executor: AbstractContextManager[Any] = MPICommExecutor()
    return executor


def _usage(error: click.ClickException) -> str:
    """Return what click says, with what to do instead of words that are gone."""
    path = "admmnet" if not isinstance(error, click.UsageError) or error.ctx is None else error.ctx.command_path
    message = error.format_message().rstrip(".")
    word = next(iter(re.findall(r"'([a-z-]+)'", message)), "")  # later ones are what may be meant
    if (instead := GONE.get(word) or GONE.get(f"{path.rpartition(' ')[2]} {word}")) is not None:
        return f"{word} is gone: {instead}"
    return f"{message}{'' if message.endswith('?') else ';'} `{path} --help` lists what there is"
