"""The grid of a comparison: its cells, their settings and their folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from admmnet.config.modes import check_comparable
from admmnet.config.run_config import RunConfig, find_setting
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.folder import refuse_others, sums_of
from admmnet.experiments.parsing import REASONS, Entry, Values, having, parse_entries, parse_tune, said, short
from admmnet.version import __version__

TRIAL_SEEDS = 1_000_000
"""Seed of the first trial; the seeds compared lie below it where anything is tuned."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is to be compared.

    Attributes
    ----------
    algorithms : sequence of str
        Each NAME, NAME:METHOD or NAME:METHOD:ACCOUNTANT; the method is ``proven`` and the accountant the
        method's unless said. Baselines, too.
    epsilons : sequence of float
        Budgets epsilon; ``admm``, ``sdca`` and ``sgd`` have none and run once a seed.
    seeds : sequence of int
        One run each.
    out : str
        Folder of the comparison.
    settings : mapping
        Further settings of ``RunConfig``, the same for all methods that have them.
    resplit : bool
        Whether every seed also draws its own test set and shards: the data seed is the seed.
    tune : sequence of str
        Settings to try, as ``eta=0.1:1,rounds=6:12`` or ``ipp-admm.eta=0.1:1``.
    tune_seeds : int
        Trials of every combination.
    """

    algorithms: Sequence[str]
    epsilons: Sequence[float] = (0.5, 1.0, 2.0, 10.0)
    seeds: Sequence[int] = range(10)
    out: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    resplit: bool = False
    tune: Sequence[str] = ()
    tune_seeds: int = 3


class Case(NamedTuple):
    """What settings are chosen for: a method at an epsilon, on one split of the data."""

    entry: Entry
    epsilon: float | None
    data_seed: int

    @property
    def words(self) -> str:
        """How messages call it."""
        return self.entry.text if self.epsilon is None else f"{self.entry.text} at epsilon {short(self.epsilon)}"


@dataclass(frozen=True)
class Cell:
    """One run, or one trial; ``values`` are its tuned settings."""

    case: Case
    seed: int
    values: Values = ()
    trial: bool = False
    resplit: bool = False

    @property
    def words(self) -> str:
        """How messages call it."""
        values = f" with {said(self.values)}" if self.values else ""
        return f"{self.case.words}{values}, {'trial' if self.trial else 'seed'} {self.seed}"

    @property
    def folder(self) -> str:
        """Run folder, below the comparison's."""
        entry, epsilon, split = self.case
        words = [entry.algorithm.replace(":", "-").replace("/", "-").replace("..", "up")]
        if epsilon is not None:
            words += [entry.method, entry.accountant, short(epsilon)]
        if self.trial:
            words += [f"split{split}"] if self.resplit else []
            words.append(said(self.values))
        return f"{'trials' if self.trial else 'runs'}/{'-'.join(words)}-{self.seed}"


