"""admmnet baseline: one method in one place, on all training records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import explain_flag, notes, output_flags, show, talks
from admmnet.cli.run import train
from admmnet.cli.settings import SettingsCommand, settings_of
from admmnet.config.run_config import RunConfig, known_settings
from admmnet.config.toml import saved_algorithm
from admmnet.errors import RequestError
from admmnet.methods import METHODS, single_sites
from admmnet.registry import meant
from admmnet.transport.local import LocalWorld

if TYPE_CHECKING:
    from admmnet.running.plan import Plan

_WORDS = {
    "epsilon": "budget epsilon",
    "delta": "budget delta; auto: 0.1 over the records, at most 1e-5",
    "regularisation": "weight lambda of ||theta||^2/2; auto: 1e-4, 1e-5 for hinge",
    "measure_every": "epochs between lines of metrics.csv",
}
"""Help where that of `run` speaks of a network."""


class _Baseline(SettingsCommand):
    """Settings of the method that is named first."""

    more = "A method's own settings: admmnet baseline NAME --help."

    def methods(self) -> list[str]:
        return single_sites()

    def algorithms(self, args: list[str]) -> Iterator[str]:
        yield from [word for word in args if not word.startswith("-") and word in METHODS][:1]


@click.command(
    cls=_Baseline,
    hidden=["algorithm", *(name for name, own in known_settings().items() if own.scope)],
    changes={name: {"help": words} for name, words in _WORDS.items()} | {"loss": {"metavar": "logistic|hinge|squared"}},
)
@click.argument("name", metavar="NAME")
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--dry-run", is_flag=True, help="print noise and cost alone")
@output_flags
@explain_flag
def baseline(name: str, config: str | None, dry_run: bool, **flags: Any) -> None:
    """Train one model on all training records in one place and write a run folder.

    NAME is sdca, dp-scd, seq-dp-scd, primal-dp-scd, sgd, dp-sgd, song-sgd or banco; sdca and sgd have no
    privacy. The run folder has the network's format. Under mpirun the first rank alone works.
    """
    if flags["resume"] is not None:
        saved_algorithm(Path(flags["resume"]))
    if name not in METHODS or METHODS[name].verb != "none":
        names = single_sites()
        raise RequestError(f"no baseline is called {name!r}; {meant(name, names)}there are {', '.join(names)}")
    if flags["algorithm"] is not None:
        raise RequestError(
            f"--algorithm does not go with baseline: the method is named once, as in admmnet baseline {name}"
        )
    settings = settings_of(config, flags | {"algorithm": name})
    if dry_run:
        _show_plan(settings)
    else:
        train(settings, LocalWorld())


def _show_plan(settings: RunConfig) -> None:
    from admmnet.config.modes import check_mode
    from admmnet.running.entrance import prepare

    check_mode(settings)
    if settings.account is not None:
        settings = settings.changed(account=None, no_account=True)
        notes("the account is not read: this is the noise of a first run")
    plan = prepare(settings, LocalWorld())
    facts = _facts(plan)
    said = ("no privacy: there is no noise",) if facts["epsilon_target"] is None else ()
    show(facts, *said)
    if talks():
        notes(*plan.notes, *plan.advice)


def _facts(plan: Plan) -> dict[str, Any]:
    """What a baseline would draw and what that costs, for JSON."""
    from admmnet.cli.calibrate import charges_of
    from admmnet.privacy.ledger.form import finite

    config, own = plan.config, plan.agents[0]
    closing = plan.method.closing(plan.method.agents({0: own}), None).facts
    facts = {"loss": config.loss, "epochs": plan.rounds, **closing.get("baseline", {})}
    contract = plan.contracts[0]
    budget, worst, most = contract.promise, plan.worst(0), contract.most()
    proven = published = None
    if budget is not None and worst is not None and most is not None:
        proven = finite(most.epsilon) if contract.covered else None
        published = finite(worst.epsilon_published(budget.delta))
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "accountant": config.accountant if config.budgeted else None,
        "data": plan.data.name,
        "records": plan.data.counts[0],
        "features": len(plan.data.feature_names),
        **{name: facts[name] for name in ("loss", "epochs")},
        "steps": closing.get("steps", plan.rounds),
        **{name: facts.get(name) for name in ("rate", "noise_multiplier", "pure_epsilon")},
        "adjacency": contract.adjacency,
        "epsilon_target": None if budget is None else budget.epsilon,
        "delta": None if budget is None else budget.delta,
        "epsilon_proven": proven,
        "epsilon_published": published,
        "charges": [] if budget is None else charges_of(own, plan.settings, budget.delta),
    }
