"""What a run folder holds: its JSON files as typed values, each key with its meaning.

The JSON Schema of summary.json and the tables of docs/run-folder.md are made from these types. A key without a default
is always there, null where it is infinite or has no meaning; a key with one is left out where it has that value.
Epsilons and rhos are pure numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from admmnet.data import Task
from admmnet.privacy.ledger.form import Digest

NUMBER = "0|[1-9][0-9]*"
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Figure = Annotated[float, Meta(ge=0.0, le=1e300)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
Number = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | Real
Mode = Literal["simulation", "private"]


def told(words: str) -> Meta:
    """Meaning of a key."""
    return Meta(description=words)


class _Form(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    def __getitem__(self, key: str) -> Any:
        """Value by its key in the file."""
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Value by its key; ``default`` where there is none."""
        return getattr(self, key, default)


class DataFacts(_Form, frozen=True, kw_only=True):
    """The records."""

    name: Annotated[str, told("name of the set, or path of the file")]
    train: Annotated[Whole, told("training records of all agents together")]
    test: Annotated[Whole, told("test records")]
    features: Annotated[Whole, told("d, columns with the intercept")]
    task: Annotated[Task, told("what the labels are")]
    preprocessing: Annotated[
        Literal["public-bounds", "data-dependent"],
        told("`data-dependent`: something was read from the records, which no epsilon covers"),
    ]
    classes: Annotated[tuple[str, ...], told("names of three classes or more")] = ()


class Privacy(_Form, frozen=True, kw_only=True):
    """What the run promises and has spent: the largest figures of its agents, whose records are disjoint."""

    epsilon_target: Annotated[Figure | None, told("epsilon asked for; null without privacy")]
    delta: Annotated[Figure | None, told("delta asked for; null without privacy")]
    accountant: Annotated[
        Literal["proven", "published"] | None, told("whose arithmetic calibrated the noise and guarded the budget")
    ]
    account: Annotated[str | None, told("folder of the account that the run continued")]
    account_epsilon_spent: Annotated[
        Figure | None, told("proven epsilon of everything in that account, all runs together")
    ]
    account_colluders: Annotated[
        Whole | None,
        told(
            "where any run of the account had [masked](masked.md) sums: the least K of its runs, up to which "
            "`account_epsilon_spent` holds"
        ),
    ] = None
    account_epsilon_if_all_collude: Annotated[
        Figure | None, told("the same account's epsilon if more work together, or masks fail")
    ] = None
    account_epsilon_if_all_collude_proven: Annotated[
        Figure | None, told("the most that this may come to over all its runs; absent where it is infinite")
    ] = None
    adjacency: Annotated[
        Literal["replace-one", "zero-out"],
        told("neighbours differ in one record of one agent: exchanged for another, or for a row of zeros"),
    ]
    unit: Annotated[Literal["record"], told("what is protected")]
    epsilon_proven: Annotated[
        Figure | None,
        told("proven epsilon of the worst case, fixed before the run: a promise; null where there is none"),
    ]
    trust: Annotated[
        Literal["local", "masked"] | None,
        told("of methods that sum: whether every agent's own noise protects it, or masked sums do"),
    ] = None
    colluders: Annotated[
        Whole | None, told("with [`--trust masked`](masked.md): K, up to which `epsilon_proven` holds")
    ] = None
    epsilon_if_all_collude: Annotated[
        Figure | None, told("proven epsilon of the worst case if more than K others work together, or masks fail")
    ] = None
    group_size: Annotated[Whole, told("K of `--group-size`")]
    epsilon_group: Annotated[
        Figure | None,
        told(
            "promise to a person with K records of this run ([Theorem 17](privacy.md#6-the-budget)); null for K = 1, "
            "where an agent was lost, and of an `adaptive` method whose filter has an order"
        ),
    ]
    epsilon_spent: Annotated[
        Figure | None, told("proven epsilon of what was released: an odometer reading, not a promise")
    ]
    epsilon_published: Annotated[
        Figure | None, told("epsilon of what was released, by the paper's arithmetic; null for a proven method")
    ]
    rho_proven: Annotated[Figure | None, told("zCDP rho of the worst case")]
    rho_spent: Annotated[Figure | None, told("zCDP rho of what was released, proven")]
    rho_published: Annotated[Figure | None, told("the same by the paper's arithmetic")]


