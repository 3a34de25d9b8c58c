"""Settings that contradict each other, and settings that the chosen method does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from admmnet.config.run_config import BASELINES, RunConfig, metadata
from admmnet.errors import RequestError
from admmnet.methods import METHODS
from admmnet.settings import checked

Refusals = list[tuple[bool, str]]
"""Whether something is wrong, and what to say then."""

_OF_NETWORK = (
    *("split", "loss_width", "budgets"),
    *("rounds", "eta", "proximal", "growth", "gamma", "beta", "release", "answer"),
    *("inexact_share", "gate", "gate_share", "gate_threshold", "gate_radius", "max_releases", "loss_clip"),
)
"""Settings outside of [network] that a baseline does not have."""
_OWNERS = {
    "gate_share": "ipp-admm",
    "gate_threshold": "ipp-admm",
    "max_releases": "ipp-admm",
    "growth": "m-admm",
    "gamma": "r-admm",
}
"""Settings of one algorithm alone; they stay ``auto`` for the others."""
DEADLINES = ("connect_deadline", "heartbeat_deadline", "round_deadline", "shutdown_deadline")
"""Settings of the transport ``zmq`` alone."""
BASELINE_OWNERS = {
    "batch": ("dp-scd", "seq-dp-scd", "primal-dp-scd", "sgd", "dp-sgd", "song-sgd"),
    "epochs": ("sdca", "dp-scd", "seq-dp-scd", "primal-dp-scd", "sgd", "dp-sgd"),
    "clip": ("dp-scd", "seq-dp-scd", "primal-dp-scd", "dp-sgd"),
    "learning_rate": ("sgd", "dp-sgd", "song-sgd"),
    "sampling": ("dp-scd", "seq-dp-scd", "sgd", "dp-sgd"),
    "dual_noise": ("dp-scd",),
    "accounting": ("dp-scd", "seq-dp-scd", "dp-sgd"),
    "schedule": ("song-sgd",),
    "noise": ("banco",),
}
"""The baselines that have a setting; it stays ``auto`` for the others."""


def check_together(config: RunConfig) -> None:
    """Check settings against each other, and fill in method and accountant.

    Raises
    ------
    RequestError
        Naming the setting and the remedy.
    """
    if config.method is None:
        object.__setattr__(config, "method", "proven" if config.budgeted else "published")
    if config.accountant is None:
        object.__setattr__(config, "accountant", config.method)
    own = _of_baselines(config) if config.baseline else _of_network(config)
    for wrong, message in _of_both(config) + own:
        if wrong:
            raise RequestError(message)
    _check_budgets(config)


def is_random(topology: str) -> bool:
    """Whether a seed decides the graph of this spec or file."""
    from admmnet import graph  # imported here: networkx takes time that --help has not

    return graph.is_random(topology)


def check_graph_seed(topology: str, seed: int) -> None:
    """Raise RequestError for a ``--seed`` that does not decide the graph of this spec or file."""
    if seed and not is_random(topology):
        raise RequestError(_ignored_seed("--seed", seed, topology))


def _ignored_seed(name: str, seed: int | None, topology: str | None) -> str:
    return (
        f"{name} {seed} goes with a random graph, not topology = {topology!r}: "
        "leave it out, or name a random graph such as erdos-renyi:20:0.3"
    )


def kind_of(name: str) -> str:
    """Which methods have a setting: those of the ``network``, the ``baseline`` methods, or ``both``."""
    table = str(metadata()[name][1]["table"])
    if table in ("network", "baseline"):
        return table
    return "network" if name in _OF_NETWORK else "both"


@cache
def lineage(algorithm: str) -> frozenset[str]:
    """Names of a method and of those that it extends, whose settings it has."""
    return frozenset(kind.name for kind in METHODS[algorithm].__mro__ if "name" in vars(kind))  # type: ignore[attr-defined]


def has_setting(algorithm: str, name: str) -> bool:
    """Whether a method has a setting; of the network's methods all have what any of them has."""
    baseline = METHODS[algorithm].verb == "none"
    if kind_of(name) == ("network" if baseline else "baseline") or (algorithm, name) == (
        "banco",
        "regularisation",
    ):
        return False
    return not baseline or bool(lineage(algorithm) & set(BASELINE_OWNERS.get(name, (algorithm,))))


