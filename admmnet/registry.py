"""Things that a user names: ours, an installed package's, ``package.module:Name`` or ``file.py:Name``."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from admmnet.errors import RequestError, short

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__``: a name is imported from its module where it is first used.

    ``homes`` has the module of every such name; what a person is shown are the names in ``__all__``.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find, lambda: list(sys.modules[package].__all__)


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is closest to a mistaken one, in any case; None if none is near."""
    import difflib

    known = {one.casefold(): one for one in names}
    close = difflib.get_close_matches(name.casefold(), known, n=1)
    return known[close[0]] if close else None


def meant(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean X?`` with the closest name, or nothing."""
    close = closest(name, names)
    return "" if close is None else f"did you mean {close}? "


class UnknownName(RequestError, KeyError):
    """No such name, or its module is not installed; a mapping's ``get`` asks for a KeyError."""

    __str__ = Exception.__str__


class Registry(MutableMapping[str, T], Generic[T]):
    """Names and what they stand for, loaded when first asked for.

    Entry points are read only for a name that is not ours, and to list all names: reading them takes 50 ms.

    Parameters
    ----------
    what : str
        The setting whose values the names are, such as ``algorithm``.
    group : str
        Entry points that add names.
    own : mapping
        Our names, each with what it stands for or its ``module:Name``.
    adapted : callable
        Makes what a thing from outside, under the name that it was given, stands for; raises TypeError or RequestError
        if it will not do.
    """

    def __init__(self, what: str, group: str, own: Mapping[str, T | str], adapted: Callable[[Any, str], T]) -> None:
        self.what, self.group, self.own, self._adapted = what, group, own, adapted
        self._loaded: dict[str, T] = {}
        self._held: dict[str, Any] = {}  # what a program gave instead of its name

    def __getitem__(self, name: str) -> T:
        """What a name stands for; RequestError if there is none, or its package cannot be imported."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """All names: ours first, then those of installed packages."""
        return iter(dict.fromkeys((*self.own, *sorted({*self._outside(), *self._loaded}))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, name: str, value: T) -> None:
        self._loaded[name] = value

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]
        self._held.pop(name, None)

    def __contains__(self, name: object) -> bool:
        known = name in self.own or name in self._loaded
        return known or (isinstance(name, str) and (":" in name or name in self._outside()))

    def sound(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, T]]:
        """All, or those of the names, that can be loaded; a broken package of somebody else's is passed over."""
        for name in self if names is None else names:
            try:
                yield name, self[name]
            except RequestError:
                if name in self.own:
                    raise

    def called(self, thing: Any) -> str:
        """Name of a thing that a program holds: ours, or ``module:name``, under which this process keeps it.

        RequestError if it has no such name, or will not do.
        """
        module, path = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
        name = f"{module}:{path}"
        if (own := next((own for own, place in self.own.items() if name == place or thing is place), None)) is not None:
            return own
        if module is None or path is None:
            raise RequestError(f"{self.what} = {short(thing)} has no name: give a class or function that has one")
        try:
            self._loaded[name] = self._adapted(thing, name)  # anew: a notebook may have changed it
            self._held[name] = thing
        except (TypeError, RequestError) as error:
            raise RequestError(f"{self.what} = {name}: {error}") from None
        return name

    def importable(self, name: str) -> bool:
        """Whether another process finds the same thing under a name: not if a notebook or a function defined it."""
        if name not in self._held:
            return True
        try:
            return not name.startswith("__main__:") and self._imported(name) is self._held[name]
        except (ImportError, AttributeError):
            return False

    def _outside(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, name: str) -> T:
        if name in self.own:
            own = self.own[name]
            found: T = self._imported(own) if isinstance(own, str) else own
            return found
        outside = {} if ":" in name else self._outside()
        source = outside[name].value.partition("[")[0].strip() if name in outside else name
        module, _, path = source.rpartition(":")
        parts = *(() if module.endswith(".py") else module.split(".")), *path.split(".")
        if name not in outside and not all(part.isidentifier() for part in parts):
            raise UnknownName(
                f"{self.what} = {name!r} is not allowed: {meant(name, self)}it must be one of {', '.join(self)}, "
                "package.module:Name or file.py:Name"
            )
        try:
            return self._adapted(self._imported(source), name)
        except (Exception, SystemExit) as error:  # whatever a stranger's module raises while it is imported
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if name not in outside and missing and f"{module}.".startswith(f"{missing}."):
                raise UnknownName(
                    f"{self.what} = {name!r}: there is no module {missing}: install its package, or run from its "
                    "folder with `python -m admmnet`"
                ) from None
            if isinstance(error, RequestError):
                cause, remedy = str(error), ""  # it has its own
            else:
                cause = f"{type(error).__name__}: {error}"
                remedy = "; mend or remove the package" if name in outside else "; name another one, or mend it"
            place = f"file {module}" if module.endswith(".py") else f"package {module.partition('.')[0]}"
            raise RequestError(
                f"{self.what} = {name!r} cannot be loaded from the {place}: {cause.splitlines()[0]}{remedy}"
            ) from error

    @staticmethod
    def _imported(source: str) -> Any:
        module, _, path = source.rpartition(":")
        return attrgetter(path)(_of_file(module) if module.endswith(".py") else import_module(module))


def _of_file(file: str) -> ModuleType:
    """Module of a file, relative to the current folder; imported once, under a name that no other file has."""
    path = Path(file).resolve(strict=True)
    name = f"{path.stem}-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