class TestError(_Form, frozen=True, kw_only=True):
    """Figures of the vectors in model.npz; null without test records."""

    __test__ = False

    mean: Annotated[Figure | None, told("over agents that were not lost")]
    std: Annotated[Figure | None, told("over the same, of the population")]
    consensus: Annotated[Figure | None, told("of the consensus")]
    macro: Annotated[
        Figure | None, told("of three classes or more: share in each class, averaged over classes, of the consensus")
    ] = None
    rmse: Annotated[Figure | None, told("of real targets scaled to [-1, 1]: root mean square")] = None
    r2: Annotated[Real | None, told("1 - MSE / variance of the test targets")] = None
    root_in_units: Annotated[Figure | None, told("`rmse` in the target's own unit")] = None
    one_class: Annotated[
        str | None, told("the label that the consensus gives every test record, where it gives one alone")
    ] = None
    records: Annotated[str | None, told("a reminder that nobody was charged for these figures")]


class References(_Form, frozen=True, kw_only=True):
    """Figures to hold `test_error` against, in its unit."""

    larger_class: Annotated[Figure | None, told("of always saying the more frequent class of the test records")] = None
    mean: Annotated[Figure | None, told("of real targets: of always saying the mean of the test records")] = None
    pooled: Annotated[
        Figure | None,
        told(
            "of the minimiser without privacy of the run's own loss on all training records together, regularisation "
            "1e-4/N or the baseline's; null in private runs, for sparse rows, the hinge, and above 4 million numbers"
        ),
    ]


class AgentEntry(_Form, frozen=True, kw_only=True):
    """Figures of one agent; those of a lost agent are null but for the first four and `lost_at`."""

    agent: Annotated[Whole, told("number")]
    records: Annotated[Whole, told("n_i, its training records")]
    degree: Annotated[Whole, told("number of neighbours")]
    releases: Annotated[Whole, told("vectors it broadcast")]
    rho: Annotated[Figure | None, told("zCDP rho of its ledger, proven; null where no finite cost is proven")]
    rho_proven: Annotated[Figure | None, told("zCDP rho of its worst case")]
    rho_published: Annotated[Figure | None, told("zCDP rho of its ledger by the paper's arithmetic")]
    epsilon_target: Annotated[Figure | None, told("its budget")]
    delta: Annotated[Figure | None, told("its delta")]
    epsilon_proven: Annotated[Figure | None, told("as in `privacy`, at its own delta")]
    epsilon_spent: Annotated[Figure | None, told("as in `privacy`, at its own delta")]
    epsilon_published: Annotated[Figure | None, told("as in `privacy`, at its own delta")]
    epsilon_group: Annotated[Figure | None, told("with `--group-size` above 1: as in `privacy`")] = None
    epsilon_if_all_collude: Annotated[Figure | None, told("of masked sums: as in `privacy`")] = None
    epsilon_spent_if_all_collude: Annotated[Figure | None, told("of masked sums: the same of what was released")] = None
    account_epsilon_spent: Annotated[
        Figure | None, told("proven epsilon of its account, all runs together; null without account")
    ]
    account_colluders: Annotated[Whole | None, told("as in `privacy`, of its own account")] = None
    account_epsilon_if_all_collude: Annotated[Figure | None, told("as in `privacy`, of its own account")] = None
    account_epsilon_if_all_collude_proven: Annotated[Figure | None, told("as in `privacy`, of its own account")] = None
    refused_at: Annotated[Whole | None, told("round from which its budget refused; null if it never did")]
    joined_at: Annotated[
        Whole | UnsetType | None,
        told(
            "with the [joining gate](algorithms.md#the-joining-gate) alone: round from which it spoke with its own "
            "records, 0 of the core; null for never, whose releases are what it passed on"
        ),
    ] = UNSET
    figures: Annotated[dict[str, Number | None], told("of a method from outside: what its `entry()` says")] = {}
    test_error: Annotated[Figure | None, told("of its vector in model.npz; null without test records")]
    lost_at: Annotated[
        Whole | None, told("round in which the others lost it; null if they did not. Its own ledger has what it spent")
    ]


