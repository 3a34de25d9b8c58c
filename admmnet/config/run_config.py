"""The settings of a run, frozen and checked once, where they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from admmnet.methods import METHODS
from admmnet.settings import checked, setting

Auto = Literal["auto"]
Mode = Literal["simulation", "private"]
ALGORITHMS = ("admm", "pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")
"""Methods of the network."""
BASELINES = ("sdca", "dp-scd", "seq-dp-scd", "primal-dp-scd", "sgd", "dp-sgd", "song-sgd", "banco")
"""Methods of one holder of all records, for comparison: `admmnet baseline`."""
OPEN = ("admm", "sdca", "sgd")
"""Methods without privacy."""
LOSSES = ("logistic", "smoothed-hinge", "huber", "squared")
BASELINE_LOSSES = ("logistic", "hinge", "squared")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; ``auto`` is replaced by a number where the run starts.

    Raises
    ------
    RequestError
        If a value is out of its range or two settings contradict each other.
    """

    data: str = setting(
        "census", "data", "data set (docs/data.md), or a .csv, .npz or .libsvm file", metavar="NAME|PATH"
    )
    data_dir: str | None = setting(
        None, "data", "folder of the data sets, as DIR/adult/adult.data[.gz]", metavar="DIR"
    )
    data_seed: int = setting(0, "data", "seed of the train/test draw and of the shards", low=0)
    test: str | None = setting(
        None, "data", "file of test records; 'official': the set's own test part", metavar="PATH"
    )
    test_fraction: float | None = setting(
        None, "data", "share of records kept for testing", low=0.0, high=1.0, open_low=True, open_high=True
    )
    no_test: bool = setting(False, "data", "train on all records: there are no test records, and no errors")
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
        "how agents are run; auto: mpi under mpirun, else local; zmq: one process an agent",
        choices=("auto", "local", "mpi", "zmq"),
    )
    block: int | Auto = setting(
        "auto",
        "network",
        "agents whose local problems are solved together; auto: 1 up to 64 agents, an eighth of them up to 128 above",
        low=1,
        high=10_000,
    )
    topology_schedule: str | None = setting(
        None, "network", "file of graphs that take turns: lines such as '0-9 ring:5'", metavar="FILE"
    )
    drop: float = setting(
        0.0, "network", "share of messages that are lost, simulated", low=0.0, high=1.0, open_high=True
    )
    drop_burst: float = setting(
        1.0, "network", "mean number of rounds in a row that a lossy link loses", low=1.0, high=1e6
    )
    straggle: float = setting(
        0.0, "network", "share of rounds in which an agent is slow, for the virtual clock", low=0.0, high=1.0
    )
    offline: str | None = setting(
        None, "network", "who is away when, simulated: 3:10-19,4:25-", metavar="AGENT:FIRST-LAST,..."
    )
    delay: str | None = setting(
        None,
        "network",
        "delays of the virtual clock: compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6,slow=10",
        metavar="KEY=X,...",
    )
    trouble_seed: int | None = setting(
        None, "network", "seed of simulated trouble (default: --seed, else 0)", low=0
    )
    on_loss: str = setting(
        "stop",
        "network",
        "what a lost agent means to the others; continue goes with --transport zmq",
        choices=("stop", "continue"),
    )
    connect_deadline: float = setting(
        60.0, "network", "seconds until all zmq neighbours must have answered", low=0.1, high=1e6
    )
    heartbeat_deadline: float = setting(
        10.0, "network", "seconds without a sign of life until a zmq neighbour is lost", low=0.1, high=1e6
    )
    round_deadline: float = setting(
        600.0, "network", "seconds that a zmq neighbour may take for its part of a round", low=0.1, high=1e6
    )
    shutdown_deadline: float = setting(
        10.0, "network", "seconds in which zmq agents must end after an error", low=0.1, high=1e6
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
        "auto", "problem", "regularisation; auto: the least that is needed, 1e-4 for admm", low=0.0, high=1e12
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
        "auto", "algorithm", "weight of a self-term; auto: by the rule, 0 if published", low=0.0, high=1e9
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
    delta: float | Auto = setting(
        "auto",
        "privacy",
        "privacy budget delta; auto: an account's, else 0.1 over the records of the smallest agent, at most 1e-5",
        low=0.0,
        open_low=True,
        high=1.0,
        open_high=True,
    )
    inexact_share: float | Auto = setting(
        "auto",
        "privacy",
        "share of a release's budget for the noise that hides how inexact the solve is; auto: 0.001",
        low=0.0,
        open_low=True,
        high=1.0,
        open_high=True,
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
    no_account: bool = setting(
        False, "privacy", "no account adds up what runs on these records spend: this run counts alone"
    )
    group_size: int = setting(
        1,
        "privacy",
        "also report what a person with this many records, anywhere in the network, is promised",
        low=1,
        high=1_000_000,
        metavar="K",
    )
    budgets: dict[str, Any] = setting(
        {}, "privacy", "budgets of single agents: [privacy.agents.3] epsilon = 0.5"
    )

    seed: int | None = setting(
        None,
        "run",
        "seed of the noise: a simulation that protects nothing; without it noise is secret",
        low=0,
    )
    simulate: bool = setting(
        False, "run", "take the records to be public: a simulation, which may show what depends on them"
    )
    private: bool = setting(False, "run", "treat the records as private, even those of a public data set")
    out: str | None = setting(None, "run", "run folder (default: runs/<time>-<algorithm>)", metavar="DIR")
    checkpoint_every: int | None = setting(
        None, "run", "rounds between checkpoints, from which --resume goes on", low=1, metavar="K"
    )
    resume: str | None = setting(None, "run", "run folder of an interrupted run to go on with", metavar="DIR")

    batch: int | Auto = setting(
        "auto",
        "baseline",
        "baselines: nominal number of records (primal-dp-scd: features) of a step",
        low=1,
        high=1_000_000_000,
    )
    epochs: int | Auto = setting(
        "auto", "baseline", "baselines: passes over the records", low=1, high=1_000_000
    )
    clip: float | Auto = setting(
        "auto",
        "baseline",
        "baselines: most that a record moves a step: of a coordinate, or its gradient's norm",
        low=0.0,
        open_low=True,
        high=1e6,
    )
    learning_rate: float | Auto = setting(
        "auto", "baseline", "baselines: step size of gradient descent", low=0.0, open_low=True, high=1e9
    )
    sampling: str = setting(
        "auto",
        "baseline",
        "baselines: how batches arise; auto: by the method",
        choices=("auto", "poisson", "fixed", "shuffled"),
    )
    dual_noise: bool | Auto = setting(
        "auto", "baseline", "baselines: dp-scd with noise on the dual variables, too, as in its paper"
    )
    accounting: str = setting(
        "auto",
        "baseline",
        "baselines: how the proven accountant reads sampled steps; auto: pld",
        choices=("auto", "pld", "rdp"),
    )
    schedule: str = setting(
        "auto",
        "baseline",
        "baselines: step size at step t: learning rate c, c/sqrt(t), or c/(regularisation t)",
        choices=("auto", "constant", "sqrt", "inverse"),
    )
    noise: str = setting(
        "auto",
        "baseline",
        "baselines: noise of banco (auto: laplace)",
        choices=("auto", "laplace", "gaussian"),
    )

    def __post_init__(self) -> None:
        """Check every value."""
        from admmnet.config.checks import check_together  # it knows the settings, too

        algorithm = checked("algorithm", self.algorithm, _described("algorithm", baseline=False))
        object.__setattr__(self, "algorithm", algorithm)  # the others depend on it
        for name in metadata():
            object.__setattr__(
                self, name, checked(name, getattr(self, name), _described(name, self.baseline))
            )
        check_together(self)

    @property
    def baseline(self) -> bool:
        """Whether one holder has all records."""
        return METHODS[self.algorithm].verb == "none"

    @property
    def budgeted(self) -> bool:
        """Whether the method has a privacy budget."""
        return METHODS[self.algorithm].private

    def budget_of(self, agent: int) -> tuple[float, float]:
        """Epsilon and delta of one agent, once delta is a number."""
        own = self.budgets.get(str(agent), {})
        return float(own.get("epsilon", self.epsilon)), float(own.get("delta", self.delta))

    @property
    def seeded(self) -> bool:
        """Whether a seed makes the noise, so that whoever has it can make the noise again."""
        return self.seed is not None

    @property
    def public_data(self) -> bool:
        """Whether ``data`` names a set that is declared public; files and ``ipums:FILE`` are not."""
        from admmnet.data.sets import BUILT_IN

        return self.data in BUILT_IN

    @property
    def simulation(self) -> bool:
        """Whether records may show: they are public, or ``seed`` or ``simulate`` says that nothing is protected."""
        return not self.private and (self.simulate or self.seeded or self.public_data)

    @property
    def mode(self) -> Mode:
        """``simulation`` or ``private``: it decides what is shown and kept (docs/cli.md, "Modes")."""
        return "simulation" if self.simulation else "private"


@cache
def metadata() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Annotation and metadata of every setting, by name."""
    return {f.name: (str(f.type), f.metadata) for f in fields(RunConfig)}


def _described(name: str, baseline: bool) -> tuple[str, Mapping[str, Any]]:
    """Annotation and metadata of a setting for one of the two kinds of methods."""
    kind, meta = metadata()[name]
    if name == "algorithm":
        return kind, {**meta, "choices": tuple(METHODS)}
    if baseline and name == "loss":
        return kind, {**meta, "choices": BASELINE_LOSSES}
    return kind, {**meta, "low": 1} if baseline and name == "agents" else meta
