"""admmnet run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import flag_fields, load_config, parse_flag
from admmnet.errors import RequestError
from admmnet.transport import World, open_world

_SHORT = {"out": "-o"}


def setting_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option a setting; values stay text, so that every error has one form."""
    for name, kind, meta in reversed(flag_fields()):
        flag = "--" + name.replace("_", "-")
        names = [flag, _SHORT[name]] if name in _SHORT else [flag]
        if kind.startswith("bool"):
            if "Auto" in kind:  # without either word it is by the method
                names = [f"{flag}/--no-{flag.removeprefix('--')}"]
            function = click.option(*names, name, is_flag=True, default=None, help=meta["help"])(function)
            continue
        word = "|".join(meta["choices"]) or meta["metavar"] or ("N" if kind.startswith("int") else "X")
        if "Auto" in kind:
            word += "|auto"
        function = click.option(*names, name, metavar=word, help=meta["help"])(function)
    return function


def settings_of(config: str | None, flags: Mapping[str, Any]) -> RunConfig:
    """Return the settings of a command line."""
    given = {
        name: parse_flag(name, value) if isinstance(value, str) else value
        for name, value in flags.items()
        if value is not None
    }
    if "resume" in given:
        return _resumed(config, given)
    return load_config(config, given)


def _resumed(config: str | None, given: Mapping[str, Any]) -> RunConfig:
    from admmnet.running.checkpoint.resume import resumed_config

    if config is not None:
        raise RequestError(
            f"{config} and --resume exclude each other: the run goes on with its own config.toml"
        )
    return resumed_config(given["resume"], given)


@click.command(short_help="Train on the network and write a run folder.")
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@setting_flags
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
