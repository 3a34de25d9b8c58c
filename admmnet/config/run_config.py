"""The settings of a run: sections of the packages that use them and the chosen method's own, in one flat namespace."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cache, partial
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

from admmnet.data.settings import DataSettings
from admmnet.errors import RequestError
from admmnet.gone import gone_key
from admmnet.methods import METHODS, TAKEN
from admmnet.methods.settings import DEFAULT, Given, MethodSettings
from admmnet.registry import meant
from admmnet.settings import TABLES, Auto, Section, Setting, about, settings_in
from admmnet.transport.settings import NetworkSettings

if TYPE_CHECKING:
    from admmnet.config.keywords import AllSettings
    from admmnet.data.schema import Task


AUTO = "auto"
"""Value of ``resume``: go on where ``out`` is the folder of a run, begin one else."""
TEXTS = ("label", "positive", "centre")
"""Settings whose numbers are texts, as in a file."""
_HARMLESS = {"transport": "local", "agents": 1}
"""What says of one holder what is so."""


class RunSettings(Section, frozen=True, kw_only=True):
    """Seed, mode, folder: section [run] of a run's settings."""

    table: ClassVar[str] = "run"
    seed: Annotated[int, about(ge=0, everyday=14)] | None = None
    """seed of the noise: makes a simulation, which protects nothing"""
    simulate: Annotated[bool, about(everyday=15)] = False
    """take the records to be public: a simulation, whose figures may depend on them"""
    private: bool = False
    """treat the records as private, even those of a public set"""
    out: Annotated[str, about(metavar="DIR", short="-o", hosts=True, saved=False, everyday=16)] | None = None
    """run folder (default: runs/<time>-<algorithm>)"""
    measure_every: Annotated[int, about(ge=1, metavar="K", resume=True)] | Auto = 1
    """rounds, or epochs, between lines of metrics.csv, the last one included; auto: a tenth of the rounds"""
    kernel: Annotated[str, about(choices=("auto", "c", "numpy"), hosts=True)] = "auto"
    """gradients of local solves by the compiled kernel or numpy, whose last bits differ; auto: c where built"""
    show: Annotated[str, about(choices=("rounds", "end"), scope="network")] = "rounds"
    """figures of measured rounds, from all agents' vectors, or of the final average alone"""
    resume: Annotated[str, about(metavar="DIR", hosts=True, saved=False)] | None = None
    """go on with this interrupted run; auto: with the one in --out, if there"""

    def check(self) -> None:
        """Check that a run is not asked to be private and a simulation."""
        for other in ("simulate", "seed"):
            value = getattr(self, other)
            if self.private and value is not None and value is not False:  # a seed may be 0
                raise RequestError(f"private and {other} exclude each other: give one of them")
        if self.resume == AUTO and self.out is None:
            raise RequestError("resume = 'auto' goes with out: name the run's folder, there or not, with --out DIR")

    @property
    def seeded(self) -> bool:
        """Whether a seed makes the noise, so that whoever has it can make the noise again."""
        return self.seed is not None


class Sections(NamedTuple):
    """A run's settings by section; ``method`` has the method's own settings, the problem and the promise."""

    method: MethodSettings
    data: DataSettings
    network: NetworkSettings
    run: RunSettings


