"""admmnet run."""

from __future__ import annotations

from typing import Any

import click

from admmnet.cli import keep_imports
from admmnet.cli.events import event_flags, telling
from admmnet.cli.flags import explain_flag, output_flags
from admmnet.cli.settings import SettingsCommand, leave, settings_of, tell
from admmnet.config.run_config import RunConfig
from admmnet.transport import World, open_world


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@output_flags
@event_flags
@explain_flag
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
    **flags: Any,
) -> None:
    """Train one model on the network's records and write a run folder.

    Under mpirun every rank is an agent (or hosts a block of them); without it the agents are simulated in
    this process. Flags override CONFIG.toml, which overrides the defaults.
    """
    settings = settings_of(config, flags)
    world = world if settings.baseline else open_world(settings.transport)
    first = world.rank == 0  # speaks for all ranks
    with telling(log if first else None, log_level, metrics if first else None):
        train(settings, world, quiet=quiet, as_json=as_json, debug=debug)


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
