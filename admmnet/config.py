"""Settings: one table from which flags, file keys, defaults, checks and help are all made.

``RunConfig`` is frozen and checked once, where it is made. Flags override the file, the file the defaults.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from admmnet.errors import RequestError

Auto = Literal["auto"]
TABLES = ("data", "network", "problem", "algorithm", "privacy", "run")
ALGORITHMS = ("admm", "pp-admm", "ipp-admm")


def _setting(
    default: Any,
    table: str,
    help: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    choices: tuple[str, ...] = (),
    metavar: str = "",
) -> Any:
    """Field with the table it belongs to, its help and its range; ``open_`` bounds are excluded."""
    meta = {
        "table": table,
        "help": help,
        "low": low,
        "high": high,
        "open_low": open_low,
        "open_high": open_high,
        "choices": choices,
        "metavar": metavar,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=meta)
    return field(default=default, metadata=meta)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; ``auto`` is replaced by a number where the run starts.

    Raises
    ------
    RequestError
        If a value is out of its range or two settings contradict each other.
    """

    data: str = _setting(
        "census", "data", "data set name, or a .csv, .npz or .libsvm file", metavar="NAME|PATH"
    )
    data_dir: str | None = _setting(
        None, "data", "folder of the data sets, as DIR/adult/adult.data[.gz]", metavar="DIR"
    )
    data_seed: int = _setting(0, "data", "seed of the train/test draw and of the shards", low=0)
    test: str | None = _setting(
        None, "data", "file of test records; 'official' for Adult's own split", metavar="PATH"
    )
    test_fraction: float | None = _setting(
        None,
        "data",
        "share of the records kept for testing",
        low=0.0,
        high=1.0,
        open_low=True,
        open_high=True,
    )
    split: str = _setting("iid", "data", "how records go to agents", metavar="iid|dirichlet:A|by-column:NAME")
    label: str | None = _setting(None, "data", "label column of a .csv file", metavar="NAME")
    positive: str | None = _setting(None, "data", "label value that counts as +1", metavar="VALUE")
    features: int | None = _setting(None, "data", "number of features of a .libsvm file", low=1)
    no_intercept: bool = _setting(False, "data", "do without the constant column")
    data_dependent: bool = _setting(
        False, "data", "accept an encoding discovered from private records, which no ledger covers"
    )
    schema: dict[str, Any] = _setting(
        {}, "data", "public schema of a file: labels, columns, categories, bounds"
    )

    topology: str | None = _setting(None, "network", "graph file or spec such as ring:5", metavar="FILE|SPEC")
    topology_seed: int | None = _setting(
        None, "network", "seed of a random graph (default: --seed, else 0)", low=0
    )
    agents: int | None = _setting(
        None, "network", "number of agents (default: the graph's, the ranks', 5)", low=2
    )
    transport: str = _setting(
        "auto",
        "network",
        "how agents are run; auto: mpi under mpirun, else local",
        choices=("auto", "local", "mpi"),
    )

    loss: str = _setting("logistic", "problem", "loss function", choices=("logistic",))
    regularisation: float | Auto = _setting(
        "auto", "problem", "regularisation; auto: the least the method needs, 1e-4 for admm", low=0.0
    )

    algorithm: str = _setting("ipp-admm", "algorithm", "method", choices=ALGORITHMS)
    method: str | None = _setting(
        None,
        "algorithm",
        "form of the method: corrected, or the paper's to the letter (default: proven)",
        choices=("proven", "published"),
    )
    rounds: int | Auto = _setting(
        "auto",
        "algorithm",
        "rounds T; auto: by the rule of docs/defaults.md, 30 if published",
        low=1,
        high=1_000_000,
    )
    eta: float | Auto = _setting(
        "auto",
        "algorithm",
        "ADMM penalty; auto: by the rule, 0.5 if published",
        low=0.0,
        open_low=True,
        high=1e9,
    )
    proximal: float | Auto = _setting(
        "auto",
        "algorithm",
        "weight of an agent's self-term; auto: by the rule, 0 if published",
        low=0.0,
        high=1e9,
    )
    beta: float | Auto = _setting(
        "auto",
        "algorithm",
        "gradient norm to which a local problem is solved; auto: 1e-8, 10^-3.5 if published",
        low=0.0,
        open_low=True,
        high=1.0,
    )
    release: str | None = _setting(
        None,
        "algorithm",
        "where the noise of a proven method goes (default: objective)",
        choices=("objective", "output"),
    )
    answer: str = _setting(
        "last",
        "algorithm",
        "model at the end: the last released vectors, their mean over the last half of the rounds, or gossip",
        choices=("last", "tail", "gossip"),
    )

    accountant: str | None = _setting(
        None,
        "privacy",
        "which arithmetic calibrates and guards (default: the method's)",
        choices=("proven", "published"),
    )
    epsilon: float = _setting(
        1.0, "privacy", "privacy budget epsilon of every agent", low=0.0, open_low=True, high=1e6
    )
    delta: float = _setting(
        1e-4, "privacy", "privacy budget delta", low=0.0, open_low=True, high=1.0, open_high=True
    )
    gate: str = _setting(
        "auto",
        "privacy",
        "gate of ipp-admm; auto: the one with less noise, the paper's if published",
        choices=("auto", "above-threshold", "gaussian", "off"),
    )
    gate_share: float | Auto = _setting(
        "auto",
        "privacy",
        "share of the budget for the gate; auto: 0.05, 0.1 if published",
        low=0.0,
        open_low=True,
        high=1.0,
        open_high=True,
    )
    gate_threshold: float | Auto = _setting(
        "auto",
        "privacy",
        "threshold of the gate; auto: 0.005 less twice its noise, 1e-3 if published",
        high=1e9,
        low=-1e9,
    )
    gate_radius: float = _setting(
        5.0, "privacy", "radius of the ball in the proven gate's query", low=0.0, open_low=True, high=1e6
    )
    max_releases: int | Auto = _setting(
        "auto", "privacy", "most broadcasts of an agent; auto: the rounds, 15 if published", low=1
    )
    loss_clip: float = _setting(
        2.0, "privacy", "clip of a record's loss in the published gate, C", low=0.0, open_low=True, high=1e6
    )
    account: str | None = _setting(
        None, "privacy", "folder of an account that many runs on the same records share", metavar="DIR"
    )
    budgets: dict[str, Any] = _setting(
        {}, "privacy", "budgets of single agents: [privacy.agents.3] epsilon = 0.5"
    )

    seed: int | None = _setting(
        None, "run", "seed of the noise: a simulation; without it noise is private", low=0
    )
    out: str | None = _setting(None, "run", "run folder (default: runs/<time>-<algorithm>)", metavar="DIR")

    def __post_init__(self) -> None:
        """Check every value."""
        for name, meta in _metadata().items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), meta))
        _check_together(self)

    @property
    def private(self) -> bool:
        """Whether the method has a privacy budget."""
        return self.algorithm != "admm"


