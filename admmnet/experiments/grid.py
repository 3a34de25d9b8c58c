"""The grid of a comparison: its cells, their settings and their folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from admmnet.config.defaults import with_delta
from admmnet.config.modes import check_comparable
from admmnet.config.run_config import RunConfig, find_setting
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.folder import refuse_others
from admmnet.experiments.parsing import OWN, PROCESSES, Entry, Values, having, parse_entries, parse_tune, said, short
from admmnet.settings import settings_in
from admmnet.version import __version__

LISTS = ("algorithms", "epsilons", "seeds")
"""Settings that a further call may add to."""
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


@dataclass(frozen=True)
class Case:
    """What settings are chosen for: a method at an epsilon, on one split of the data."""

    entry: Entry
    epsilon: float | None
    data_seed: int

    @property
    def words(self) -> str:
        """How messages call it."""
        if self.epsilon is None:
            return self.entry.text
        return f"{self.entry.text} at epsilon {short(self.epsilon)}"


@dataclass(frozen=True)
class Cell:
    """One run, or one trial; ``values`` are its tuned settings."""

    case: Case
    seed: int
    values: Values = ()
    trial: bool = False

    @property
    def words(self) -> str:
        """How messages call it."""
        values = f" with {said(self.values)}" if self.values else ""
        return f"{self.case.words}{values}, {'trial' if self.trial else 'seed'} {self.seed}"


class Grid:
    """A comparison, checked: everything that follows from its words.

    ``epsilons`` and ``seeds`` increase. ``candidates`` has the combinations of settings to try for each entry, of
    which a single one is taken untried. ``settings`` are what a further call must agree with, as JSON gives them
    back. ``delta`` is None until ``choose_delta`` where the settings leave it open. ``impossible`` has the reasons
    why a method cannot run at an epsilon with a combination; ``refused`` are those that can with none, with the first
    reason; if nothing can, the first of all is raised. ``fixed`` are settings that ``run`` would choose by auto.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.delta: float | None = None
        self._refuse_own(comparison.settings)
        self.entries = parse_entries(comparison.algorithms)
        self.epsilons = _distinct("epsilons", map(float, comparison.epsilons))
        self.seeds = _distinct("seeds", comparison.seeds)
        self.candidates = parse_tune(comparison.tune, self.entries, comparison.settings)
        self._check_tuning()
        first = self.data_seed(self.seeds[0])
        self.refused: dict[tuple[Entry, float | None], AdmmnetError] = {}
        self.impossible: dict[tuple[Entry, float | None], dict[Values, AdmmnetError]] = {}
        self._configs: dict[tuple[Entry, float | None], RunConfig] = {}
        self.fixed: dict[str, str] = {}
        configs = []
        for case in self.cases():  # one for every combination that can be wrong in itself
            for values in self.candidates[case.entry] if case.data_seed == first else ():
                try:
                    configs.append(self.config(Cell(case, self.seeds[0], values)))
                    self._configs.setdefault((case.entry, case.epsilon), configs[-1])
                except AdmmnetError as error:
                    self.refuse(case, values, error)
        check_comparable(self.sample.sections.data, self.sample.sections.run)
        self.delta = None if self.sample.delta == "auto" else float(self.sample.delta)
        self._pooled = any(config.baseline for config in configs)
        known = {name: own for config in configs for name, own in settings_in(type(config)).items()}
        self.settings = self._settings({name: own.default for name, own in known.items()})

    def _settings(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        comparison = self.comparison
        settings = {
            "admmnet": __version__,
            "algorithms": [entry.text for entry in self.entries],
            "epsilons": list(self.epsilons),
            "seeds": list(self.seeds),
            "resplit": comparison.resplit,
            "tune": {
                entry.text: [said(values) for values in self.candidates[entry]]
                for entry in self.entries
                if self.candidates[entry] != ((),)
            },
            "tune_seeds": comparison.tune_seeds,
        }
        for name, default in defaults.items():
            # where the records lie, and from where they are read, does not matter: their sha256 is compared
            if name not in (*OWN, "data_dir") and not (comparison.resplit and name == "data_seed"):
                settings[name] = comparison.settings.get(name, default)
        found: dict[str, Any] = json.loads(json.dumps(settings, default=str))
        return found

    def agree(self, then: dict[str, Any], folder: str) -> None:
        """Refuse to go on with a folder that was made with settings ``then``, of which lists alone may grow."""
        now = self.settings
        for key in LISTS:
            missing = [value for value in then[key] if value not in now[key]]
            if missing:
                raise RequestError(
                    f"{folder} was made with other settings: its {key} include {missing[0]}, this call's do not; lists "
                    f"may only grow: add it to --{key}, or name another folder with -o"
                )
        pairs = [
            (key, then.get(key, _default(key)), now.get(key))  # an older call knew fewer settings
            for key in dict.fromkeys((*now, *then))  # the version comes first
            if key not in (*LISTS, "tune")
        ]
        pairs += [(f"tune of {m}", then["tune"].get(m), now["tune"].get(m)) for m in then["algorithms"]]
        refuse_others(folder, pairs)

    def choose_delta(self, agents: int, pooled: int) -> None:
        """Choose delta where it is open: one for all methods, by the records of the smallest agent, or all of them."""
        self.delta = float(with_delta(self.sample, [pooled if self._pooled else agents]).delta)

    def _refuse_own(self, settings: Mapping[str, Any]) -> None:
        for name in sorted(set(settings) & set(OWN)):
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

    @property
    def sample(self) -> RunConfig:
        """Settings of the first run, on the network if any method is."""
        found = [config for place, config in self._configs.items() if place not in self.refused]
        return next((config for config in found if not config.baseline), found[0])

    def refuse(self, case: Case, values: Values, error: AdmmnetError) -> None:
        """Leave a combination out, on all splits; where no case has any left, raise the first refusal of all."""
        place = case.entry, case.epsilon
        reasons = self.impossible.setdefault(place, {})
        reasons.setdefault(values, error)
        if len(reasons) == len(self.candidates[case.entry]):
            self.refused[place] = next(iter(reasons.values()))
        if not any(self.cases()):
            raise next(iter(self.refused.values()))

    def tried(self, case: Case) -> list[Values]:
        """Return the combinations that are possible."""
        out = self.impossible.get((case.entry, case.epsilon), {})
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
        """Everything that settings are chosen for, and that is not refused."""
        for data_seed in self.data_seeds:
            for entry in self.entries:
                for epsilon in self.epsilons if entry.private else (None,):
                    if (entry, epsilon) not in self.refused:
                        yield Case(entry, epsilon, data_seed)

    def runs(self, case: Case, values: Values) -> list[Cell]:
        """Runs of a case with these settings."""
        return [Cell(case, seed, values) for seed in self.seeds if self.data_seed(seed) == case.data_seed]

    def trials(self, case: Case) -> list[Cell]:
        """Trials of a case, all seeds of a combination together."""
        if not self.tuned(case.entry):
            return []
        seeds = range(TRIAL_SEEDS, TRIAL_SEEDS + self.comparison.tune_seeds)
        return [Cell(case, seed, values, trial=True) for values in self.tried(case) for seed in seeds]

    def possible(self, case: Case) -> dict[Values, list[Cell]]:
        """Whatever may be run for a case with each combination, trials included."""
        trials = self.trials(case)
        return {
            values: self.runs(case, values) + [cell for cell in trials if cell.values == values]
            for values in self.tried(case)
        }

    def config(self, cell: Cell) -> RunConfig:
        """Settings of a cell: those that `admmnet run` would be given, without a run folder; checked."""
        case = cell.case
        given = {name: value for name, value in self.comparison.settings.items() if name != "transport"}
        values = having(given, case.entry, self.entries)
        values |= dict(cell.values)
        values |= {"algorithm": case.entry.algorithm, "seed": cell.seed, "data_seed": case.data_seed}
        if case.entry.private:
            values |= {"method": case.entry.method, "accountant": case.entry.accountant}
            values |= {"epsilon": case.epsilon} | ({} if self.delta is None else {"delta": self.delta})
        try:
            found = RunConfig(**values)
            same = {"encode": "declared", "whiten": "off"}  # what auto may do: here all methods see the same rows
            auto = [name for name in same if getattr(found, name) == "auto"]
            changes = {name: same[name] for name in auto if getattr(found.request, name) != same[name]}
            self.fixed |= changes
            return found.changed(**changes)
        except AdmmnetError as error:
            tried = f" with {said(cell.values)}" if cell.values else ""
            raise RequestError(f"{case.words}{tried}: {error}") from None

    def folder(self, cell: Cell) -> str:
        """Run folder of a cell, below the comparison's."""
        entry, case = cell.case.entry, cell.case
        words = [entry.algorithm.replace(":", "-").replace("/", "-").replace("..", "up")]
        if case.epsilon is not None:
            words += [entry.method, entry.accountant, short(case.epsilon)]
        if cell.trial:
            words += [f"split{case.data_seed}"] if self.comparison.resplit else []
            words.append(said(cell.values))
        return f"{'trials' if cell.trial else 'runs'}/{'-'.join(words)}-{cell.seed}"


REASONS = {
    "algorithm": "name the methods with --algorithms",
    "method": "write it behind the method's name, as in --algorithms pp-admm:published",
    "accountant": "write it behind the method, as in --algorithms pp-admm:published:proven",
    "epsilon": "name the budgets with --epsilons",
    "seed": "name the seeds with --seeds; a comparison is a simulation",
    **dict.fromkeys(
        ("account", "no_account"), "an account adds up runs that a person makes; a comparison is a simulation"
    ),
    "group_size": "its epsilons are a record's",
    "no_test": "it counts errors on test records",
    "private": "a comparison is a simulation: its figures depend on the records",
    "out": "name the comparison's folder with -o",
    **dict.fromkeys(PROCESSES, "every run is simulated in one process, which gives the same vectors"),
    "checkpoint_every": "a comparison goes on with the run that was interrupted, from its start",
    "resume": "the same call of compare goes on where it stopped",
    "budgets": "every agent has the epsilon of --epsilons and the delta of --delta",
}
"""Why a setting of `run` is not one of a comparison."""


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
