"""admmnet run."""

from __future__ import annotations

import sys
from logging import WARNING
from typing import Any

import click

from admmnet.cli import keep_imports
from admmnet.cli.events import event_flags, telling
from admmnet.cli.flags import explain_flag, output_flags
from admmnet.cli.settings import SettingsCommand, leave, settings_of, tell
from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.log import say
from admmnet.transport import World, open_world


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@output_flags
@event_flags
@explain_flag
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="R",
    help="with --transport zmq: how often agents that fail are started again (default 0)",
)
@click.option("--alive", is_flag=True, hidden=True, help="keep a file of this rank in the run folder")
@click.pass_obj
def run(
    world: World,
    /,
    config: str | None,
    quiet: bool,
    as_json: bool,
    debug: bool,
    log: str | None,
    log_level: str,
    metrics: str | None,
    restarts: int,
    alive: bool,
    **flags: Any,
) -> None:
    """Train one model on the network's records and write a run folder.

    Under mpirun every rank is an agent (or hosts a block of them); without it the agents are simulated in
    this process. Flags override CONFIG.toml, which overrides the defaults.
    """
    settings = settings_of(config, flags)
    world = world if settings.baseline else open_world(settings.transport)
    if restarts and settings.transport != "zmq":
        raise RequestError(
            "--restarts goes with --transport zmq; for ranks of MPI there is `admmnet launch --restarts`"
        )
    first = world.rank == 0  # speaks for all ranks
    with telling(log if first else None, log_level, metrics if first else None, rank=world.rank if alive else None):
        again = _again(settings) if restarts else settings
        for left in range(restarts, -1, -1):
            try:
                train(again, world, quiet=quiet, as_json=as_json, debug=debug)
                return
            except RunError as error:
                if not left or error.exit_code != RunError.exit_code:
                    raise
                text = f"{error}; start {restarts - left + 2} of {restarts + 1} follows"
                say("start-ended", text, WARNING)
                print(f"admmnet: {text}", file=sys.stderr)


def _again(settings: RunConfig) -> RunConfig:
    """Settings of a run that goes on where it has begun: in a folder of a known name."""
    if settings.resume is not None:
        return settings
    from admmnet.record.folder import default_folder

    return settings.changed(out=settings.out or str(default_folder(settings.algorithm)), resume=AUTO)


def train(settings: RunConfig, world: World, *, quiet: bool, as_json: bool, debug: bool) -> None:
    """Run, with what ``Progress`` shows, and print the table."""
    from admmnet.cli.progress import Progress
    from admmnet.library import run as run_settings

    keep_imports()
    quiet = quiet or world.rank > 0
    told = not quiet and not as_json
    with Progress(told=told) as bar:
        result = run_settings(
            settings, world=world, on_start=bar.start, on_round=bar.round, stoppable=False, debug=debug
        )
    tell(result, quiet=quiet, as_json=as_json, told=bar.told)
    leave(result.summary)