@cache
def _metadata() -> dict[str, tuple[str, Mapping[str, Any]]]:
    return {f.name: (str(f.type), f.metadata) for f in fields(RunConfig)}


def _range(meta: Mapping[str, Any]) -> str:
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    low, high = meta["low"], meta["high"]
    parts = []
    if low > -math.inf:
        parts.append(f"{'above' if meta['open_low'] else 'at least'} {low:g}")
    if high < math.inf:
        parts.append(f"{'below' if meta['open_high'] else 'at most'} {high:g}")
    return " and ".join(parts) or "any value"


def _checked(name: str, value: Any, described: tuple[str, Mapping[str, Any]]) -> Any:
    kind, meta = described
    if value is None and "None" in kind:
        return None
    if value == "auto" and "Auto" in kind:
        return value
    for base in ("dict", "bool", "int", "float", "str"):
        if kind.startswith(base):
            return _of_kind(name, value, base, meta, auto="Auto" in kind)
    raise AssertionError(kind)


def _of_kind(name: str, value: Any, base: str, meta: Mapping[str, Any], *, auto: bool) -> Any:
    words = {
        "dict": "a table",
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
        "str": "text",
    }
    wanted = words[base] + (" or 'auto'" if auto else "")

    def wrong() -> RequestError:
        bound = "" if base in ("dict", "bool", "str") and not meta["choices"] else f", {_range(meta)}"
        return RequestError(f"{name} = {value!r} is not allowed: it must be {wanted}{bound}")

    if base in ("dict", "bool", "str"):
        if not isinstance(value, {"dict": dict, "bool": bool, "str": str}[base]):
            raise wrong()
        if value == "" or (meta["choices"] and value not in meta["choices"]):
            raise wrong()
        return value
    usable = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    )
    if not usable or (base == "int" and value != int(value)):
        raise wrong()
    number = int(value) if base == "int" else float(value)
    below = number < meta["low"] or (meta["open_low"] and number <= meta["low"])
    above = number > meta["high"] or (meta["open_high"] and number >= meta["high"])
    if below or above:
        raise wrong()
    return number


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
            _checked(f"{where} {key}", value, _metadata()[key])


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
            published and config.release is not None,
            f"release = {config.release!r} goes with method = 'proven': the published one adds both noises",
        ),
        (
            config.gate != "auto" and (published or config.algorithm != "ipp-admm"),
            f"gate = {config.gate!r} goes with algorithm = 'ipp-admm' and method = 'proven'",
        ),
        (
            config.account is not None and published,
            "account goes with method = 'proven': it adds up proven costs",
        ),
    ]


