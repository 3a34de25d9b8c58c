"""Settings from files and flags, and back: flags override the file, the file the defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from admmnet.config.run_config import RunConfig, foreign_names, known_settings, own_settings, owners_of
from admmnet.data.settings import MEASURED
from admmnet.errors import RequestError
from admmnet.files import load_json, read_toml, refusing
from admmnet.gone import gone_key
from admmnet.methods import METHODS
from admmnet.registry import UnknownName, meant
from admmnet.settings import TABLES

READ_BY = (*("label", "separator", "positive", "task", "features", "no_intercept", "schema", "normalise", "centre"),)
"""Settings of [data] by which a file of records is read."""


def load_config(
    path: str | Path | None, flags: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] = MappingProxyType({})
) -> RunConfig:
    """Settings from a TOML file with the tables of ``TABLES``, overridden by flags, of which None counts as not given.

    ``defaults`` are those of settings that neither says, where they are not the settings' own.

    Raises
    ------
    RequestError
        If the file is missing or not TOML, a key is unknown or in the wrong table, or a value is out of range.
    """
    values = {**defaults, **({} if path is None else read_values(Path(path)))}
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return RunConfig(**values)


def read_schema(path: Path) -> dict[str, Any]:
    """Settings by which a file of records is read: ``schema``, and those of ``READ_BY`` that the file names.

    It is a TOML file with the [data] of a run, or a bare schema; or a JSON file with a schema, as encoding.json.
    RequestError if it cannot be read, or is none of these. What the schema says is checked where it is used.
    """
    if path.suffix == ".json":
        try:
            with refusing(f"read {path}"):
                found = load_json(path.read_bytes())
        except ValueError as error:
            raise RequestError(f"{path} is not a JSON file: {error}") from None
        if not isinstance(found, dict):
            raise RequestError(f"{path} holds no schema, which is a table: give one as a run's encoding.json is")
        return {"schema": {key: value for key, value in found.items() if key != MEASURED}}
    tables = read_toml(path)
    if not set(tables) <= set(TABLES):
        return {"schema": tables}
    values = read_values(path)
    return {name: values[name] for name in READ_BY if name in values}


def algorithm_in(path: Path) -> str | None:
    """The method that a TOML file names; None where it names none, or cannot be read."""
    try:
        found = read_toml(path)["algorithm"]["algorithm"]
    except (RequestError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def saved_algorithm(folder: Path) -> str | None:
    """The method that a run folder names, None as ``algorithm_in``.

    RequestError if it cannot be loaded: the package that brought it is missing, or broken.
    """
    name = algorithm_in(folder / "config.toml")
    try:
        if name is not None:
            METHODS[name]
    except UnknownName:
        raise RequestError(
            f"the package that brought the method {name} of the run in {folder} is missing: install it, or run from "
            "its folder with `python -m admmnet`"
        ) from None
    return name


def load_saved(folder: Path) -> RunConfig:
    """Settings of a run folder; RequestError as ``load_config`` and ``saved_algorithm``."""
    saved_algorithm(folder)
    return RunConfig(**read_values(folder / "config.toml"))


def read_values(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by name, unchecked but for their tables and keys."""
    return values_of(read_toml(path), path)


def values_of(tables: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings of a file's tables by name, as ``read_values``."""
    known, installed = dict(known_settings()), True
    with suppress(KeyError, TypeError):  # it names no method
        try:
            known |= own_settings(tables["algorithm"]["algorithm"])
        except RequestError:  # a run folder of a method that is not installed here can be looked at
            installed = False
    names = {(own.table, own.key): own.name for own in known.values()}
    values: dict[str, Any] = {}
    for table, content in tables.items():
        if table not in TABLES or not isinstance(content, dict):
            raise RequestError(
                f"{path}: unknown table or key [{table}]; {meant(table, TABLES)}tables: {', '.join(TABLES)}"
            )
        for key, value in content.items():
            name = names.get((table, key))
            values[name or (_foreign(path, table, key, value) if installed else key)] = value
    return values


def _foreign(path: Path, table: str, key: str, value: Any) -> str:
    """Name of a key that is another method's own setting, to be refused or, at its default, passed over."""
    common = known_settings().values()
    if (told := gone_key(key)) is not None:
        raise RequestError(f"{path}: {told}")
    homes = [own.table for own in (*common, *owners_of(key).values()) if own.key == key]
    if table in homes:
        return key
    if homes:
        hint = f"it belongs to [{homes[0]}]"
    else:
        there = sorted(own.key for own in common if own.table == table)
        hint = f"{meant(key, [*there, *foreign_names()])}keys there: {', '.join(there)}"
    raise RequestError(f"{path}: unknown key {key} = {value!r} in [{table}]; {hint}")


def to_toml(config: RunConfig, *, kept: bool = False) -> str:
    """Return the settings that the method has as TOML: ``load_config`` reads them back.

    ``out`` and ``resume`` are left out, they are where the file lies; ``kept`` are those that a resumed run keeps.
    """
    import tomli_w

    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    keeps = config.keeps if kept else set(config.described)
    for name, own in config.described.items():
        value = getattr(config, name) if name in keeps else own.default
        if own.about.saved and value is not None and value != {}:
            tables[own.table][own.key] = value
    return str(tomli_w.dumps({table: content for table, content in tables.items() if content}))


def settings_digest(config: RunConfig) -> str:
    """sha256 of the settings that a resumed run must keep."""
    return hashlib.sha256(to_toml(config, kept=True).encode()).hexdigest()
