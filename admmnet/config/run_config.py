"""The settings of a run: sections of the packages that use them and the chosen method's own, in one flat namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

from admmnet.config.values import as_in_file
from admmnet.data.settings import DataSettings
from admmnet.errors import RequestError
from admmnet.faults.settings import FaultSettings
from admmnet.gone import gone_key
from admmnet.methods import METHODS, TAKEN
from admmnet.methods.settings import DEFAULT, MethodSettings
from admmnet.registry import meant
from admmnet.settings import TABLES, Auto, Section, Setting, about, settings_in
from admmnet.transport.settings import NetworkSettings

if TYPE_CHECKING:
    from admmnet.config.keywords import AllSettings
    from admmnet.data.schema import Task


Mode = Literal["simulation", "private"]
AUTO = "auto"
"""Value of ``resume``: go on where ``out`` is the folder of a run, begin one else."""
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
    """rounds between lines of metrics.csv, the last one included; auto: a tenth of the rounds"""
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
    faults: FaultSettings
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
        values = as_in_file(given)
        algorithm = values.get("algorithm", DEFAULT)
        method: Any = METHODS[algorithm if isinstance(algorithm, str) else DEFAULT]
        if method.verb == "none":
            values = {name: value for name, value in values.items() if _HARMLESS.get(name) != value}
        known = known_settings(method)
        for name, value in values.items():
            if name not in known:
                _refuse_foreign(algorithm, name, value)
        checked = {name: known[name].check(value) for name, value in values.items() if name in known}

        def made(kind: type, **more: Any) -> Any:
            return kind(**more, **{name: checked[name] for name in settings_in(kind) if name in checked})

        self.sections = Sections(made(method.Settings, chosen_method=method), *map(made, _SECTIONS[1:]))
        self._check_scopes([(known[name], value) for name, value in checked.items() if value != known[name].default])
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
        values = ((name, getattr(self, name), own.default) for name, own in self.known.items())
        given = (f"{name}={value!r}" for name, value, default in values if value != default)
        return f"RunConfig({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its settings: a method may be found by its name alone."""
        return partial(RunConfig, **self.flat), ()

    @property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {
            name: getattr(one, name) for one in self.sections for name in settings_in(type(one)) if name in self.known
        }

    def changed(self, **changes: Any) -> RunConfig:
        """The same with other settings."""
        return RunConfig(**(self.flat | changes))

    def having(self, **sections: Section) -> RunConfig:
        """The same with other sections: of a run that has decided what was left open, unchecked."""
        found = object.__new__(RunConfig)
        found.sections = self.sections._replace(**sections)  # type: ignore[arg-type]
        return found

    @property
    def known(self) -> Mapping[str, Setting]:
        """What is known of each setting."""
        return known_settings(self.chosen_method)

    @property
    def keeps(self) -> set[str]:
        """Settings that a run has when it goes on as when it began: of an unseeded one, the kernel is none of them."""
        return {n for n, own in self.known.items() if not own.about.resume and (self.seeded or n != "kernel")}

    @property
    def request(self) -> DataSettings:
        """Section [data]; the records of a simulation may show, and so may an encoding that is read from them."""
        data = self.sections.data
        dependent = self.data_dependent or self.simulation
        encode = data.encode
        if encode == "auto":
            encode = "private" if self._measures(data) else "declared"
        whiten = data.whiten
        if whiten == "auto" and encode in ("declared", "private"):
            whiten = "auto" if self._evens(data.changed(encode=encode)) else "off"
        return data.changed(data_dependent=dependent, encode=encode, whiten=whiten)

    def _measures(self, data: DataSettings) -> bool:
        """Whether ``auto`` leaves columns raw: where it was tried. Noise may drown all: the run knows how much."""
        if not data.schema:
            return False
        from admmnet.data.sources import declared_task, may_measure

        tried = self._tried and not self.data_dependent
        return tried and may_measure(data) and declared_task(data) == "binary"

    def _evens(self, data: DataSettings) -> bool:
        """Whether ``auto`` asks the rule for whitening: where it was tried, and nobody has weighted the features."""
        from admmnet.data.sources import may_whiten

        return self._tried and may_whiten(data)

    @property
    def _tried(self) -> bool:
        from admmnet.methods.encoding_rule import TRIED

        return self.algorithm in TRIED and getattr(self, "method", "") == "proven"

    def _check(self) -> None:
        """Check what one holder of all records cannot have, and what a seed does not go with."""
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

    def _check_scopes(self, given: Iterable[tuple[Setting, Any]]) -> None:
        """Refuse settings that go with other methods or another transport."""
        for own, value in given:
            if own.scope and self.baseline:
                raise RequestError(
                    f"{own.name} = {value!r} does not go with algorithm = {self.algorithm!r}: there is no network, one "
                    "holder has all records"
                )
            if own.name in self.chosen_method.lacks:
                raise RequestError(f"{own.name} does not go with algorithm = {self.algorithm!r}, which has none")
            if own.scope == "zmq" and self.transport != "zmq":
                raise RequestError(
                    f"{own.name} = {value:g} goes with transport = 'zmq', not {self.transport!r}, which has no "
                    "deadlines"
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
        from admmnet.data import declared_task

        return declared_task(self.sections.data)

    @property
    def mode(self) -> Mode:
        """``simulation`` or ``private``: it decides what is shown and kept (docs/cli.md, "Modes")."""
        return "simulation" if self.simulation else "private"


_SECTIONS = MethodSettings, DataSettings, NetworkSettings, FaultSettings, RunSettings


@cache
def known_settings(method: Any = None) -> Mapping[str, Setting]:
    """Settings that every run has, with those of a method's class its own, by name and in the order of the tables."""
    known = [own for kind in _SECTIONS for own in settings_in(kind).values()]
    known += [] if method is None else _own(method).values()
    return MappingProxyType({own.name: own for own in sorted(known, key=lambda own: TABLES.index(own.table))})


def _own(method: Any) -> dict[str, Setting]:
    common = settings_in(MethodSettings)
    return {n: own for n, own in settings_in(method.Settings).items() if n not in common and n not in method.lacks}


TAKEN.update(known_settings(), *map(dir, (RunConfig, *_SECTIONS)))


def _refuse_foreign(algorithm: str, name: str, value: Any) -> None:
    """Refuse a setting that the method does not have; older run folders say their defaults."""
    owners = owners_of(name)
    if not owners:
        raise unknown(name)
    if all(value != own.default for _, own in owners):
        raise RequestError(
            f"{name} = {value!r} does not go with algorithm = {algorithm!r}, but with "
            f"{', '.join(owner for owner, _ in owners)}"
        )


def settings_of(algorithm: str) -> dict[str, Setting]:
    """All settings that a method has, by name."""
    method: Any = METHODS[algorithm]
    return {
        name: own
        for name, own in known_settings(method).items()
        if not (own.scope and method.verb == "none") and name not in method.lacks
    }


def find_setting(name: str) -> Setting:
    """The setting of a name: a common one, or of the first method that declares it."""
    common = known_settings()
    for _, own in () if name in common else owners_of(name):
        return own
    if name not in common:
        raise unknown(name)
    return common[name]


def unknown(name: str) -> RequestError:
    """What to say of a name that no setting has."""
    if (told := gone_key(name)) is not None:
        return RequestError(told)
    close = meant(name, {*known_settings(), *foreign_names()})
    return RequestError(f"there is no setting {name!r}: {close}`admmnet run --help` lists all")


def owners_of(name: str) -> list[tuple[str, Setting]]:
    """Methods that declare a setting themselves."""
    return [(algorithm, own[name]) for algorithm, own in _declared() if name in own]


def foreign_names() -> set[str]:
    """Names of all settings that any method declares itself."""
    return {name for _, own in _declared() for name in own}


def own_settings(algorithm: str) -> dict[str, Setting]:
    """Settings that a method declares itself."""
    return _own(METHODS[algorithm])


def _declared() -> Iterator[tuple[str, dict[str, Setting]]]:
    return ((algorithm, _own(method)) for algorithm, method in METHODS.sound())