def load_config(path: str | Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Settings from a TOML file, overridden by flags.

    Parameters
    ----------
    path : path or None
        File with the tables [data], [network], [problem], [algorithm], [privacy], [run].
    flags : mapping
        Setting name to value; None counts as not given.

    Raises
    ------
    RequestError
        If the file is missing or not TOML, a key is unknown or in the wrong table, or a value is out of range.
    """
    values = {} if path is None else _from_file(Path(path))
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return RunConfig(**values)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise RequestError(f"cannot read the config file {path}: {error.strerror}") from None
    except ValueError as error:
        raise RequestError(f"{path} is not a TOML file: {error}") from None
    names = {(meta["table"], _key(name)): name for name, (_, meta) in _metadata().items()}
    values: dict[str, Any] = {}
    for table, content in tables.items():
        if table not in TABLES or not isinstance(content, dict):
            raise RequestError(f"{path}: unknown table or key [{table}]; tables: {', '.join(TABLES)}")
        for key, value in content.items():
            if (table, key) not in names:
                homes = [home for home, other in names if other == key]
                known = ", ".join(sorted(other for home, other in names if home == table))
                hint = f"it belongs to [{homes[0]}]" if homes else f"keys there: {known}"
                raise RequestError(f"{path}: unknown key {key} = {value!r} in [{table}]; {hint}")
            # `agents` is a number in [network] and a table of budgets in [privacy]
            values[names[table, key]] = value
    return values


def _key(name: str) -> str:
    return "agents" if name == "budgets" else name


def to_toml(config: RunConfig) -> str:
    """Return the settings as TOML: ``load_config`` reads them back. ``out`` is left out, it is where the file lies."""
    import tomli_w

    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for name, (_, meta) in _metadata().items():
        value = getattr(config, name)
        if name != "out" and value is not None and value != {}:
            tables[meta["table"]][_key(name)] = value
    return str(tomli_w.dumps({table: content for table, content in tables.items() if content}))


def flag_fields() -> list[tuple[str, str, Mapping[str, Any]]]:
    """Name, type and metadata of every setting that has a flag, in the order of the help page."""
    return [(name, kind, meta) for name, (kind, meta) in _metadata().items() if not kind.startswith("dict")]


def parse_flag(name: str, text: str) -> Any:
    """Return the value of a flag as its setting's type.

    Raises
    ------
    RequestError
        If the text is no such value.
    """
    kind, meta = _metadata()[name]
    if kind.startswith(("int", "float")) and not (text == "auto" and "Auto" in kind):
        try:
            value: Any = int(text) if kind.startswith("int") else float(text)
        except ValueError:
            value = text
        return _of_kind(name, value, kind.split(" ")[0], meta, auto="Auto" in kind)
    return text
