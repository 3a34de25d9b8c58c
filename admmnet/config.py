"""The settings of a run, frozen and checked once, where they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from admmnet.errors import RequestError
from admmnet.settings import checked, setting

Auto = Literal["auto"]
ALGORITHMS = ("admm", "pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")
LOSSES = ("logistic", "smoothed-hinge", "huber", "squared")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; ``auto`` is replaced by a number where the run starts.

    Raises
    ------
    RequestError
        If a value is out of its range or two settings contradict each other.
    """

    data: str = setting(
        "census",
        "data",
        "data set (docs/data.md), or a .csv, .npz or .libsvm file",
        metavar="NAME|PATH",
    )
    data_dir: str | None = setting(
        None, "data", "folder of the data sets, as DIR/adult/adult.data[.gz]", metavar="DIR"
    )
    data_seed: int = setting(0, "data", "seed of the train/test draw and of the shards", low=0)
    test: str | None = setting(
        None, "data", "file of test records; 'official': the set's own test part", metavar="PATH"
    )
    test_fraction: float | None = setting(
        None,
        "data",
        "share of the records kept for testing",
        low=0.0,
        high=1.0,
        open_low=True,
        open_high=True,
    )
    split: str = setting("iid", "data", "how records go to agents", metavar="iid|dirichlet:A|by-column:NAME")
    label: str | None = setting(None, "data", "label column of a .csv file", metavar="NAME")
    positive: str | None = setting(None, "data", "label value that counts as +1", metavar="VALUE")
    features: int | None = setting(None, "data", "number of features of a .libsvm file", low=1)
    no_intercept: bool = setting(False, "data", "do without the constant column")
    data_dependent: bool = setting(
        False, "data", "accept an encoding discovered from private records, which no ledger covers"
    )
    normalise: str = setting(
        "rows",
        "data",
        "what is scaled: rows alone, or features first, by their largest values (columns) or declared bounds",
        choices=("rows", "columns", "public"),
    )
    project: int | None = setting(
        None, "data", "random projection of the features to this many, by the data seed", low=1, metavar="D"
    )
    centre: str | None = setting(
        None, "data", "value of a real target that becomes 0: a number, or mean", metavar="X|mean"
    )
    schema: dict[str, Any] = setting(
        {}, "data", "public schema of a file: labels, columns, categories, bounds"
    )

    topology: str | None = setting(None, "network", "graph file or spec such as ring:5", metavar="FILE|SPEC")
    topology_seed: int | None = setting(
        None, "network", "seed of a random graph (default: --seed, else 0)", low=0
    )
    agents: int | None = setting(
        None, "network", "number of agents (default: the graph's, the ranks', 5)", low=2
    )
    transport: str = setting(
        "auto",
        "network",
        "how agents are run; auto: mpi under mpirun, else local",
        choices=("auto", "local", "mpi"),
    )

    loss: str = setting("logistic", "problem", "loss function", choices=LOSSES)
    loss_width: float | Auto = setting(
        "auto",
        "problem",
        "half-width of the quadratic part of smoothed-hinge (auto: 0.5) and huber (auto: 1)",
        low=1e-6,
        high=1e6,
    )
    regularisation: float | Auto = setting(
        "auto",
        "problem",
        "regularisation; auto: the least the method needs, 1e-4 for admm",
        low=0.0,
        high=1e12,
    )

    algorithm: str = setting("ipp-admm", "algorithm", "method", choices=ALGORITHMS)
    method: str | None = setting(
        None,
        "algorithm",
        "form of the method: corrected, or the paper's to the letter (default: proven)",
        choices=("proven", "published"),
    )
    rounds: int | Auto = setting(
        "auto",
        "algorithm",
        "rounds T; auto: by the rule of docs/defaults.md, 30 if published, 100 for admm",
        low=1,
        high=1_000_000,
    )
    eta: float | Auto = setting(
        "auto",
        "algorithm",
        "ADMM penalty; auto: by the rule, 0.5 if published, 0.001 for admm",
        low=0.0,
        open_low=True,
        high=1e9,
    )
    proximal: float | Auto = setting(
        "auto",
        "algorithm",
        "weight of an agent's self-term; auto: by the rule, 0 if published",
        low=0.0,
        high=1e9,
    )
    growth: float | Auto = setting(
        "auto",
        "algorithm",
        "factor by which m-admm's penalty grows every round; auto: 1 if proven, 1.02 if published",
        low=1.0,
        high=2.0,
    )
    gamma: float | Auto = setting(
        "auto",
        "algorithm",
        "weight that holds r-admm's even rounds near the last vector; auto: the loss's curvature bound",
        low=0.0,
        high=1e9,
    )
    beta: float | Auto = setting(
        "auto",
        "algorithm",
        "gradient norm to which a local problem is solved; auto: 1e-8, 10^-3.5 if published",
        low=0.0,
        open_low=True,
        high=1.0,
    )
    release: str | None = setting(
        None,
        "algorithm",
        "where the noise of a proven method goes (default: objective)",
        choices=("objective", "output"),
    )
    answer: str = setting(
        "last",
        "algorithm",
        "model at the end: the last released vectors, their mean over the last half of the rounds, or gossip",
        choices=("last", "tail", "gossip"),
    )

    accountant: str | None = setting(
        None,
        "privacy",
        "which arithmetic calibrates and guards (default: the method's)",
        choices=("proven", "published"),
    )
    epsilon: float = setting(
        1.0, "privacy", "privacy budget epsilon of every agent", low=0.0, open_low=True, high=1e6
    )
    delta: float = setting(
        1e-4, "privacy", "privacy budget delta", low=0.0, open_low=True, high=1.0, open_high=True
    )
    gate: str = setting(
        "auto",
        "privacy",
        "gate of ipp-admm; auto: the one with less noise, the paper's if published",
        choices=("auto", "above-threshold", "gaussian", "off"),
    )
    gate_share: float | Auto = setting(
        "auto",
        "privacy",
        "share of the budget for the gate; auto: 0.05, 0.1 if published",
        low=0.0,
        open_low=True,
        high=1.0,
        open_high=True,
    )
    gate_threshold: float | Auto = setting(
        "auto",
        "privacy",
        "threshold of the gate; auto: 0.005 less twice its noise, 1e-3 if published",
        high=1e9,
        low=-1e9,
    )
    gate_radius: float = setting(
        5.0, "privacy", "radius of the ball in the proven gate's query", low=0.0, open_low=True, high=1e6
    )
    max_releases: int | Auto = setting(
        "auto", "privacy", "most broadcasts of an agent; auto: the rounds, 15 if published", low=1
    )
    loss_clip: float = setting(
        2.0, "privacy", "clip of a record's loss in the published gate, C", low=0.0, open_low=True, high=1e6
    )
    account: str | None = setting(
        None, "privacy", "folder of an account that many runs on the same records share", metavar="DIR"
    )
    budgets: dict[str, Any] = setting(
        {}, "privacy", "budgets of single agents: [privacy.agents.3] epsilon = 0.5"
    )

    seed: int | None = setting(
        None, "run", "seed of the noise: a simulation; without it noise is private", low=0
    )
    out: str | None = setting(None, "run", "run folder (default: runs/<time>-<algorithm>)", metavar="DIR")

    def __post_init__(self) -> None:
        """Check every value."""
        for name, meta in metadata().items():
            object.__setattr__(self, name, checked(name, getattr(self, name), meta))
        _check_together(self)

    @property
    def private(self) -> bool:
        """Whether the method has a privacy budget."""
        return self.algorithm != "admm"


