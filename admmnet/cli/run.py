"""admmnet run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from admmnet.cli.flags import asked, event_flags, explain_flag, output_flags, telling
from admmnet.cli.settings import SettingsCommand, leave, settings_of, tell
from admmnet.config.run_config import RunConfig
from admmnet.transport import World, open_world
from admmnet.transport.collective import KEPT


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@output_flags
@event_flags
@explain_flag
@click.pass_obj
def run(world: World, /, config: str | None, **flags: Any) -> None:
    """Train one model on the network's records and write a run folder.

    Under mpirun every rank is an agent (or hosts a block of them); without it the agents are simulated in
    this process. Flags override CONFIG.toml, which overrides the defaults.
    """
    settings = settings_of(config, flags)
    world = world if settings.baseline else open_world(settings.transport)
    with ExitStack() as opened:
        if world.rank == 0:  # speaks for all ranks
            opened.enter_context(telling())
        train(settings, world)


def train(settings: RunConfig, world: World) -> None:
    """Run, with what ``Progress`` shows, and print the table."""
    from admmnet.cli.progress import Progress
    from admmnet.library import run as run_settings

    KEPT.begin()
    how: dict[str, Any] = {"stoppable": False, "debug": bool(asked("debug"))}
    with Progress(silent=world.rank > 0) as bar:
        result = run_settings(settings, world=world, on_start=bar.start, on_round=bar.round, **how)
    if world.rank == 0:
        tell(result, bar.advice)
    leave(result.summary)