class RunConfig:
    """Everything that defines a run, fixed and checked; ``auto`` is replaced by a number where the run starts.

    Every setting is an attribute, and ``sections`` has them for functions that need only some.
    ``RunConfig(algorithm="m-admm", growth=1.1)`` also has the settings that the method declares itself.

    Raises
    ------
    RequestError
        If there is no such setting, a value is out of its range, or two settings contradict each other.
    """

    __slots__ = ("sections",)
    sections: Sections

    def __init__(self, /, **given: Unpack[AllSettings]) -> None:
        values = _as_in_file(given)
        algorithm = values.get("algorithm", DEFAULT)
        method: Any = METHODS[algorithm if isinstance(algorithm, str) else DEFAULT]
        if method.verb == "none":
            values = {name: value for name, value in values.items() if _HARMLESS.get(name) != value}
        known = known_settings(method)
        for name, value in values.items():
            if name not in known:
                _refuse_foreign(algorithm, method, name, value)
        checked = {name: known[name].check(value) for name, value in values.items() if name in known}
        checked["chosen_method"], kinds = method, (method.Settings, *_SECTIONS[1:])
        given_to = ({name: checked[name] for name in kind.__struct_fields__ if name in checked} for kind in kinds)
        self.sections = Sections(*(kind(**own) for kind, own in zip(kinds, given_to, strict=True)))
        try:
            for section in self.sections:
                for kind in reversed(type(section).__mro__):
                    if "check" in vars(kind):
                        vars(kind)["check"](section)
            self._check()
        except RequestError:
            # what is wrong with its loss is beside the point where the method does not serve
            self.check_task()
            raise

    def __getattr__(self, name: str) -> Any:
        """A setting, or what its section says of it; AttributeError if the method has no such setting."""
        if name.startswith("_") or name == "sections":
            raise AttributeError(name)
        return getattr(next((one for one in self.sections if hasattr(one, name)), self.sections.method), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunConfig) and self.sections == other.sections

    def __repr__(self) -> str:
        values = ((name, getattr(self, name), own.default) for name, own in self.described.items())
        given = (f"{name}={value!r}" for name, value, default in values if value != default)
        return f"RunConfig({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its settings: a method may be found by its name alone."""
        return partial(RunConfig, **self.flat), ()

    @property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: getattr(self, name) for name in self.described}

    def changed(self, **changes: Any) -> RunConfig:
        """The same with other settings."""
        return RunConfig(**(self.flat | changes))

    def having(self, **sections: Section) -> RunConfig:
        """The same with other sections: of a run that has decided what was left open, unchecked."""
        found = object.__new__(RunConfig)
        found.sections = self.sections._replace(**sections)  # type: ignore[arg-type]
        return found

    @property
    def described(self) -> Mapping[str, Setting]:
        """Settings of this run by name, each with its type, range, default and help."""
        return known_settings(self.chosen_method)

    @property
    def keeps(self) -> set[str]:
        """Settings that a run has when it goes on as when it began: of an unseeded one, the kernel is none of them."""
        return {n for n, own in self.described.items() if not own.about.resume and (self.seeded or n != "kernel")}

    @property
    def request(self) -> DataSettings:
        """Section [data]; the records of a simulation may show, and so may an encoding that is read from them.

        Where it was tried, ``auto`` leaves columns raw, which noise may drown: the run knows how much; and it asks the
        rule for whitening where nobody has weighted the features.
        """
        from admmnet.data.sources import left_raw, may_whiten
        from admmnet.methods.encoding_rule import TRIED

        data = self.sections.data
        tried, encode, whiten = self.algorithm in TRIED and self.method == "proven", data.encode, data.whiten
        if encode == "auto":
            raw = tried and not self.data_dependent and left_raw(data) != "" and self.declared == "binary"
            encode = "private" if raw else "declared"
        if whiten == "auto" and encode in ("declared", "private"):
            whiten = "auto" if tried and may_whiten(data.changed(encode=encode)) else "off"
        return data.changed(data_dependent=self.data_dependent or self.simulation, encode=encode, whiten=whiten)

    def _check(self) -> None:
        """Check what one holder of all records cannot have, what a seed does not go with, and deadlines."""
        for name, own in self.described.items() if self.transport != "zmq" else ():
            if own.scope == "zmq" and (value := getattr(self, name)) != own.default:
                raise RequestError(
                    f"{name} = {value:g} goes with transport = 'zmq', not {self.transport!r}, which has no deadlines"
                )
        if self.baseline and self.per_agent:
            raise RequestError(
                f"data = {self.data!r} does not go with algorithm = {self.algorithm!r}: one holder has all records; "
                "name one file"
            )
        if self.record_epsilon is not None and not self.chosen_method.by_record:
            raise RequestError(
                f"record_epsilon = {self.record_epsilon!r} goes with song-sgd, not {self.algorithm}: leave it out"
            )
        if self.show == "end" and self.answer != "average":
            raise RequestError(
                f"show = 'end' goes with answer = 'average', not {self.answer!r}, whose models are agents' own"
            )
        if self.seeded and self.account is not None:
            raise RequestError(
                f"seed = {self.seed} and account = {self.account!r} exclude each other: whoever has the seed has the "
                "noise, so nothing of an account would hold; leave one of them out"
            )

    def check_task(self) -> None:
        """Refuse a method for data whose declaration says that it does not learn them; no file is read.

        Raises
        ------
        RequestError
            It names the methods that do.
        """
        from admmnet.methods.tasks import LEARNS, require_method

        task = self.declared
        if task != "binary":  # those of a loader's records are known when it has been asked
            require_method(self.sections.method, task, LEARNS[task], self.data)

    @property
    def graph_seed(self) -> int:
        """First seed of a random graph."""
        return self.topology_seed if self.topology_seed is not None else self.seed or 0

    @property
    def simulation(self) -> bool:
        """Whether records may show: they are public, or ``seed`` or ``simulate`` says that nothing is protected."""
        return not self.private and (self.simulate or self.seeded or self.public_data)

    @property
    def declared(self) -> Task:
        """What the data's declaration says of the labels; no file is read."""
        from admmnet.data.sources import declared_task

        return declared_task(self.sections.data)

    @property
    def mode(self) -> Literal["simulation", "private"]:
        """``simulation`` or ``private``: it decides what is shown and kept (docs/cli.md, "Modes")."""
        return "simulation" if self.simulation else "private"


