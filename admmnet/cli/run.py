"""admmnet run."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from admmnet.cli.settings import SettingsCommand, settings_of
from admmnet.transport import World, open_world


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@click.option("--json", "as_json", is_flag=True, help="print summary.json instead of the table")
@click.option("--debug", is_flag=True, help="show the traceback of an error")
@click.pass_obj
def run(world: World, /, config: str | None, quiet: bool, as_json: bool, debug: bool, **flags: Any) -> None:
    """Train one model on the network's records and write a run folder.

    Under mpirun every rank is an agent (or hosts a block of them); without it the agents are simulated in
    this process. Flags override CONFIG.toml, which overrides the defaults.
    """
    from admmnet.running.loop import run as run_network

    settings = settings_of(config, flags)
    if settings.baseline:
        from admmnet.cli.baseline import train

        train(settings, world, quiet=quiet, as_json=as_json, debug=debug)
        return
    world = open_world(settings.transport)
    speaks = world.rank == 0 and not quiet
    from admmnet.cli.progress import Progress

    progress = Progress(shown=speaks and not as_json and sys.stderr.isatty())
    with progress:
        result = run_network(
            settings, world=world, on_start=progress.start, on_round=progress.advance, debug=debug
        )
    if not speaks:
        return
    if as_json:
        print(json.dumps(result.summary, indent=2))
        return
    from admmnet.cli.tables import print_run

    print_run(result.summary, result.folder)
