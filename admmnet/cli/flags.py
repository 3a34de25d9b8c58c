"""Flags that several commands have, and files that they write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admmnet.errors import broken
from admmnet.files import drafted, refusing
from admmnet.log import LEVELS, Hearer, LogFile, say
from admmnet.transport.collective import code_of, describe_error

if TYPE_CHECKING:
    from admmnet.running.metrics import Metrics

Command = Callable[..., None]
PATH = click.Path(path_type=Path)
RUN = click.argument("run", type=PATH)
json_flag = click.option("--json", "as_json", is_flag=True, help="print JSON")
debug_flag = click.option("--debug", is_flag=True, help="show the traceback of an error")
quiet_flag = click.option("--quiet", is_flag=True, help="print nothing but errors")
jobs_flag = click.option("--jobs", type=int, metavar="N", help="processes (default: one a processor)")
executor_flag = click.option(
    "--executor",
    type=click.Choice(("local", "mpi")),
    expose_value=False,
    help="what runs it: processes here, or ranks of mpirun (default: ranks if there are any)",
)
HOW_READ = "how a file is read: [data] of a run, a schema, or encoding.json"
schema_flag = click.option("--schema", type=PATH, metavar="FILE", help=HOW_READ)
_EXPLAIN = "admmnet.explain"


def output_flags(function: Command) -> Command:
    """Give a command the flags that say what it prints."""
    return quiet_flag(json_flag(debug_flag(function)))


def out_flag(metavar: str, help: str, *, required: bool = True) -> Callable[[Command], Command]:
    """Return the flag ``--out``, ``-o`` of what a command writes."""
    return click.option("--out", "-o", type=PATH, required=required, metavar=metavar, help=help)


def explain_flag(function: Command) -> Command:
    """Give a command that prints a table of a run or of ledgers the flag ``--explain``."""

    def keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[_EXPLAIN] = value

    words = "explain the table's columns below it"
    return click.option("--explain", is_flag=True, expose_value=False, callback=keep, help=words)(function)


def explaining() -> bool:
    """Whether the command at work was given ``--explain``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_EXPLAIN))


def lines(*texts: str, err: bool = False) -> None:
    """Print lines of words, broken at words on a terminal."""
    out = sys.stderr if err else sys.stdout
    for text in texts:
        print(broken(text, out), file=out, flush=True)


def notes(*texts: str) -> None:
    """Say on standard error what is worth knowing, and no fault."""
    lines(*(f"note: {text}" for text in texts), err=True)


@contextmanager
def written(out: Path) -> Iterator[Path]:
    """A draft that becomes the file when it is whole; RequestError if that cannot be."""
    with refusing(f"write {out}"), drafted(out) as draft:
        yield draft


_EVENTS = {
    "log": {"metavar": "FILE|-", "help": "append events as lines of JSON; -: standard output"},
    "log-level": {"type": click.Choice(LEVELS), "default": "info", "help": "least level of these events"},
    "metrics": {"metavar": "[HOST:]PORT", "help": "serve /metrics and /health (HOST: 127.0.0.1)"},
}


def event_flags(function: Command) -> Command:
    """Give a command the flags that say where its events go: ``telling`` reads them."""

    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        ctx.meta[f"admmnet.{param.name}"] = value

    for name, words in reversed(_EVENTS.items()):
        function = click.option(f"--{name}", expose_value=False, callback=keep, **words)(function)  # type: ignore[arg-type]
    return function


@contextmanager
def telling(*, agent: int | None = None) -> Iterator[Metrics | None]:
    """Write events of this block to a log and serve figures, as the flags say; what ends the block is an event, too."""
    given, server = click.get_current_context().meta, None
    log, metrics = given["admmnet.log"], given["admmnet.metrics"]
    with ExitStack() as opened:
        if metrics is not None:
            from admmnet.running.metrics import Metrics

            server = Metrics(metrics)
            opened.callback(server.close)
            opened.enter_context(Hearer(server.take))
        if log is not None:
            lines = LogFile(log)
            opened.enter_context(lines.file)
            opened.enter_context(Hearer(lines.write, given["admmnet.log_level"], agent))
        try:
            yield server
        except (Exception, KeyboardInterrupt) as error:
            if not isinstance(error, click.exceptions.Exit | BrokenPipeError):
                say("error", describe_error(error), "error", code=code_of(error))
            raise