@cache
def _defaults() -> dict[str, Any]:
    return {f.name: {} if f.default is MISSING else f.default for f in fields(RunConfig)}


def _given(config: RunConfig, kind: str) -> Iterator[tuple[str, Any]]:
    """Settings of a kind that differ from their defaults."""
    for name, default in _defaults().items():
        value = getattr(config, name)
        if kind_of(name) == kind and value != default:
            yield name, value


def _said(config: RunConfig, name: str) -> bool:
    """Whether a setting without a default, or a word, was given; a seed may be 0."""
    value = getattr(config, name)
    return value is not None and value is not False


def _of_both(config: RunConfig) -> Refusals:
    published = config.method == "published"
    exclusive = (
        ("test", "test_fraction"),
        ("no_test", "test"),
        ("no_test", "test_fraction"),
        ("no_account", "account"),
        ("private", "simulate"),
        ("private", "seed"),
    )
    return [
        *(
            (
                _said(config, one) and _said(config, other),
                f"{one} and {other} exclude each other: give one of them",
            )
            for one, other in exclusive
        ),
        (
            not config.budgeted and not published,
            f"algorithm {config.algorithm} has no privacy, and so no proven form: drop method",
        ),
        (
            not published and config.accountant == "published",
            "accountant = 'published' goes with method = 'published': a proven method has no published arithmetic",
        ),
        (
            config.account is not None and published,
            "account goes with method = 'proven': it adds up proven costs",
        ),
    ]


def _of_baselines(config: RunConfig) -> Refusals:
    harmless = {"transport": "local", "agents": 1}
    own = [(name, owners) for name, owners in BASELINE_OWNERS.items() if getattr(config, name) != "auto"]
    return [
        *(
            (
                harmless.get(name) != value,
                f"{name} = {value!r} does not go with algorithm = {config.algorithm!r}: there is no network, one "
                "holder has all records",
            )
            for name, value in _given(config, "network")
        ),
        (
            "{agent}" in config.data,
            f"data = {config.data!r} does not go with algorithm = {config.algorithm!r}: one holder has all records; "
            "name one file",
        ),
        *(
            (
                not lineage(config.algorithm) & set(owners),
                f"{name} = {getattr(config, name)!r} does not go with algorithm = {config.algorithm!r}, but with "
                f"{', '.join(owners)}",
            )
            for name, owners in own
        ),
        (
            config.algorithm == "banco" and config.regularisation != "auto",
            "regularisation does not go with algorithm = 'banco', which has none",
        ),
        (
            config.algorithm in ("song-sgd", "banco") and config.loss == "squared",
            f"loss = 'squared' does not go with algorithm = {config.algorithm!r}, whose proof bounds a record's "
            "gradient by 1: take logistic or hinge",
        ),
        (
            config.algorithm == "primal-dp-scd" and config.loss == "hinge",
            "loss = 'hinge' does not go with algorithm = 'primal-dp-scd', whose step needs a bound on the curvature: "
            "take logistic or squared",
        ),
        (
            config.regularisation == 0.0,
            f"regularisation = 0 is not allowed with algorithm = {config.algorithm!r}: it must be above 0",
        ),
    ]


