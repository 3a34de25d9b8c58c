"""Settings from files and flags, and back: flags override the file, the file the defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admmnet.config.run_config import RunConfig, metadata
from admmnet.errors import RequestError
from admmnet.settings import of_kind

TABLES = ("data", "network", "problem", "algorithm", "baseline", "privacy", "run")


def load_config(path: str | Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Settings from a TOML file, overridden by flags.

    Parameters
    ----------
    path : path or None
        File with the tables [data], [network], [problem], [algorithm], [baseline], [privacy], [run].
    flags : mapping
        Setting name to value; None counts as not given.

    Raises
    ------
    RequestError
        If the file is missing or not TOML, a key is unknown or in the wrong table, or a value is out of range.
    """
    values = {} if path is None else read_values(Path(path))
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return RunConfig(**values)


def read_toml(path: Path) -> dict[str, Any]:
    """Content of a TOML file.

    Raises
    ------
    RequestError
        If it is missing or not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise RequestError(f"cannot read the config file {path}: {error.strerror}") from None
    except ValueError as error:
        raise RequestError(f"{path} is not a TOML file: {error}") from None


def read_values(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by name, unchecked but for their tables and keys.

    Raises
    ------
    RequestError
        If the file is missing or not TOML, or a key is unknown or in the wrong table.
    """
    tables = read_toml(path)
    names = {(meta["table"], _key(name)): name for name, (_, meta) in metadata().items()}
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
    """Return the settings that the method has as TOML: ``load_config`` reads them back.

    ``out`` and ``resume`` are left out, they are where the file lies.
    """
    import tomli_w

    from admmnet.config.checks import has_setting

    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for name, (_, meta) in metadata().items():
        value = getattr(config, name)
        if (
            name not in ("out", "resume")
            and value is not None
            and value != {}
            and has_setting(config.algorithm, name)
        ):
            tables[meta["table"]][_key(name)] = value
    return str(tomli_w.dumps({table: content for table, content in tables.items() if content}))


def flag_fields() -> list[tuple[str, str, Mapping[str, Any]]]:
    """Name, type and metadata of every setting that has a flag, in the order of the help page."""
    return [(name, kind, meta) for name, (kind, meta) in metadata().items() if not kind.startswith("dict")]


def parse_flag(name: str, text: str) -> Any:
    """Return the value of a flag as its setting's type.

    Raises
    ------
    RequestError
        If the text is no such value.
    """
    kind, meta = metadata()[name]
    if kind.startswith(("int", "float")) and not (text == "auto" and "Auto" in kind):
        try:
            value: Any = int(text) if kind.startswith("int") else float(text)
        except ValueError:
            value = text
        return of_kind(name, value, kind.split(" ")[0], meta, auto="Auto" in kind)
    if kind.startswith("bool") and text in ("true", "false"):
        return text == "true"
    return text
