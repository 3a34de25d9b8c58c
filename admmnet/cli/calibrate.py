"""admmnet calibrate: what each part of a run's budget buys, without data; and admmnet baseline, whose dry run does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import explain_flag, json_flag, notes, output_flags, show, talks
from admmnet.cli.run import train
from admmnet.cli.settings import SettingsCommand, given_in, setting_flags, settings_of
from admmnet.config.run_config import known_settings, with_delta
from admmnet.config.toml import saved_algorithm
from admmnet.errors import RequestError
from admmnet.experiments.parsing import listed
from admmnet.methods import METHODS, single_sites
from admmnet.methods.sample_complexity import Goal, needed
from admmnet.record.format import epsilon
from admmnet.registry import meant
from admmnet.settings import settings_in
from admmnet.transport import World

if TYPE_CHECKING:
    from admmnet.methods.agents import AgentPlan
    from admmnet.methods.base import Method
    from admmnet.methods.settings import MethodSettings
    from admmnet.privacy.contract import Contract
    from admmnet.running.plan import Plan

BUILT_IN_TRAINING = 35_000
"""Training records of census and adult, shared evenly if --records is not given."""


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--records", metavar="N[,N...]", help="records of every agent, or of each (default: 35,000 over all)")
@setting_flags(*settings_in(Goal), section=Goal)
@json_flag
def calibrate(config: str | None, records: str | None, **flags: Any) -> None:
    """Print the noise of a run and what each part of its budget buys.

    Takes the flags of `run`; --features is the number of columns with the intercept (100 if not given). No
    data set is opened.
    """
    from admmnet.data.sources import declared_classes, declared_task
    from admmnet.methods import fixed
    from admmnet.methods.base import Facts
    from admmnet.running.before import located
    from admmnet.running.plan import decide

    goal, asked = Goal(**given_in({name: flags.pop(name) for name in settings_in(Goal)})), None
    run = settings_of(config, flags)
    if run.baseline:
        raise RequestError(
            f"algorithm = {run.algorithm!r} has no network to plan for: admmnet baseline {run.algorithm} --dry-run "
            "prints its noise and cost"
        )
    settings = fixed(run.sections.method)
    if goal.sample_complexity is not None:
        asked = {"accuracy": goal.sample_complexity, "norm": goal.reference_norm, "failure": goal.failure}
        if (settings.algorithm, settings.method) != ("pp-admm", "published"):
            raise RequestError(
                "--sample-complexity goes with --algorithm pp-admm --method published: its paper's Theorems 3.4 and "
                "3.5 speak of that form alone"
            )
    sizes = [] if records is None else [int(n) if n.isdecimal() else 0 for n in listed(records)]
    if 0 in sizes:
        raise RequestError(
            f"--records {records!r} is not allowed: it must be whole numbers, at least 1, as 7000 or 700,900"
        )
    if run.agents is None and run.topology is None and len(sizes) > 1:
        run = run.changed(agents=len(sizes))
    _, graph = located(run, World())
    sizes = sizes or [max(BUILT_IN_TRAINING // len(graph), 1)]
    if len(sizes) not in (1, len(graph)):
        raise RequestError(f"--records {records} names {len(sizes)} sizes for {len(graph)} agents: give one, or all")
    counts = {i: sizes[i % len(sizes)] for i in range(len(graph))}
    run.check_task()
    task, classes = declared_task(run.sections.data), declared_classes(run.sections.data)
    settings = with_delta(settings, list(counts.values()))
    known = Facts(graph, counts, run.features or 100, task=task, classes=classes)
    method, plans, contracts, _ = decide(settings, World(), [sorted(graph)], known)
    if settings.account is not None:
        notes("the account is not read: this is the noise of a first run")
    facts = _facts(method, plans, contracts, asked)
    show(facts, *_said(facts, method.settings, contracts, asked))


MINIMISERS = ("objective-perturbation", "gamma-norm")
_FOR = {
    "objective-perturbation": "noise in the objective",
    "gamma-norm": "noise in the objective",
    "discrete-gaussian": "one part of a sum",
    "above-threshold": "the gate's threshold",
    "laplace": "the gate's first question",
    "gamma-norm-vector": "noise on the vector",
    "subsampled-gaussian": "noisy steps on drawn records",
    "none": "nothing: no record read",
    "unprotected": "nothing: no noise",
}
"""What a charge pays for, by its mechanism."""


def pays_for(mechanisms: Sequence[str], *, gated: bool) -> list[str]:
    """What each charge of a plan pays for, in order.

    Gaussian noise on a vector has three uses. Behind an objective's noise it hides how exactly the solve was made
    (docs/proofs.md, Theorem 4); as a plan's first charge it is all the noise of the vector that is sent; else, of
    a method with a gate, it is that of the gate's questions.
    """
    found = []
    for before, own in zip([None, *mechanisms], mechanisms, strict=False):
        if own == before == "laplace":
            found.append("its later questions")
        elif own != "gaussian":
            found.append(_FOR[own])
        elif before in MINIMISERS:
            found.append("hides solve errors")
        else:
            found.append("the gate's question" if gated and before else "noise on the vector")
    return found


def charges_of(plan: AgentPlan, settings: MethodSettings, delta: float) -> list[dict[str, Any]]:
    """All that an agent can be charged, and what each part costs alone."""
    from admmnet.privacy.budget import Totals
    from admmnet.privacy.events import parameters
    from admmnet.privacy.ledger.form import finite

    charges = []
    mechanisms = [event.mechanism for event, _ in plan.charges]
    gated = getattr(settings, "gate", "off") != "off"
    for (event, times), words in zip(plan.charges, pays_for(mechanisms, gated=gated), strict=True):
        alone = Totals.of([(event, times)], str(settings.method))
        charges.append(
            {
                "mechanism": event.mechanism,
                "pays_for": words,
                "parameters": parameters(event),
                "times": times,
                "rho": finite(alone.rho),
                "epsilon_alone": finite(alone.epsilon_proven(delta)),
                "rho_published": finite(alone.rho_published),
            }
        )
    return charges


def _facts(
    method: Method, plans: Mapping[int, AgentPlan], contracts: Mapping[int, Contract], asked: dict[str, Any] | None
) -> dict[str, Any]:
    """What is decided, and every agent's charges and worst case: what ``--json`` prints."""
    from msgspec import to_builtins

    from admmnet.privacy.budget import Totals
    from admmnet.privacy.ledger.form import total_line

    def decided(name: str) -> float | None:
        value = getattr(config, name, None)
        return None if value in (None, "auto") else float(value)

    agents, config = [], method.settings
    for i, plan in plans.items():
        contract, noise = contracts[i], plan.noise
        budget, worst = contract.promise, Totals.of(plan.charges, contract.form)
        if budget is None:
            continue
        agents.append(
            {
                "agent": i,
                "records": method.facts.counts[i],
                "degree": method.facts.graph.degree(i),
                "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
                "convexity": plan.convexity,
                "proximal": plan.proximal,
                **{name: getattr(noise, name, None) for name in ("sigma1", "rate", "sigma2")},
                "charges": charges_of(plan, config, budget.delta),
                "worst_case": to_builtins(total_line(worst, contract)),
            }
        )
        if asked is not None:
            own = {"sigma1": noise.sigma1, "sigma2": noise.sigma2, "width": method.facts.width}
            agents[-1]["sample_complexity"] = asked | needed(**asked, beta=method.beta, **own)._asdict()
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "accountant": config.accountant if config.budgeted else None,
        "rounds": method.rounds,
        **{name: decided(name) for name in ("eta", "beta", "regularisation")},
        "agents": agents,
    }