def _of_network(config: RunConfig) -> Refusals:
    published = config.method == "published"
    return [
        *(
            (
                True,
                f"{name} = {value!r} does not go with algorithm = {config.algorithm!r}, but with the baselines: "
                f"{', '.join(BASELINES)}",
            )
            for name, value in _given(config, "baseline")
        ),
        (
            config.release is not None
            and (published or not lineage(config.algorithm) & {"pp-admm", "ipp-admm"}),
            f"release = {config.release!r} goes with pp-admm and ipp-admm, method = 'proven'",
        ),
        (
            config.gate != "auto" and (published or config.algorithm != "ipp-admm"),
            f"gate = {config.gate!r} goes with algorithm = 'ipp-admm' and method = 'proven'",
        ),
        (
            config.gate_radius != _defaults()["gate_radius"]
            and (published or config.algorithm != "ipp-admm" or config.gate == "off"),
            f"gate_radius = {config.gate_radius:g} goes with the gate of algorithm = 'ipp-admm', method = 'proven'",
        ),
        (
            config.loss_clip != _defaults()["loss_clip"]
            and not (published and config.algorithm == "ipp-admm"),
            f"loss_clip = {config.loss_clip:g} goes with algorithm = 'ipp-admm' and method = 'published'",
        ),
        *(
            (
                getattr(config, name) != "auto" and config.algorithm != owner,
                f"{name} goes with algorithm = {owner!r}",
            )
            for name, owner in _OWNERS.items()
        ),
        *(
            (
                getattr(config, name) != "auto" and config.gate == "off",
                f"{name} goes with a gate, not gate = 'off'",
            )
            for name, owner in _OWNERS.items()
            if owner == "ipp-admm"
        ),
        (
            config.inexact_share != "auto" and not config.budgeted,
            f"inexact_share = {config.inexact_share} goes with methods that have noise, not {config.algorithm}",
        ),
        (
            config.loss == "squared" and config.budgeted,
            "loss = 'squared' has no bound on a record's gradient, which every privacy proof needs: use 'huber', whose "
            "residuals are clipped, or algorithm = 'admm'",
        ),
        (
            config.loss in ("smoothed-hinge", "huber") and published and config.budgeted,
            f"loss = {config.loss!r} goes with method = 'proven': the papers' proofs ask for a loss that is twice "
            "differentiable",
        ),
        (
            config.loss_width != "auto" and config.loss not in ("smoothed-hinge", "huber"),
            "loss_width goes with loss = 'smoothed-hinge' and 'huber'",
        ),
        (
            config.on_loss == "continue" and config.transport != "zmq",
            f"on_loss = 'continue' goes with transport = 'zmq', not {config.transport!r}, where one loss ends all",
        ),
        *(
            (
                getattr(config, name) != _defaults()[name] and config.transport != "zmq",
                f"{name} = {getattr(config, name):g} goes with transport = 'zmq', not {config.transport!r}, which has "
                "no deadlines",
            )
            for name in DEADLINES
        ),
        (
            config.transport == "zmq" and config.block not in ("auto", 1),
            f"block = {config.block} does not go with transport = 'zmq', where every agent is a process of its own: "
            "give 1, or leave it out",
        ),
        (
            config.topology_schedule is not None and config.topology is not None,
            "topology and topology_schedule exclude each other: the schedule names its graphs",
        ),
        (
            bool(config.topology_seed) and config.topology is not None and not is_random(config.topology),
            _ignored_seed("topology_seed =", config.topology_seed, config.topology),
        ),
        (
            config.drop_burst != 1.0 and config.drop == 0.0,
            f"drop_burst = {config.drop_burst:g} goes with drop > 0: it is the length of bursts of lost messages",
        ),
        (
            config.straggle > 0.0 and config.delay is None,
            f"straggle = {config.straggle:g} goes with delay: slow rounds show on the virtual clock alone",
        ),
        (
            config.trouble_seed is not None
            and not (config.drop or config.straggle or config.delay is not None),
            f"trouble_seed = {config.trouble_seed} goes with drop, straggle or delay: nothing else is drawn",
        ),
        (
            isinstance(config.max_releases, int)
            and isinstance(config.rounds, int)
            and config.max_releases > config.rounds,
            f"max_releases = {config.max_releases} is not allowed: it must be at most rounds = {config.rounds}",
        ),
    ]


def _check_budgets(config: RunConfig) -> None:
    for agent, table in config.budgets.items():
        where = f"[privacy.agents.{agent}]"
        # 03 would be a budget that no agent looks up
        number = agent.isdecimal() and agent == str(int(agent))
        if not number or not isinstance(table, dict) or not set(table) <= {"epsilon", "delta"}:
            raise RequestError(
                f"{where} must be a table of an agent's number with the keys epsilon and delta"
            )
        for key, value in table.items():
            checked(f"{where} {key}", value, metadata()[key])
