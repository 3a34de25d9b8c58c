"""The grid of a comparison: its cells, their settings and their folders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from admmnet.config.modes import check_comparable
from admmnet.config.run_config import RunConfig, find_setting
from admmnet.config.toml import values_of
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.parsing import (
    REASONS,
    Entry,
    Values,
    having,
    listed,
    name_of,
    named_once,
    parse_entry,
    parse_epsilons,
    parse_seeds,
    parse_tune,
    said,
    short,
)
from admmnet.experiments.pool import refuse_others, sums_of
from admmnet.version import __version__

TRIAL_SEEDS = 1_000_000
"""Seed of the first trial; the seeds compared lie below it where anything is tuned."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is to be compared.

    ``algorithms`` are each NAME, NAME:METHOD or NAME:METHOD:ACCOUNTANT, baselines, too; the method is ``proven`` and
    the accountant the method's unless said. ``epsilons`` are budgets; ``admm``, ``sdca`` and ``sgd`` have none and run
    once a seed. Each of the ``seeds`` is a run; with ``resplit`` it also draws its own test set and shards, as the data
    seed. ``out`` is the folder, ``settings`` are further ones of ``RunConfig``, the same for all methods that have
    them. ``tune`` are settings to try, as ``eta=0.1:1,rounds=6:12`` or ``ipp-admm.eta=0.1:1``, with ``tune_seeds``
    trials of every combination.
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
    """What settings are chosen for: a method at an epsilon, on one split of the data, of several with ``resplit``."""

    entry: Entry
    epsilon: float | None
    data_seed: int
    resplit: bool = False

    @property
    def words(self) -> str:
        """How messages call it."""
        at = "" if self.epsilon is None else f" at epsilon {short(self.epsilon)}"
        return f"{self.entry}{at}{f' on split {self.data_seed}' if self.resplit else ''}"


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

    @property
    def folder(self) -> str:
        """Run folder, below the comparison's."""
        entry, epsilon, split, resplit = self.case
        words = [entry.algorithm.replace(":", "-").replace("/", "-").replace("..", "up")]
        if epsilon is not None:
            words += [entry.method, entry.accountant, short(epsilon)]
        if self.trial:
            words += [f"split{split}"] if resplit else []
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
        settings, tune_seeds = comparison.settings, comparison.tune_seeds
        for name in sorted(settings.keys() & REASONS.keys()):
            if name != "transport" or settings[name] not in ("auto", "local"):
                raise RequestError(f"{name} = {settings[name]!r} does not go with compare: {REASONS[name]}")
        if comparison.resplit and "data_seed" in settings:
            raise RequestError("--resplit and --data-seed exclude each other: with the first every seed splits anew")
        self.entries = named_once("algorithms", map(parse_entry, comparison.algorithms))
        self.epsilons = tuple(sorted(named_once("epsilons", map(float, comparison.epsilons))))
        self.seeds = tuple(sorted(named_once("seeds", comparison.seeds)))
        self.candidates = parse_tune(comparison.tune, self.entries, settings)
        if tune_seeds < 1:
            raise RequestError(f"--tune-seeds {tune_seeds} is not allowed: it must be a whole number, at least 1")
        if any(map(self.tuned, self.entries)) and self.seeds[-1] >= TRIAL_SEEDS:
            raise RequestError(
                f"--seeds {self.seeds[-1]} is not allowed with --tune: seeds from {TRIAL_SEEDS} on are the trials'"
            )
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
                    if self.tried(case := Case(entry, epsilon, data_seed, self.comparison.resplit)):
                        yield case

    def trials(self, case: Case) -> list[Cell]:
        """Trials of a case, all seeds of a combination together."""
        seeds = range(TRIAL_SEEDS, TRIAL_SEEDS + self.comparison.tune_seeds)
        return [Cell(case, seed, values, trial=True) for values in self.tried(case) for seed in seeds]

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
        both, kept = (then, self.words), ("admmnet", "files", "resplit", "tune", "tune_seeds")
        # where the records lie, and from where they are read, does not matter
        before, now = ({n: own.get(n) for n in kept} | own["settings"] | {"data_dir": None} for own in both)
        for name in before.keys() ^ now.keys():  # what is open is at its default
            with suppress(RequestError):
                for words in (before, now):
                    words.setdefault(name, find_setting(name).default)
        refuse_others(self.folder, before, now)

    def config(self, cell: Cell) -> RunConfig:
        """Settings of a cell: those that `admmnet run` would be given, without a run folder; checked."""
        entry, epsilon, data_seed, _ = cell.case
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


# a grid as a TOML file (docs/compare.md, "A grid in a file"): [compare] has its lists, the tables of a run hold for all
# runs, and each [[place]] says what is different there

WORDS = ("algorithms", "epsilons", "seeds", "resplit", "tune", "tune_seeds")
"""Keys of [compare] and of a place beside its name: what ``Comparison`` has of the same names."""
_PARSED = {"algorithms": listed, "epsilons": parse_epsilons, "seeds": parse_seeds}
"""Of these a text is read as a flag's."""


def grids_of(
    tables: dict[str, Any], path: Path, words: Mapping[str, Any], settings: Mapping[str, Any], out: str
) -> dict[str, Comparison]:
    """Comparisons by the names of their places; without places a single one, whose name is empty.

    A place that says ``vary.SETTING = [...]`` is one for each value, with that in its name. ``words`` and ``settings``
    hold for all of them, in place of what the tables of the file say.

    RequestError if the file is no such file, or a place has no name or the name of another one.
    """
    common, places = tables.pop("compare", {}), tables.pop("place", [{"name": ""}])
    if not (isinstance(common, dict) and isinstance(places, list) and all(isinstance(one, dict) for one in places)):
        raise RequestError(f"{path}: compare must be a table, [compare], and every place one, [[place]]")
    found: dict[str, Comparison] = {}
    for one in places:
        vary = one.pop("vary", {})
        lists: list[Any] = list(vary.values()) if isinstance(vary, dict) else [None]
        if not all(isinstance(values, list) and values for values in lists):
            raise RequestError(f"{path}: vary = {vary!r:.60} is not allowed: give lists, vary.SETTING = [...]")
        if vary and not one.get("name"):
            raise RequestError(f"{path}: a place that varies a setting has no name: give it one")
        name = one.pop("name", None)
        own = common | {word: one.pop(word) for word in WORDS if word in one} | dict(words)
        if unknown := [word for word in own if word not in WORDS]:
            raise RequestError(f"{path}: unknown key {unknown[0]} in [compare]; keys: {', '.join(WORDS)}")
        if "algorithms" not in own:
            raise RequestError(f"{path} names no methods: say algorithms = [NAME, ...] in [compare], or --algorithms")
        own |= {word: parse(own[word]) for word, parse in _PARSED.items() if isinstance(own.get(word), str)}
        settled = values_of(tables, path) | values_of(one, path)
        for values in product(*lists):
            which = dict(zip(vary, values, strict=True))
            each = "; ".join([str(name), *(f"{key}={value}" for key, value in which.items())]) if which else name
            place = Path(out, folder := name_of(each or ""))
            if (not folder and (each != "" or len(places) > 1)) or str(place) in (one.out for one in found.values()):
                raise RequestError(f"{path}: a place with name = {each!r} is not allowed: give each one of its own")
            found[each] = Comparison(**own, settings=settled | which | dict(settings), out=str(place))
    return found
