"""The command line: words, tables, progress and exit codes; no numerics."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from admmnet.cli.account import account
from admmnet.cli.agent import agent
from admmnet.cli.baseline import baseline
from admmnet.cli.calibrate import calibrate
from admmnet.cli.compare import compare
from admmnet.cli.data import data
from admmnet.cli.evaluate import evaluate, predict
from admmnet.cli.ledger import ledger
from admmnet.cli.network import network
from admmnet.cli.plot import plot
from admmnet.cli.report import report
from admmnet.cli.reproduce import reproduce
from admmnet.cli.run import run
from admmnet.cli.topology import topology
from admmnet.errors import AdmmnetError, RequestError
from admmnet.transport import World, open_world
from admmnet.transport.collective import install_exception_hook, report_error
from admmnet.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="admmnet")
def command_line() -> None:
    """Train one model on records that never leave their owners, with a privacy ledger for every agent.

    Without a command, `run` is meant: mpirun -n 5 python -m admmnet
    """


_COMMANDS = (
    *(run, baseline, compare, calibrate, evaluate, predict, ledger, account, topology),
    *(network, agent, data, plot, report, reproduce),
)
for command in _COMMANDS:
    command_line.add_command(command)

_OWN_OPTIONS = ("-h", "--help", "--version")


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code (docs/cli.md); under mpirun every rank calls this.

    All ranks get the same words, so what is wrong with them is said by the first rank alone.
    """
    args = list(arguments)
    if not args or (args[0].startswith("-") and args[0] not in _OWN_OPTIONS) or args[0].endswith(".toml"):
        args.insert(0, "run")
    debug = "--debug" in args
    world: World | None = None
    try:
        world = open_world("auto")
        install_exception_hook(world)
        if world.rank > 0 and (args[0] != "run" or not {"-h", "--help"}.isdisjoint(args)):
            return 0
        command_line.main(args, prog_name="admmnet", standalone_mode=False, obj=world)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _tell(RequestError(_usage(error)), world, debug)
    except click.Abort:
        return _tell(KeyboardInterrupt(), world, debug)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; say no more
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return _tell(error, world, debug)
    return 0


def _usage(error: click.ClickException) -> str:
    hint = "admmnet --help"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help"
    message = error.format_message().rstrip(".")
    return f"{message}; `{hint}` lists what there is"


def _tell(error: BaseException, world: World | None, debug: bool) -> int:
    if world is None:
        print(f"admmnet: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, AdmmnetError) else 3
    if isinstance(error, RequestError):
        error.shared = True  # about the command's own words: the same on every rank
    return report_error(error, world, debug=debug)
