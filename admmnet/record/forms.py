"""What a run says of itself: summary.json as typed values, each key with its meaning.

The JSON Schema of summary.json and the tables of docs/ledger.md are made from these types. A key without a default
is always there, null where it is infinite or has no meaning; a key with one is left out where it has that value.
Epsilons and rhos are pure numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from admmnet.data import Task
from admmnet.privacy.ledger.form import Digest, Round

NUMBER = "0|[1-9][0-9]*"
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Figure = Annotated[float, Meta(ge=0.0, le=1e300)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
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
    """name of the set, or path of the file"""
    train: Whole
    """training records of all agents together"""
    test: Whole
    """test records"""
    features: Whole
    """d, columns with the intercept"""
    task: Task
    """what the labels are"""
    preprocessing: Literal["public-bounds", "data-dependent"]
    """`data-dependent`: something was read from the records, which no epsilon covers"""
    classes: list[str] = []
    """names of three classes or more"""


class NetworkFigures(FileForm, frozen=True, kw_only=True):
    """What one other agent alone can learn, beside the guarantee: [the network ledger](network-ledger.md)."""

    colluders: Whole
    """how many agents look together"""
    theorem: str
    """which theorem gives the figures"""
    sets: Whole
    """sets of so many agents that were looked at"""
    of: Whole
    """sets that there are"""
    epsilon_worst: Figure
    """the largest of all figures"""
    epsilon_mean: Figure
    """their mean"""
    observers: list[Whole]
    """who learns most"""
    agent: Whole
    """of whose records"""
    conditions: str
    """what it needs"""


class Privacy(FileForm, frozen=True, kw_only=True):
    """What the run promises and has spent: the largest figures of its agents, whose records are disjoint."""

    epsilon_target: Figure | None
    """epsilon asked for; null without privacy"""
    delta: Figure | None
    """delta asked for; null without privacy"""
    accountant: Literal["proven", "published"] | None
    """whose arithmetic calibrated the noise and guarded the budget"""
    account: str | None
    """folder of the account that the run continued"""
    account_epsilon_spent: Figure | None
    """proven epsilon of everything in that account, all runs together"""
    account_colluders: Whole | None = None
    """where any run of the account had [masked](methods.md#masked-sums) sums: the least K of its runs, up to which
    `account_epsilon_spent` holds"""
    account_epsilon_if_all_collude: Figure | None = None
    """the same account's epsilon if more work together, or masks fail"""
    account_epsilon_if_all_collude_proven: Figure | None = None
    """the most that this may come to over all its runs; absent where it is infinite"""
    adjacency: Literal["replace-one", "zero-out"]
    """neighbours differ in one record of one agent: exchanged for another, or for a row of zeros"""
    unit: Literal["record"]
    """what is protected"""
    epsilon_proven: Figure | None
    """proven epsilon of the worst case, fixed before the run: a promise; null where there is none"""
    trust: Literal["local", "masked"] | None = None
    """of methods that sum: whether every agent's own noise protects it, or masked sums do"""
    colluders: Whole | None = None
    """with [`--trust masked`](methods.md#masked-sums): K, up to which `epsilon_proven` holds"""
    epsilon_if_all_collude: Figure | None = None
    """proven epsilon of the worst case if more than K others work together, or masks fail"""
    group_size: Whole
    """K of `--group-size`"""
    epsilon_group: Figure | None
    """promise to a person with K records of this run ([Theorem 17](proofs.md#6-the-budget)); null for K = 1, where
    an agent is away at the end, and of an `adaptive` method whose filter has an order"""
    epsilon_spent: Figure | None
    """spent so far: proven epsilon of all releases; not the guarantee"""
    epsilon_published: Figure | None
    """epsilon of what was released, by the paper's arithmetic; null for a proven method"""
    rho_proven: Figure | None
    """zCDP rho of the worst case"""
    rho_spent: Figure | None
    """zCDP rho of what was released, proven"""
    rho_published: Figure | None
    """the same by the paper's arithmetic"""
    network: NetworkFigures | None = None
    """with `--show end`, of a run of one process: what one other agent alone can learn, where there is a figure that
    takes no more than seconds"""


class TestError(FileForm, frozen=True, kw_only=True):
    """Figures of the vectors in model.npz; null without test records."""

    __test__ = False

    mean: Figure | None
    """over agents that are not away at the end"""
    std: Figure | None
    """over the same, of the population"""
    consensus: Figure | None
    """of the consensus"""
    macro: Figure | None = None
    """of three classes or more: share in each class, averaged over classes, of the consensus"""
    rmse: Figure | None = None
    """of real targets scaled to [-1, 1]: root mean square"""
    r2: Real | None = None
    """1 - MSE / variance of the test targets"""
    root_in_units: Figure | None = None
    """`rmse` in the target's own unit"""
    one_class: str | None = None
    """the label that the consensus gives every test record, where it gives one alone"""
    records: str | None
    """a reminder that nobody was charged for these figures"""


class References(FileForm, frozen=True, kw_only=True):
    """Figures to hold `test_error` against, in its unit."""

    larger_class: Figure | None = None
    """of always saying the more frequent class of the test records"""
    mean: Figure | None = None
    """of real targets: of always saying the mean of the test records"""
    pooled: Figure | None
    """of the minimiser without privacy of the run's own loss on all training records together, regularisation 1e-4/N
    or the baseline's; null in private runs, for sparse rows, the hinge, and above 4 million numbers"""


class AgentEntry(FileForm, frozen=True, kw_only=True):
    """Figures of one agent; those of an agent that is away at the end are null but for the first four."""

    agent: Whole
    """number"""
    records: Whole
    """n_i, its training records"""
    degree: Whole
    """number of neighbours"""
    releases: Whole
    """vectors it broadcast"""
    rho: Figure | None
    """zCDP rho of its ledger, proven; null where no finite cost is proven"""
    rho_proven: Figure | None
    """zCDP rho of its worst case"""
    rho_published: Figure | None
    """zCDP rho of its ledger by the paper's arithmetic"""
    epsilon_target: Figure | None
    """its budget"""
    delta: Figure | None
    """its delta"""
    epsilon_proven: Figure | None
    """as in `privacy`, at its own delta"""
    epsilon_spent: Figure | None
    """as in `privacy`, at its own delta"""
    epsilon_published: Figure | None
    """as in `privacy`, at its own delta"""
    epsilon_group: Figure | None = None
    """with `--group-size` above 1: as in `privacy`"""
    epsilon_if_all_collude: Figure | None = None
    """of masked sums: as in `privacy`"""
    epsilon_spent_if_all_collude: Figure | None = None
    """of masked sums: the same of what was released"""
    account_epsilon_spent: Figure | None
    """proven epsilon of its account, all runs together; null without account"""
    account_colluders: Whole | None = None
    """as in `privacy`, of its own account"""
    account_epsilon_if_all_collude: Figure | None = None
    """as in `privacy`, of its own account"""
    account_epsilon_if_all_collude_proven: Figure | None = None
    """as in `privacy`, of its own account"""
    refused_at: Whole | None
    """round from which its budget refused; null if it never did"""
    joined_at: Whole | UnsetType | None = UNSET
    """with the [joining gate](methods.md#the-joining-gate) alone: round from which it spoke with its own records,
    0 of the core; null for never, whose releases are what it passed on"""
    asked: Whole | UnsetType = UNSET
    """with a gate alone: questions that it was asked"""
    yes: Whole | UnsetType = UNSET
    """with a gate alone: how many of them were answered with yes"""
    silent: Whole | UnsetType = UNSET
    """with a gate alone: rounds in which it could have spoken, and did not"""
    figures: dict[str, Number | None] = {}
    """of a method from outside: what its `entry()` says"""
    test_error: Figure | None
    """of its vector in model.npz; null without test records"""


class Gate(FileForm, frozen=True, kw_only=True):
    """With a gate: what it was asked and saved, the sums over agents that are not away at the end."""

    asked: Whole
    """questions; none of the joining gate where all agents are in its [core](methods.md#the-joining-gate)"""
    yes: Whole
    """how many were answered with yes"""
    saved: Whole
    """broadcasts that would have been, had all agents spoken in every round"""
    broadcasts: Whole
    """these, and those that there were: vectors that only pass on what an agent heard are broadcasts, too"""


class Seconds(FileForm, frozen=True, kw_only=True):
    """Wall time of the slowest process; whole seconds in private runs."""

    total: Figure
    """in all"""
    solve: Figure | None = None
    """in proposals; simulations alone, because the time of a solve depends on records"""
    exchange: Figure
    """writing charges through, sending and waiting"""


class VirtualSeconds(FileForm, frozen=True, kw_only=True):
    """With [`--delay`](simulate.md): how long the rounds would have taken."""

    total: Figure
    """in all"""
    median_round: Figure
    """of a round"""
    longest_round: Figure
    """of a round"""
    slowest_agent: Whole
    """whose own computing took longest"""
    slowest_agent_computing: Figure
    """how long that took"""
    waiting_share: Real
    """mean share of the time in which agents wait"""


class Baseline(FileForm, frozen=True, kw_only=True):
    """Of a method of one site alone: what was calibrated."""

    loss: str
    """its loss"""
    regularisation: Figure | None
    """lambda of its objective; null where the method has chosen none"""
    epochs: Number
    """passes over the records"""
    batch: Whole | None
    """records of a batch; null where there are none"""
    sampling: str | None
    """how batches are drawn; null where there are none"""
    rate: Figure | None
    """share of the records in a batch"""
    noise_multiplier: Figure | None
    """standard deviation of the noise over the sensitivity of a step; null of noise of another form"""
    pure_epsilon: Figure | None
    """epsilon of one step where delta is 0"""
    diagnostics: dict[str, Number | None] | UnsetType = UNSET
    """figures of the optimisation, such as its duality gap; simulations alone"""


class StartEntry(FileForm, frozen=True, kw_only=True):
    """A start of a run over hosts of their own."""

    number: Whole
    """0 of the first one"""
    members: list[Whole]
    """agents that take part"""
    round: Round
    """first round, or that from which rounds are repeated"""
    rule: Literal["finish", "replay", "go on"]
    """[how it goes on](protocol.md#words)"""
    cause: str
    """what has ended the one before, as this agent saw it; empty of the first one"""


class Summary(FileForm, frozen=True, kw_only=True):
    """What a finished run says of itself."""

    schema: Literal[3]
    """version of this form"""
    algorithm: str
    """name of the method, or `module:Class` of one from elsewhere"""
    method: Literal["proven", "published"]
    """whether its proven form ran, or the paper's to the letter"""
    agents: Whole
    """N; 1 of a method of one site"""
    rounds: Whole
    """T, rounds that were done; epochs of a method of one site"""
    stopped: bool = False
    """`true` where [`on_round`](results.md) ended the run before its last round; else absent"""
    aggregate: str
    """how vectors of several agents count: `mean` or `screened`"""
    topology: str | None
    """file or spec of the graph, or of the schedule; null of a method of one site"""
    transport: Literal["local", "mpi", "zmq"]
    """what carried the messages"""
    encrypted: bool = False
    """`true` where messages between agents were encrypted, by the keys of a network file; else absent"""
    mode: Mode
    """[`simulation` or `private`](cli.md#modes)"""
    seeded: bool
    """`true`: the noise can be made again from the seed, the run protects nothing"""
    seed: int | None
    """that seed; null of secret noise"""
    data: DataFacts
    """the records, below"""
    privacy: Privacy
    """what is promised and spent, below"""
    metric: Literal["error", "mean-squared-error"]
    """unit of `test_error`: a share of wrong predictions, or of [real targets](data.md#real-targets)"""
    test_error: TestError
    """below"""
    references: References
    """below"""
    train_loss: Real | None = None
    """mean loss of the consensus over all training records; simulations only"""
    far_from_others: dict[str, Real]
    """agents whose vectors [stood far from the others](hosts.md#who-stands-far-from-the-others) in the last round:
    how many times as far as is usual"""
    per_agent: list[AgentEntry]
    """one entry an agent, by number, below"""
    gate: Gate | None = None
    """with a gate, below"""
    bytes_sent: Whole
    """payload of the whole run, each vector times its receivers; not what [observing the
    run](simulate.md#what-observing-a-run-sends) sends"""
    frames: dict[str, Whole] = {}
    """with `zmq`: [frames that were not simply taken](protocol.md#rules-for-frames), by what was done with them"""
    seconds: Seconds
    """wall time, below"""
    virtual_seconds: VirtualSeconds | None = None
    """with [`--delay`](simulate.md), below"""
    steps: Whole | None = None
    """of a method of one site alone: steps that were taken"""
    baseline: Baseline | None = None
    """of a method of one site alone: what was calibrated, below"""
    ledgers: dict[str, Digest]
    """file of each ledger: sha256 of its bytes"""
    manifest: Literal["manifest.json"]
    """the file that lists all others"""
    starts: list[StartEntry] = []
    """[starts](protocol.md) of a run over hosts of their own that had more than one, as this agent took part in them;
    else absent"""
    away: dict[Annotated[str, Meta(pattern=f"^({NUMBER})$")], list[str]] = {}
    """agents that took no part in rounds of these starts: ranges such as `3-17`"""
    identities: Literal["network", "run"] | None = None
    """where the signing keys of [receipts](hosts.md#receipts) came from: a network file, or made for the run;
    absent without receipts"""
    notes: list[str]
    """what the reader must know to quote the figures, in words"""
    versions: dict[str, str]
    """of admmnet, Python and the libraries that a result may depend on; `kernel` is `c1` or `numpy`"""


def absent(summary: Any) -> set[int]:
    """Agents that take no part in the last start of a run, by its summary, also where that is a table."""
    starts = summary.get("starts") or ()
    return set(range(summary["agents"])) - set(starts[-1]["members"]) if starts else set()


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
    VirtualSeconds,
    Baseline,
)
"""Forms of summary.json, in the order of docs/ledger.md."""