class Seconds(_Form, frozen=True, kw_only=True):
    """Wall time of the slowest process; whole seconds in private runs."""

    total: Annotated[Figure, told("in all")]
    solve: Annotated[
        Figure | None, told("in proposals; simulations alone, because the time of a solve depends on records")
    ] = None
    exchange: Annotated[Figure, told("writing charges through, sending and waiting")]


class VirtualSeconds(_Form, frozen=True, kw_only=True):
    """With [`--delay`](trouble.md): how long the rounds would have taken."""

    total: Annotated[Figure, told("in all")]
    median_round: Annotated[Figure, told("of a round")]
    longest_round: Annotated[Figure, told("of a round")]
    slowest_agent: Annotated[Whole, told("whose own computing took longest")]
    slowest_agent_computing: Annotated[Figure, told("how long that took")]
    waiting_share: Annotated[Real, told("mean share of the time in which agents wait")]


class Baseline(_Form, frozen=True, kw_only=True):
    """Of a method of one site alone: what was calibrated."""

    loss: Annotated[str, told("its loss")]
    regularisation: Annotated[Figure | None, told("lambda of its objective; null where the method has chosen none")]
    epochs: Annotated[Number, told("passes over the records")]
    batch: Annotated[Whole | None, told("records of a batch; null where there are none")]
    sampling: Annotated[str | None, told("how batches are drawn; null where there are none")]
    rate: Annotated[Figure | None, told("share of the records in a batch")]
    noise_multiplier: Annotated[
        Figure | None,
        told("standard deviation of the noise over the sensitivity of a step; null of noise of another form"),
    ]
    pure_epsilon: Annotated[Figure | None, told("epsilon of one step where delta is 0")]
    diagnostics: Annotated[
        dict[str, Number | None] | UnsetType,
        told("figures of the optimisation, such as its duality gap; simulations alone"),
    ] = UNSET


