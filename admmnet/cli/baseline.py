"""admmnet baseline: one method in one place, on all training records."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.run import setting_flags, settings_of
from admmnet.config.checks import kind_of
from admmnet.config.modes import check_mode
from admmnet.config.run_config import BASELINE_LOSSES, BASELINES, RunConfig
from admmnet.errors import RequestError
from admmnet.transport import World
from admmnet.transport.local import LocalWorld

if TYPE_CHECKING:
    from admmnet.baselines.prepare import Prepared

_NAMES = ", ".join(BASELINES)
_WORDS = {
    "data_seed": "seed of the train/test draw",
    "regularisation": "weight lambda of ||theta||^2/2 beside the mean loss; auto: 1e-4, 1e-5 for hinge",
    "epsilon": "privacy budget epsilon",
    "delta": "privacy budget delta; auto: 0.1 over the records, at most 1e-5",
    "group_size": "also report what a person with this many records is promised",
}
"""Help where that of `run` speaks of a network."""


@click.command(short_help="Train one model in one place: SDCA, DP-SCD, SGD, DP-SGD and others.")
@click.argument("name", metavar="NAME")
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@setting_flags
@click.option("--dry-run", is_flag=True, help="print noise and cost, train nothing and write nothing")
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@click.option("--json", "as_json", is_flag=True, help="print summary.json instead of the table")
@click.option("--debug", is_flag=True, help="show the traceback of an error")
def baseline(
    name: str, config: str | None, dry_run: bool, quiet: bool, as_json: bool, debug: bool, **flags: Any
) -> None:
    """Train one model on all training records in one place and write a run folder.

    NAME is sdca, dp-scd, seq-dp-scd, primal-dp-scd, sgd, dp-sgd, song-sgd or banco; sdca and sgd have no
    privacy. The run folder has the network's format. Under mpirun the first rank alone works.
    """
    if name not in BASELINES:
        raise RequestError(f"no baseline is called {name!r}; there are {_NAMES}")
    for flag, value in flags.items():
        if value is not None and _foreign(flag):
            why = f"the method is named once, as in admmnet baseline {name}"
            if flag != "algorithm":
                why = "there is no network, one holder has all records"
            raise RequestError(f"--{flag.replace('_', '-')} does not go with baseline: {why}")
    settings = settings_of(config, flags | {"algorithm": name})
    if dry_run:
        _show_plan(settings, as_json=as_json)
        return
    train(settings, LocalWorld(), quiet=quiet, as_json=as_json, debug=debug)


def _foreign(flag: str) -> bool:
    return flag == "algorithm" or kind_of(flag) == "network"


for _option in baseline.params:
    if isinstance(_option, click.Option) and _option.name in RunConfig.__dataclass_fields__:
        _option.hidden = _foreign(_option.name)  # still read, to be refused with the reason
        _option.help = (_option.help or "").removeprefix("baselines: ")
        _option.help = _WORDS.get(_option.name, _option.help)
        if _option.name == "loss":
            _option.metavar = "|".join(BASELINE_LOSSES)


def train(settings: RunConfig, world: World, *, quiet: bool, as_json: bool, debug: bool) -> None:
    """Run a baseline and print its table."""
    from admmnet.running.loop import run

    with ExitStack() as opened:
        bar = _Bar(opened, shown=not quiet and not as_json and sys.stderr.isatty())
        result = run(settings, world=world, on_start=bar.start, on_round=bar.advance, debug=debug)
    if quiet:
        return
    if as_json:
        print(json.dumps(result.summary, indent=2))
        return
    from admmnet.cli.tables import print_run

    print_run(result.summary, result.folder)


class _Bar:
    """A bar over epochs, where standard error is a terminal."""

    def __init__(self, opened: ExitStack, *, shown: bool) -> None:
        self._opened, self._shown = opened, shown
        self._bar: Any = None

    def start(self, prepared: Prepared) -> None:
        """Show the bar."""
        if not self._shown:
            return
        from rich.console import Console
        from rich.progress import Progress

        from admmnet.baselines.plan import epochs_of

        self._bar = self._opened.enter_context(Progress(console=Console(stderr=True), transient=True))
        self._task = self._bar.add_task(prepared.config.algorithm, total=epochs_of(prepared.plan))

    def advance(self, epoch: int, error: float) -> None:
        """Count an epoch."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1)


def _show_plan(settings: RunConfig, *, as_json: bool) -> None:
    from admmnet.baselines.prepare import plan_facts, prepare_baseline

    check_mode(settings)
    prepared = prepare_baseline(settings)
    facts = plan_facts(prepared)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    from admmnet.cli.tables import print_plan

    print_plan(facts)
    for note in prepared.notes:
        print(f"note: {note}", file=sys.stderr)
