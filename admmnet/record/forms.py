"""What a run says of itself: summary.json as typed values, each key with its meaning.

The tables of docs/ledger.md are made from these types. A key without a default is always there, null where it is
infinite or has no meaning; a key with one is left out where it has that value.
Epsilons and rhos are pure numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from admmnet.data.schema import Task
from admmnet.privacy.ledger.form import Digest, Round
from admmnet.types import Figure, Real, Whole

AgentKey = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)(?!\n)$", max_length=16)]
"""Number of an agent: `$` alone would let a newline in, and so two keys of one agent."""
Number = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | Real
Mode = Literal["simulation", "private"]


class FileForm(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Keys of a JSON file, read by name."""

    def __getitem__(self, key: str) -> Any:
        """Value by its key in the file."""
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Value by its key; ``default`` where there is none."""
        return getattr(self, key, default)


class DataFacts(FileForm, frozen=True, kw_only=True):
    """The records."""

    name: str
    """set or file"""
    train: Whole
    """training records of all agents"""
    test: Whole
    """test records"""
    features: Whole
    """d, columns with the intercept"""
    task: Task
    """kind of labels"""
    preprocessing: Literal["public-bounds", "data-dependent"]
    """`data-dependent`: something was read from records, which no epsilon covers"""
    classes: list[str] = []
    """names of three classes or more"""


class NetworkFigures(FileForm, frozen=True, kw_only=True):
    """What one other agent alone can learn, beside the guarantee: [the network ledger](network-ledger.md)."""

    colluders: Whole
    """agents that look together"""
    theorem: str
    """theorem behind the figures"""
    sets: Whole
    """sets of agents looked at"""
    of: Whole
    """sets there are"""
    epsilon_worst: Figure
    """largest figure"""
    epsilon_mean: Figure
    """their mean"""
    observers: list[Whole]
    """agents that learn most"""
    agent: Whole
    """of whose records"""
    conditions: str
    """conditions of the theorem"""


class Privacy(FileForm, frozen=True, kw_only=True):
    """What the run promises and has spent: the largest figures of its agents, whose records are disjoint."""

    epsilon_target: Figure | None
    delta: Figure | None
    """budget; null without privacy"""
    accountant: Literal["proven", "published"] | None
    """arithmetic that calibrates and guards"""
    account: str | None
    """folder of the account"""
    account_epsilon_spent: Figure | None
    """proven epsilon of all runs of the account"""
    account_colluders: Whole | None = None
    """with [masked](methods.md#masked-sums) sums: least K of its runs, up to which that holds"""
    account_epsilon_if_all_collude: Figure | None = None
    """that epsilon if more collude, or masks fail"""
    account_epsilon_if_all_collude_proven: Figure | None = None
    """most that this may become over all its runs"""
    adjacency: Literal["replace-one", "zero-out"]
    """neighbouring relation"""
    unit: Literal["record"]
    """unit of protection"""
    epsilon_proven: Figure | None
    """guarantee: proven epsilon of the worst case, fixed before the run"""
    trust: Literal["local", "masked"] | None = None
    """of methods that sum: own noise, or masked sums"""
    colluders: Whole | None = None
    """with masked sums: K, up to which `epsilon_proven` holds"""
    epsilon_if_all_collude: Figure | None = None
    """the same if more than K others collude, or masks fail"""
    group_size: Whole
    """K of `--group-size`"""
    epsilon_group: Figure | None
    """guarantee for a person with K records ([Theorem 17](proofs.md#6-the-budget)); null for K = 1, an absent agent,
    or a filter with an order"""
    epsilon_spent: Figure | None
    """spent so far: proven epsilon of all releases"""
    epsilon_published: Figure | None
    """the same by the paper's arithmetic; null for a proven method"""
    rho_proven: Figure | None
    rho_spent: Figure | None
    rho_published: Figure | None
    """zCDP rho of worst case, releases, and releases by the paper"""
    network: NetworkFigures | None = None
    """with `--show end` in one process: figures of one other agent alone, where they take seconds"""


class TestError(FileForm, frozen=True, kw_only=True):
    """Figures of the vectors in model.npz; null without test records."""

    __test__ = False

    mean: Figure | None
    """over agents present at the end"""
    std: Figure | None
    """of the population"""
    consensus: Figure | None
    """of the consensus"""
    macro: Figure | None = None
    """of three classes or more: error in each class, averaged"""
    rmse: Figure | None = None
    """of real targets scaled to [-1, 1]"""
    r2: Real | None = None
    """1 - MSE / variance of the test targets"""
    root_in_units: Figure | None = None
    """`rmse` in the target's unit"""
    one_class: str | None = None
    """label, if the consensus gives every test record the same"""
    records: str | None
    """a reminder that no budget covers these figures"""


class References(FileForm, frozen=True, kw_only=True):
    """Figures to hold `test_error` against, in its unit."""

    larger_class: Figure | None = None
    """of always saying the test records' more frequent class"""
    mean: Figure | None = None
    """of real targets: of always saying their mean"""
    pooled: Figure | None
    """of the run's loss minimised without privacy on all training records, regularisation 1e-4/N or the baseline's;
    null in private runs, for sparse rows, hinge, above 4 million numbers"""


class AgentEntry(FileForm, frozen=True, kw_only=True):
    """Figures of one agent; those of an agent that is away at the end are null but for the first four."""

    agent: Whole
    """number"""
    records: Whole
    """n_i, training records"""
    degree: Whole
    """neighbours"""
    releases: Whole
    """vectors broadcast"""
    rho: Figure | None
    rho_proven: Figure | None
    rho_published: Figure | None
    """zCDP rho of its ledger, worst case, and ledger by the paper"""
    epsilon_target: Figure | None
    delta: Figure | None
    """budget"""
    epsilon_proven: Figure | None
    epsilon_spent: Figure | None
    epsilon_published: Figure | None
    epsilon_group: Figure | None = None
    epsilon_if_all_collude: Figure | None = None
    """as in `privacy`, at its own delta"""
    epsilon_spent_if_all_collude: Figure | None = None
    """of masked sums: the same of its releases"""
    account_epsilon_spent: Figure | None
    account_colluders: Whole | None = None
    account_epsilon_if_all_collude: Figure | None = None
    account_epsilon_if_all_collude_proven: Figure | None = None
    """as in `privacy`, of its own account"""
    refused_at: Whole | None
    """round from which its budget refused"""
    joined_at: Whole | UnsetType | None = UNSET
    """with the [joining gate](methods.md#the-joining-gate): round from which it spoke with its own records, 0 of the
    core; null if it only passed on"""
    asked: Whole | UnsetType = UNSET
    yes: Whole | UnsetType = UNSET
    """with a gate: questions, and those answered with yes"""
    silent: Whole | UnsetType = UNSET
    """with a gate: rounds in which it could have spoken, and did not"""
    figures: dict[str, Number | None] = {}
    """`entry()` of a method from outside"""
    test_error: Figure | None
    """of its vector in model.npz"""


class Gate(FileForm, frozen=True, kw_only=True):
    """With a gate: what it was asked and saved, the sums over agents that are not away at the end."""

    asked: Whole
    yes: Whole
    """questions, and those answered with yes"""
    saved: Whole
    """broadcasts that silence saved"""
    broadcasts: Whole
    """these, and those that were made, relays included"""


class Seconds(FileForm, frozen=True, kw_only=True):
    """Wall time of the slowest process; whole seconds in private runs."""

    total: Figure
    """in all"""
    solve: Figure | None = None
    """in proposals; of simulations alone, as it depends on records"""
    exchange: Figure
    """writing charges, sending, waiting"""


class Baseline(FileForm, frozen=True, kw_only=True):
    """Of a method of one site alone: what was calibrated."""

    loss: str
    """its loss"""
    regularisation: Figure | None
    """lambda"""
    epochs: Number
    """passes over the records"""
    batch: Whole | None
    sampling: str | None
    rate: Figure | None
    """records of a batch, how it is drawn, its share of all; null without batches"""
    noise_multiplier: Figure | None
    """of Gaussian noise: standard deviation over a step's sensitivity"""
    pure_epsilon: Figure | None
    """epsilon of a step where delta is 0"""
    diagnostics: dict[str, Number | None] | UnsetType = UNSET
    """figures such as the duality gap; simulations alone"""


class StartEntry(FileForm, frozen=True, kw_only=True):
    """A start of a run over hosts of their own."""

    number: Whole
    """from 0"""
    members: list[Whole]
    """agents in it"""
    round: Round
    """first round, or the first repeated one"""
    rule: Literal["finish", "replay", "go on"]
    """[how it goes on](protocol.md#words)"""
    cause: str
    """end of the one before, as this agent saw it"""


class Summary(FileForm, frozen=True, kw_only=True):
    """What a finished run says of itself."""

    schema: Literal[3]
    """version of this form"""
    algorithm: str
    """method, or `module:Class`"""
    method: Literal["proven", "published"]
    """its form"""
    agents: Whole
    """N"""
    rounds: Whole
    """rounds done, or epochs"""
    stopped: bool = False
    """`true` where [`on_round`](results.md#track-a-run) ended the run early"""
    aggregate: Literal["mean"]
    """how vectors of several agents count"""
    topology: str | None
    """file or spec of the graph or schedule"""
    transport: Literal["local", "mpi", "zmq"]
    """carrier of messages"""
    encrypted: bool = False
    """`true` where a network file's keys encrypted messages"""
    mode: Mode
    """[`simulation` or `private`](cli.md#modes)"""
    seeded: bool
    """`true`: the run protects nothing"""
    seed: int | None
    """null of secret noise"""
    data: DataFacts
    privacy: Privacy
    """below"""
    metric: Literal["error", "mean-squared-error"]
    """of `test_error`: share of wrong predictions, or of [real targets](data.md#real-targets)"""
    test_error: TestError
    references: References
    """below"""
    train_loss: Real | None = None
    """mean loss of the consensus; simulations only"""
    far_from_others: dict[str, Real]
    """[standing](methods.md#wrong-vectors-among-the-right-ones) of agents far from the others in the last round"""
    per_agent: list[AgentEntry]
    gate: Gate | None = None
    """below"""
    bytes_sent: Whole
    """payload, each vector times its receivers, without [observing the run](simulate.md#what-observing-a-run-sends)"""
    frames: dict[str, Whole] = {}
    """with `zmq`: frames of the relay that were dropped"""
    seconds: Seconds
    """below"""
    steps: Whole | None = None
    """of one site: steps taken"""
    baseline: Baseline | None = None
    """of one site, below"""
    ledgers: dict[str, Digest]
    """sha256 of each ledger"""
    manifest: Literal["manifest.json"]
    """file that lists all others"""
    starts: list[StartEntry] = []
    """[starts](protocol.md), if more than one, that this agent took part in, and the last"""
    away: dict[AgentKey, list[str]] = {}
    """rounds that agents missed: ranges such as `3-17`"""
    notes: list[str]
    """to know before quoting figures"""
    versions: dict[str, str]
    """of admmnet, Python and libraries; `kernel` is `c1` or `numpy`"""


def absent(summary: Summary) -> set[int]:
    """Agents that take no part in the last start of a run, by its summary."""
    return set(range(summary.agents)) - set(summary.starts[-1].members) if summary.starts else set()


TABLES: Collection[type[Struct]] = (
    Summary,
    DataFacts,
    Privacy,
    NetworkFigures,
    TestError,
    References,
    AgentEntry,
    Gate,
    StartEntry,
    Seconds,
    Baseline,
)
"""Forms of summary.json, in the order of docs/ledger.md."""
