"""Where events of a run go: a log, figures for Prometheus, the files by which `admmnet launch` knows its ranks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from admmnet.log import LEVELS, LOGGER, EventHandler, LogFile, say
from admmnet.transport.collective import code_of, describe_error

if TYPE_CHECKING:
    from admmnet.cli.flags import Command
    from admmnet.running.metrics import Metrics


def event_flags(function: Command) -> Command:
    """Give a command the flags that say where its events go."""
    log = click.option("--log", metavar="FILE|-", help="append events, lines of JSON, to a file; -: standard output")
    level = click.option(
        "--log-level", type=click.Choice(list(LEVELS)), default="info", show_default=True, help="least of them"
    )
    metrics = click.option(
        "--metrics", metavar="[HOST:]PORT", help="serve /metrics for Prometheus, and /health (HOST: 127.0.0.1)"
    )
    return log(level(metrics(function)))


@contextmanager
def heard(take: Callable[[dict[str, Any]], object], least: int, agent: int | None = None) -> Iterator[None]:
    """Give events of this process to a function in this block."""
    handler, before = EventHandler(take, least, agent), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


@contextmanager
def telling(
    log: str | None, level: str, metrics: str | None, *, agent: int | None = None, rank: int | None = None
) -> Iterator[Metrics | None]:
    """Write events of this block to a log, and serve figures; what ends the block is an event, too.

    A ``rank`` that is given has a file in the run folder while it lives.

    Raises
    ------
    RequestError
        If the file cannot be opened, or nothing can listen at the address.
    """
    with ExitStack() as opened:
        server = None
        if metrics is not None:
            from admmnet.running.metrics import Metrics

            server = Metrics(metrics)
            opened.callback(server.close)
            opened.enter_context(heard(server.take, LEVELS["debug"], agent))
        if rank is not None:
            from admmnet.running.ranks import Alive

            alive = Alive(rank)
            opened.callback(alive.leave)
            opened.enter_context(heard(alive.take, LEVELS["debug"]))
        if log is not None:
            file = LogFile(log)
            opened.callback(file.close)
            opened.enter_context(heard(file.write, LEVELS[level], agent))
        try:
            yield server
        except (click.exceptions.Exit, SystemExit, BrokenPipeError):
            raise
        except BaseException as error:
            say("error", describe_error(error, public=True), logging.ERROR, code=code_of(error))
            raise