@cache
def metadata() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Annotation and metadata of every setting, by name."""
    return {f.name: (str(f.type), f.metadata) for f in fields(RunConfig)}


def _check_together(config: RunConfig) -> None:
    if config.test is not None and config.test_fraction is not None:
        raise RequestError("test and test_fraction exclude each other: give one of them")
    if config.method is None:
        object.__setattr__(config, "method", "proven" if config.private else "published")
    if config.accountant is None:
        object.__setattr__(config, "accountant", config.method)
    for wrong, message in _contradictions(config):
        if wrong:
            raise RequestError(message)
    if (
        isinstance(config.max_releases, int)
        and isinstance(config.rounds, int)
        and config.max_releases > config.rounds
    ):
        raise RequestError(
            f"max_releases = {config.max_releases} is not allowed: it must be at most rounds = {config.rounds}"
        )
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


_OWNERS = {
    "gate_share": "ipp-admm",
    "gate_threshold": "ipp-admm",
    "max_releases": "ipp-admm",
    "growth": "m-admm",
    "gamma": "r-admm",
}
"""Settings of one algorithm alone; they stay ``auto`` for the others."""


def _contradictions(config: RunConfig) -> list[tuple[bool, str]]:
    published = config.method == "published"
    return [
        (
            not config.private and not published,
            "algorithm admm has no privacy, and so no proven form: drop method",
        ),
        (
            not published and config.accountant == "published",
            "accountant = 'published' goes with method = 'published': a proven method has no published arithmetic",
        ),
        (
            config.release is not None and (published or config.algorithm not in ("pp-admm", "ipp-admm")),
            f"release = {config.release!r} goes with pp-admm and ipp-admm, method = 'proven'",
        ),
        (
            config.gate != "auto" and (published or config.algorithm != "ipp-admm"),
            f"gate = {config.gate!r} goes with algorithm = 'ipp-admm' and method = 'proven'",
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
            config.loss == "squared" and config.private,
            "loss = 'squared' has no bound on a record's gradient, which every privacy proof needs: use 'huber', whose "
            "residuals are clipped, or algorithm = 'admm'",
        ),
        (
            config.loss in ("smoothed-hinge", "huber") and published and config.private,
            f"loss = {config.loss!r} goes with method = 'proven': the papers' proofs ask for a loss that is twice "
            "differentiable",
        ),
        (
            config.loss_width != "auto" and config.loss not in ("smoothed-hinge", "huber"),
            "loss_width goes with loss = 'smoothed-hinge' and 'huber'",
        ),
        (
            config.account is not None and published,
            "account goes with method = 'proven': it adds up proven costs",
        ),
    ]