def _said(
    facts: Mapping[str, Any], config: MethodSettings, contracts: Mapping[int, Contract], asked: dict[str, Any] | None
) -> Iterator[str]:
    """Sentences on what the figures hold for."""
    if not config.budgeted:
        yield "no privacy: vectors are sent as they are"
    elif config.group_size > 1:
        groups = [contract.group() for contract in contracts.values()]
        most = epsilon(max(math.inf if value is None else value for value in groups))
        yield f"a person with {config.group_size} records, wherever they are held: epsilon {most}"
    if config.trust == "masked":
        yield (
            f"masked sums: epsilon spent holds if at most K = {config.colluders} others collude, epsilon if all "
            "collude if all others do, or masks fail"
        )
    if any(charge["mechanism"] == "discrete-gaussian" for entry in facts["agents"] for charge in entry["charges"]):
        yield "noise: discrete-gaussian states it for a sum over records, the others for a mean over an agent's records"
    if asked is not None:
        yield "sample complexity: without noise by Theorem 3.4, private by Theorem 3.5, in units of V records"
        yield "they hold with probability 1 - failure and 1 - 3 failure; where a dash stands, nothing is promised"
        yield "they say nothing about an excess loss below least, nor below least ever with any number of records"
        yield "V is a constant that the paper leaves open; its a and Delta are taken to be 0"


@click.command(
    cls=SettingsCommand,
    methods=single_sites,
    named=lambda args: [word for word in args if not word.startswith("-") and word in METHODS][:1],
    more="baseline NAME",
    hidden=["algorithm", *(name for name, own in known_settings().items() if own.scope)],
    changes={"loss": {"metavar": "logistic|hinge|squared"}},
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
    if not dry_run:
        train(settings, World())
        return
    from admmnet.config.modes import check_mode
    from admmnet.running.entrance import prepare

    check_mode(settings)
    if settings.account is not None:
        settings = settings.changed(account=None, no_account=True)
        notes("the account is not read: this is the noise of a first run")
    plan = prepare(settings, World())
    facts = _dry_facts(plan)
    said = ("no privacy: there is no noise",) if facts["epsilon_target"] is None else ()
    show(facts, *said)
    if talks():
        notes(*plan.notes, *plan.advice)


def _dry_facts(plan: Plan) -> dict[str, Any]:
    """What a baseline would draw and what that costs, for JSON."""
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