class Grid:
    """A comparison, checked: everything that follows from its words.

    ``epsilons`` and ``seeds`` increase. ``candidates`` has the combinations of settings to try for each entry, of
    which a single one is taken untried. ``delta`` is None where the settings leave it open, until it is chosen.
    ``refused`` has the reasons why a method cannot run at an epsilon with a combination; where no method can run at any
    the first of all is raised. ``fixed`` are settings that ``run`` would choose by auto.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.folder = comparison, Path(comparison.out)
        self._refuse_own(comparison.settings)
        self.entries = parse_entries(comparison.algorithms)
        self.epsilons = _distinct("epsilons", map(float, comparison.epsilons))
        self.seeds = _distinct("seeds", comparison.seeds)
        self.candidates = parse_tune(comparison.tune, self.entries, comparison.settings)
        self._check_tuning()
        self.delta: float | None = None
        self.refused: dict[tuple[Entry, float | None], dict[Values, AdmmnetError]] = {}
        self.fixed: dict[str, str] = {}
        configs = []
        for case in self.cases():  # one for every combination that can be wrong in itself
            for values in self.candidates[case.entry] if case.data_seed == self.data_seed(self.seeds[0]) else ():
                try:
                    configs.append(self.config(Cell(case, self.seeds[0], values)))
                except AdmmnetError as error:
                    self.refuse(case, values, error)
        if not configs:
            raise self.first_refusal()
        self.sample = next((config for config in configs if not config.baseline), configs[0])
        check_comparable(self.sample.request, self.sample.sections.run)
        self.pooled = any(config.baseline for config in configs)
        self.delta = None if self.sample.delta == "auto" else float(self.sample.delta)

    def _refuse_own(self, settings: Mapping[str, Any]) -> None:
        for name in sorted(settings.keys() & REASONS.keys()):
            if name == "transport" and settings[name] in ("auto", "local"):
                continue
            raise RequestError(f"{name} = {settings[name]!r} does not go with compare: {REASONS[name]}")
        if self.comparison.resplit and "data_seed" in settings:
            raise RequestError("--resplit and --data-seed exclude each other: with the first every seed splits anew")

    def _check_tuning(self) -> None:
        count = self.comparison.tune_seeds
        if count < 1:
            raise RequestError(f"--tune-seeds {count} is not allowed: it must be a whole number, at least 1")
        if any(self.tuned(entry) for entry in self.entries) and self.seeds[-1] >= TRIAL_SEEDS:
            raise RequestError(
                f"--seeds {self.seeds[-1]} is not allowed with --tune: seeds from {TRIAL_SEEDS} on are the trials'"
            )

    def refuse(self, case: Case, values: Values, error: AdmmnetError) -> None:
        """Leave a combination out, on all splits."""
        self.refused.setdefault(case[:2], {}).setdefault(values, error)

    def first_refusal(self) -> AdmmnetError:
        """The first reason of all."""
        return next(iter(next(iter(self.refused.values())).values()))

    def tried(self, case: Case) -> list[Values]:
        """Return the combinations that are possible."""
        out = self.refused.get(case[:2], {})
        return [values for values in self.candidates[case.entry] if values not in out]

    def tuned(self, entry: Entry) -> bool:
        """Whether anything is tried for a method."""
        return len(self.candidates[entry]) > 1

    def data_seed(self, seed: int) -> int:
        """Data seed of a run."""
        return seed if self.comparison.resplit else int(self.comparison.settings.get("data_seed", 0))

    @property
    def data_seeds(self) -> tuple[int, ...]:
        """Splits of the data, without repetition."""
        return tuple(dict.fromkeys(self.data_seed(seed) for seed in self.seeds))

    def cases(self) -> Iterator[Case]:
        """Everything that settings are chosen for, and for which a combination is left."""
        for data_seed in self.data_seeds:
            for entry in self.entries:
                for epsilon in self.epsilons if entry.private else (None,):
                    if self.tried(case := Case(entry, epsilon, data_seed)):
                        yield case

    def trials(self, case: Case) -> list[Cell]:
        """Trials of a case, all seeds of a combination together."""
        seeds = range(TRIAL_SEEDS, TRIAL_SEEDS + self.comparison.tune_seeds)
        trial = {"trial": True, "resplit": self.comparison.resplit}
        return [Cell(case, seed, values, **trial) for values in self.tried(case) for seed in seeds]

    def pieces(self, part: tuple[int, int] = (1, 1)) -> list[tuple[Case, list[int]]]:
        """Cases with the seeds that part I of N runs: a tuned case is one piece, of others each run is one."""
        found = []
        for case in self.cases():
            seeds = [seed for seed in self.seeds if self.data_seed(seed) == case.data_seed]
            found += [(case, own) for own in ([seeds] if self.tuned(case.entry) else [[seed] for seed in seeds])]
        return found[part[0] - 1 :: part[1]]

    @cached_property
    def words(self) -> dict[str, Any]:
        """Words of the comparison, as JSON gives them back."""
        words = asdict(self.comparison) | {"admmnet": __version__, "epsilons": self.epsilons, "seeds": self.seeds}
        del words["out"]
        words["files"] = sums_of(str(self.comparison.settings.get(name, "")) for name in ("data", "test"))
        found: dict[str, Any] = json.loads(json.dumps(words, default=str))
        return found

    def agree(self, then: Mapping[str, Any]) -> None:
        """Refuse to go on with a folder that was made with other words, of which the lists alone may differ."""
        now = self.words
        pairs = [(name, then.get(name), now[name]) for name in ("admmnet", "files", "resplit", "tune", "tune_seeds")]
        before, given = then["settings"], now["settings"]
        # where the records lie, and from where they are read, does not matter
        names = [name for name in dict.fromkeys((*given, *before)) if name != "data_dir"]
        pairs += [(name, before.get(name, _default(name)), given.get(name, _default(name))) for name in names]
        refuse_others(self.folder, pairs)

    def config(self, cell: Cell) -> RunConfig:
        """Settings of a cell: those that `admmnet run` would be given, without a run folder; checked."""
        entry, epsilon, data_seed = cell.case
        given = {name: value for name, value in self.comparison.settings.items() if name != "transport"}
        values = having(given, entry, self.entries)
        values |= dict(cell.values)
        values |= {"algorithm": entry.algorithm, "seed": cell.seed, "data_seed": data_seed}
        if entry.private:
            values |= {"method": entry.method, "accountant": entry.accountant}
            values |= {"epsilon": epsilon} | ({} if self.delta is None else {"delta": self.delta})
        try:
            found = RunConfig(**values)
            same = {"encode": "declared", "whiten": "off"}  # what auto may do: here all methods see the same rows
            auto = [name for name in same if getattr(found, name) == "auto"]
            changes = {name: same[name] for name in auto if getattr(found.request, name) != same[name]}
            self.fixed |= changes
            return found.changed(**changes)
        except AdmmnetError as error:
            tried = f" with {said(cell.values)}" if cell.values else ""
            raise RequestError(f"{cell.case.words}{tried}: {error}") from None

    def samples(self) -> list[RunConfig]:
        """Settings of a run on each split by which delta is chosen; of one split where it is not."""
        seeds = self.data_seeds if self.delta is None else self.data_seeds[:1]
        return [self.sample.changed(data_seed=seed) for seed in seeds]


def _default(name: str) -> Any:
    try:
        return find_setting(name).default
    except RequestError:
        return None


def _distinct(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise RequestError(f"--{name} names {short(value)} twice: every one once")
        seen.add(value)
    if not seen:
        raise RequestError(f"--{name} names nothing: give at least one")
    return tuple(sorted(seen))
