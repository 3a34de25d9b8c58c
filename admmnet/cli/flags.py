"""Flags that several commands have, what they print, and files that they write."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.errors import broken
from admmnet.files import drafted, refusing
from admmnet.log import LEVELS, Hearer, LogFile, say
from admmnet.record.format import fact
from admmnet.transport.collective import code_of, describe_error

if TYPE_CHECKING:
    from admmnet.running.metrics import Metrics

Command = Callable[..., None]
PATH = click.Path(path_type=Path)
RUN = click.argument("run", type=PATH)


def kept_flag(*words: str, **how: Any) -> Callable[[Command], Command]:
    """Return a flag that is no parameter of its command: ``asked`` tells its value."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[f"admmnet.{param.name}"] = value

    return click.option(*words, expose_value=False, callback=keep, **how)


def asked(name: str) -> Any:
    """Value of a ``kept_flag`` of the command at work; None where it has none."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"admmnet.{name}")


def talks() -> bool:
    """Whether the command at work prints words: neither --quiet nor --json was given."""
    return not (asked("quiet") or asked("json"))


json_flag = kept_flag("--json", is_flag=True, help="print JSON")
debug_flag = kept_flag("--debug", is_flag=True, help="show the traceback of an error")
quiet_flag = kept_flag("--quiet", is_flag=True, help="print nothing but errors")
explain_flag = kept_flag("--explain", is_flag=True, help="explain the table's columns below it")
jobs_flag = click.option("--jobs", type=int, metavar="N", help="processes (default: one a processor)")
executor_flag = click.option(
    "--executor",
    type=click.Choice(("local", "mpi")),
    expose_value=False,
    help="what runs it: processes here, or ranks of mpirun (default: ranks if there are any)",
)
HOW_READ = "how a file is read: [data] of a run, a schema, or encoding.json"


def output_flags(function: Command) -> Command:
    """Give a command the flags that say what it prints."""
    return quiet_flag(json_flag(debug_flag(function)))


def out_flag(metavar: str, help: str, *, required: bool = True) -> Callable[[Command], Command]:
    """Return the flag ``--out``, ``-o`` of what a command writes."""
    return click.option("--out", "-o", type=PATH, required=required, metavar=metavar, help=help)


def lines(*texts: str, err: bool = False) -> None:
    """Print lines of words, broken at words on a terminal."""
    out = sys.stderr if err else sys.stdout
    for text in texts:
        print(broken(text, out), file=out, flush=True)


def notes(*texts: str) -> None:
    """Say on standard error what is worth knowing, and no fault."""
    lines(*(f"note: {text}" for text in texts), err=True)


def told_as_json(value: Any) -> bool:
    """Print a value as JSON, if it was asked for; return whether nothing more is to be said."""
    if asked("json") and not asked("quiet"):
        print(json.dumps(value, indent=2))
    return not talks()


def show(facts: Mapping[str, Any], *said: str, title: str = "") -> None:
    """Print facts under a title, then sentences on what they hold for, which JSON does not need: its keys are fixed.

    A list of tables is a table; where its rows have tables themselves, each is shown by itself, those that are alike
    but for their ``agent`` once.
    """
    if told_as_json(facts):
        return
    tables = {name: value for name, value in facts.items() if _rows(value)}
    single = {name.replace("_", " "): (name, value) for name, value in facts.items() if name not in tables}
    width = max(map(len, single), default=0) + 3
    lines(*filter(None, [title]), *(f"{words + ':':<{width}}{fact(*own)}" for words, own in single.items()))
    for name, rows in tables.items():
        if any(_rows(value) for value in rows[0].values()):
            alike = dict[str, tuple[list[Any], dict[str, Any]]]()
            for row in rows:
                rest = {key: value for key, value in row.items() if key != "agent"}
                alike.setdefault(json.dumps(rest), ([], rest))[0].append(row["agent"])
            for agents, row in alike.values():
                more = ", ..." if len(agents) > 12 else ""
                show(row, title=f"\nagent{'s' * (len(agents) > 1)} {', '.join(map(str, agents[:12]))}{more}")
        else:
            from admmnet.report.columns import FEW, print_table

            title = name.replace("_", " ")
            print_table(title if len(rows) <= FEW else f"{title}: the first {FEW} of {len(rows)}", rows[:FEW])
    lines(*said)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def put(text: str, out: Path | None) -> bool:
    """Write a text to a file, or to standard output without one; return whether there is a file, which is whole."""
    if out is None:
        sys.stdout.write(text)
        return False
    with refusing(f"write {out}"), drafted(out) as draft:
        draft.write_bytes(text.encode("utf-8", "backslashreplace"))
    return True


def event_flags(function: Command) -> Command:
    """Give a command the flags that say where its events go: ``telling`` reads them."""
    metrics = kept_flag("--metrics", metavar="[HOST:]PORT", help="serve /metrics and /health (HOST: 127.0.0.1)")
    level = kept_flag("--log-level", type=click.Choice(LEVELS), default="info", help="least level of these events")
    log = kept_flag("--log", metavar="FILE|-", help="append events as lines of JSON; -: standard output")
    return log(level(metrics(function)))


@contextmanager
def telling(*, agent: int | None = None) -> Iterator[Metrics | None]:
    """Write events of this block to a log and serve figures, as the flags say; what ends the block is an event, too."""
    log, metrics, server = asked("log"), asked("metrics"), None
    with ExitStack() as opened:
        if metrics is not None:
            from admmnet.running.metrics import Metrics

            server = Metrics(metrics)
            opened.callback(server.close)
            opened.enter_context(Hearer(server.take))
        if log is not None:
            file = LogFile(log)
            opened.enter_context(file.file)
            opened.enter_context(Hearer(file.write, asked("log_level"), agent))
        try:
            yield server
        except (Exception, KeyboardInterrupt) as error:
            if not isinstance(error, click.exceptions.Exit | BrokenPipeError):
                say("error", describe_error(error), "error", code=code_of(error))
            raise
