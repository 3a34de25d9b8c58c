"""admmnet baseline: one method in one place, on all training records."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
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
    from admmnet.running.plan import Plan

_NAMES = ", ".join(BASELINES)
_WORDS = {
    "data_seed": "seed of the train/test draw",
    "regularisation": "weight lambda of ||theta||^2/2 beside the mean loss; auto: 1e-4, 1e-5 for hinge",
    "epsilon": "privacy budget epsilon",
    "delta": "privacy budget delta; auto: 0.1 over the records, at most 1e-5",
    "checkpoint_every": "epochs between checkpoints, from which --resume goes on; needs --seed",
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
    from admmnet.cli.progress import Progress
    from admmnet.running.loop import run

    with Progress(shown=not quiet and not as_json and sys.stderr.isatty()) as bar:
        result = run(settings, world=world, on_start=bar.start, on_round=bar.advance, debug=debug)
    if quiet:
        return
    if as_json:
        print(json.dumps(result.summary, indent=2))
        return
    from admmnet.cli.tables import print_run

    print_run(result.summary, result.folder)


def _show_plan(settings: RunConfig, *, as_json: bool) -> None:
    from admmnet.running.plan import prepare

    check_mode(settings)
    if settings.account is not None:
        settings = replace(settings, account=None, no_account=True)
        print("note: the account is not read: this is the noise of a first run", file=sys.stderr)
    plan = prepare(settings, LocalWorld())
    facts = _facts(plan)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    from admmnet.cli.tables import print_plan

    print_plan(facts)
    for note in plan.notes:
        print(f"note: {note}", file=sys.stderr)


def _facts(plan: Plan) -> dict[str, Any]:
    """What a baseline would draw and what that costs, for JSON."""
    from admmnet.cli.calibrate import charges_of
    from admmnet.privacy.ledger.form import finite

    config, own = plan.config, plan.agents[0]
    closing = plan.method.closing(plan.method.agent(0, own), None).facts
    facts, budget, worst = closing["baseline"], own.budget, own.worst_case
    proven = published = None
    if budget is not None and worst is not None:
        proven = finite(worst.epsilon_proven(budget.delta)) if plan.method.covered else None
        published = finite(worst.epsilon_published(budget.delta))
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "accountant": config.accountant if config.budgeted else None,
        "data": plan.data.name,
        "records": plan.data.counts[0],
        "features": len(plan.data.feature_names),
        **{name: facts[name] for name in ("loss", "epochs")},
        "steps": closing["steps"],
        **{name: facts[name] for name in ("rate", "noise_multiplier", "pure_epsilon")},
        "adjacency": own.adjacency,
        "epsilon_target": None if budget is None else budget.epsilon,
        "delta": None if budget is None else budget.delta,
        "epsilon_proven": proven,
        "epsilon_published": published,
        "charges": [] if budget is None else charges_of(own, str(config.method), budget.delta),
    }