class Summary(_Form, frozen=True, kw_only=True):
    """What a finished run says of itself."""

    schema: Annotated[Literal[3], told("version of this form")]
    algorithm: Annotated[str, told("name of the method, or `module:Class` of one from elsewhere")]
    method: Annotated[Literal["proven", "published"], told("whether its proven form ran, or the paper's to the letter")]
    agents: Annotated[Whole, told("N; 1 of a method of one site")]
    rounds: Annotated[Whole, told("T, rounds that were done; epochs of a method of one site")]
    stopped: Annotated[
        bool, told("`true` where [`on_round`](track.md) ended the run before its last round; else absent")
    ] = False
    aggregate: Annotated[str, told("how vectors of several agents count: `mean` or `screened`")]
    topology: Annotated[str | None, told("file or spec of the graph, or of the schedule; null of a method of one site")]
    transport: Annotated[Literal["local", "mpi", "zmq"], told("what carried the messages")]
    mode: Annotated[Mode, told("[`simulation` or `private`](cli.md#modes)")]
    seeded: Annotated[bool, told("`true`: the noise can be made again from the seed, the run protects nothing")]
    seed: Annotated[int | None, told("that seed; null of secret noise")]
    data: Annotated[DataFacts, told("the records, below")]
    privacy: Annotated[Privacy, told("what is promised and spent, below")]
    metric: Annotated[
        Literal["error", "mean-squared-error"],
        told("unit of `test_error`: a share of wrong predictions, or of [real targets](data.md#real-targets)"),
    ]
    test_error: Annotated[TestError, told("below")]
    references: Annotated[References, told("below")]
    train_loss: Annotated[
        Real | None, told("mean loss of the consensus over all training records; simulations only")
    ] = None
    far_from_others: Annotated[
        dict[str, Real],
        told(
            "agents whose vectors [stood far from the others](robust.md#who-stands-far-from-the-others) in the last "
            "round: how many times as far as is usual"
        ),
    ]
    per_agent: Annotated[tuple[AgentEntry, ...], told("one entry an agent, by number, below")]
    bytes_sent: Annotated[
        Whole,
        told(
            "payload of the whole run, each vector times its receivers; not what "
            "[observing the run](scale.md#what-observing-a-run-sends) sends"
        ),
    ]
    frames: Annotated[
        dict[str, Whole], told("with `zmq`: [frames that were not simply taken](hosts.md), by what was done with them")
    ] = {}
    seconds: Annotated[Seconds, told("wall time, below")]
    virtual_seconds: Annotated[VirtualSeconds | None, told("with [`--delay`](trouble.md), below")] = None
    steps: Annotated[Whole | None, told("of a method of one site alone: steps that were taken")] = None
    baseline: Annotated[Baseline | None, told("of a method of one site alone: what was calibrated, below")] = None
    ledgers: Annotated[dict[str, Digest], told("file of each ledger: sha256 of its bytes")]
    manifest: Annotated[Literal["manifest.json"], told("the file that lists all others")]
    identities: Annotated[
        Literal["network", "run"] | None,
        told(
            "where the signing keys of [receipts](members.md#receipts) came from: a network file, or made for the run; "
            "absent without receipts"
        ),
    ] = None
    notes: Annotated[tuple[str, ...], told("what the reader must know to quote the figures, in words")]
    versions: Annotated[dict[str, str], told("of admmnet, Python and the libraries that a result may depend on")]

    @property
    def lost(self) -> dict[int, int]:
        """Agents that the others lost, and the round."""
        return {entry.agent: entry.lost_at for entry in self.per_agent if entry.lost_at is not None}


class FileEntry(_Form, frozen=True, kw_only=True):
    """One file of a manifest."""

    sha256: Digest
    size: Whole
    grows: Annotated[bool, told("of a lost agent: the list holds its beginning")] = False


class Manifest(_Form, frozen=True, kw_only=True):
    """manifest.json: size and sha256 of every file of a finished run folder."""

    schema: Literal[3]
    files: dict[str, FileEntry]


class Part(_Form, frozen=True, kw_only=True):
    """part.json: the folder holds the ledger of one agent alone."""

    agent: Whole
    agents: Annotated[int, Meta(ge=1)]


class Signed(_Form, frozen=True, kw_only=True):
    """signature.json: one signature over a whole folder."""

    manifest: Digest
    grown: Digest
    time: str
    note: str
    simulation: Annotated[bool, told("whether its signer knew that the run is a simulation")] = False
    key: Digest
    signature: Annotated[str, Meta(pattern="^[0-9a-f]{128}$", max_length=128)]


class Beginning(_Form, frozen=True, kw_only=True):
    """One start of a run, in receipts/identities.json."""

    run: Digest
    round: Whole
    source: Literal["network", "run"]
    keepers: tuple[Whole, ...]
    keys: dict[Annotated[str, Meta(pattern=f"^({NUMBER})$")], Digest]


class Identities(_Form, frozen=True, kw_only=True):
    """receipts/identities.json: the starts of a run, who keeps receipts, and keys."""

    starts: tuple[Beginning, ...]


Lost = dict[Annotated[str, Meta(pattern=f"^({NUMBER})$")], Whole]
"""lost.json: agents that the others lost, and the round, as soon as there are any."""

TABLES: Collection[type[Struct]] = (
    Summary,
    DataFacts,
    Privacy,
    TestError,
    References,
    AgentEntry,
    Seconds,
    VirtualSeconds,
    Baseline,
)
"""Forms of summary.json, in the order of docs/run-folder.md."""