def _as_in_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file has them; RequestError if a graph is no network, or a class or function will not do."""
    values = dict(given)
    for name in TEXTS:
        if isinstance(values.get(name), Real) and not isinstance(values[name], bool):
            values[name] = f"{values[name]:.17g}"
    if callable(values.get("algorithm")):
        values["algorithm"] = METHODS.called(values["algorithm"])
    if callable(values.get("loss")):
        from admmnet.solvers.losses import LOSSES  # imports numpy

        values["loss"] = LOSSES.called(values["loss"])
    if not isinstance(values.get("topology"), str | os.PathLike | None):
        values |= _edges(values)
    if isinstance(values.get("schema"), Mapping):
        try:
            values["schema"] = _plain(values["schema"])
        except RecursionError:
            raise RequestError("schema holds itself: give a table of texts, numbers, lists and tables") from None
    return values


def _edges(values: Mapping[str, Any]) -> dict[str, Any]:
    """Topology and number of agents of a graph."""
    from admmnet.graph.files import EDGES
    from admmnet.graph.simple import check_topology

    graph, agents = check_topology(values["topology"], "topology"), values.get("agents")
    if agents not in (None, len(graph)):
        raise RequestError(
            f"the graph has {len(graph)} nodes, and agents = {agents!r}: leave agents out, or give another graph"
        )
    return {"topology": EDGES + ",".join(f"{i}-{j}" for i, j in graph.edges), "agents": len(graph)}


def _plain(value: Any) -> Any:
    """Table with lists and Python's numbers, such as a file can hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


_SECTIONS = MethodSettings, DataSettings, NetworkSettings, RunSettings


@cache
def known_settings(method: Any = None) -> Mapping[str, Setting]:
    """Settings that runs have, or those of a method's class with its own, by name and in the order of the tables."""
    known = [own for kind in _SECTIONS for own in settings_in(kind).values()]
    if method is not None:
        known = [own for own in known if not (own.scope and method.verb == "none") and own.name not in method.lacks]
        known += own_settings(method).values()
    return MappingProxyType({own.name: own for own in sorted(known, key=lambda own: TABLES.index(own.table))})


def own_settings(method: Any) -> dict[str, Setting]:
    """Settings that a method, a class or its name, declares itself."""
    method, common = METHODS[method] if isinstance(method, str) else method, settings_in(MethodSettings)
    return {n: own for n, own in settings_in(method.Settings).items() if n not in common and n not in method.lacks}


TAKEN.update(known_settings(), *map(dir, (RunConfig, *_SECTIONS)))


def _refuse_foreign(algorithm: str, method: Any, name: str, value: Any) -> None:
    """Refuse a setting that the method does not have, unless it is at its default."""
    owners = {algorithm: common[name]} if name in (common := known_settings()) else owners_of(name)
    if not owners:
        raise unknown(name)
    if any(value == own.default for own in owners.values()):
        return
    why = f", but with {', '.join(owners)}"
    if name in common:
        why = ", which has none" if name in method.lacks else ": there is no network, one holder has all records"
    raise RequestError(f"{name} = {value!r} does not go with algorithm = {algorithm!r}{why}")


def settings_of(algorithm: str) -> Mapping[str, Setting]:
    """All settings that a method has, by name."""
    method: Any = METHODS[algorithm]
    return known_settings(method)


def find_setting(name: str) -> Setting:
    """The setting of a name: a common one, or of the first method that declares it."""
    found = known_settings().get(name) or next(iter(owners_of(name).values()), None)
    if found is None:
        raise unknown(name)
    return found


def unknown(name: str) -> RequestError:
    """What to say of a name that no setting has."""
    if (told := gone_key(name)) is not None:
        return RequestError(told)
    close = meant(name, {*known_settings(), *foreign_names()})
    return RequestError(f"there is no setting {name!r}: {close}`admmnet run --help` lists all")


def owners_of(name: str) -> dict[str, Setting]:
    """A setting as the methods have it that declare it themselves."""
    return {algorithm: own[name] for algorithm, method in METHODS.sound() if name in (own := own_settings(method))}


def foreign_names() -> set[str]:
    """Names of all settings that any method declares itself."""
    return {name for _, method in METHODS.sound() for name in own_settings(method)}


def own_delta(counts: Collection[int]) -> float:
    """Delta that is chosen by itself: min(1e-5, 0.1 / smallest n_i)."""
    return min(1e-5, 0.1 / min(counts))


def is_loose(delta: float, count: int, own: float) -> bool:
    """Whether a delta deserves a note: above 0.1 / n_i; up to ``own``, which is chosen by itself, above 1 / n_i."""
    return delta > (1.0 if delta <= own else 0.1) / count


def with_delta(
    config: Given, counts: Collection[int], deltas: Mapping[int, float | None] = MappingProxyType({})
) -> Given:
    """Replace ``delta = "auto"``: an agent's account's delta, else min(1e-5, 0.1 / smallest n_i).

    An explicit delta stays, and so does an agent's own of ``[privacy.agents.I]``. ``counts`` are n_i of all agents.
    ``deltas`` are those of accounts that are there already, None for none: each is that agent's and no other's.
    """
    if config.delta != "auto":
        return config
    accounts = {i: value for i, value in deltas.items() if value is not None}
    delta = own_delta(counts)
    if len(accounts) == len(counts) and len(set(accounts.values())) == 1:
        delta = next(iter(accounts.values()))
    own = {str(i): {"delta": value} for i, value in accounts.items() if value != delta}
    budgets = {i: {**own.get(i, {}), **config.budgets.get(i, {})} for i in {**config.budgets, **own}}
    return config.changed(delta=delta, budgets=budgets)
