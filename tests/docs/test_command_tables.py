"""Flags and settings on docs/cli.md are those of the program; `python -m tests.docs.test_command_tables` writes them.

A place is `<!-- settings of TABLE -->` or `<!-- flags of COMMAND -->`, up to `<!-- end of flags -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from admmnet.cli import command_line
from admmnet.cli.settings import DEFAULTS, SettingOption, SettingsCommand
from admmnet.config.run_config import own_settings, owners_of
from admmnet.config.toml import common_settings
from admmnet.methods import METHODS
from admmnet.settings import TABLES, Setting
from tests.doc_pages import ROOT, text

PAGE = ROOT / "docs" / "cli.md"
PLACE = re.compile(r"<!-- (settings|flags) of ([\w -]+) -->\n(?:.*\n)*?<!-- end of flags -->")
FEW = 3
"""Owners of a setting that are named; of more the help of each method tells."""


def settings() -> dict[str, Setting]:
    """Settings that have a flag, methods' own included."""
    own = (own_settings(name) for name in METHODS.own)
    found = common_settings() | {key: value for each in own for key, value in each.items()}
    return {key: value for key, value in found.items() if value.base is not Mapping}


def shown(own: Setting) -> str:
    """Default of a setting on the command line."""
    value = DEFAULTS.get(own.name, own.default)
    if value is None or value is False:
        return "none" if value is None else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def meaning(own: Setting) -> str:
    """What its help says, whose it is, and the range of a number."""
    names = [name for name, _ in owners_of(own.name) if name in METHODS.own]  # another test may have loaded more
    named = not names or len(names) > FEW or any(name in own.about.help for name in names)
    whose = "" if named else f"of {', '.join(f'`{name}`' for name in names)}: "
    numbers = own.base in (int, float) and own.about.within != "(-inf, inf)"
    return f"{whose}{own.about.help}" + (f"; in {own.about.within}" if numbers else "")


def table(name: str) -> str:
    """Table of the settings that stand in one table of a configuration file."""
    rows = ["| flag | default | meaning |", "|---|---|---|"]
    for own in settings().values():
        if own.about.table == name:
            option = SettingOption(own)
            flag = ", ".join(f"`{word}`" for word in [*option.opts, *option.secondary_opts])
            metavar = f" {option.metavar}`" if option.metavar and own.base is not bool else "`"
            rows.append(f"| {flag[:-1]}{metavar} | {shown(own)} | {meaning(own)} |".replace("|auto", "\\|auto"))
    return "\n".join(row if row.startswith("|--") else escaped(row) for row in rows)


def escaped(row: str) -> str:
    """Return a row with bars inside code escaped."""
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"(?<!\\)\|", r"\\|", code[0]), row)


def command(words: str) -> click.Command:
    found: click.Command = command_line
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, words
        found = inner
    return found


def lines(words: str) -> str:
    """List of a command's own flags, as its help page says them; those of `run` are told there alone."""
    found = command(words)
    context = click.Context(found, info_name=words)
    options: list[Any] = [one for one in found.params if isinstance(one, click.Option) and not one.hidden]
    if isinstance(found, SettingsCommand):
        common = common_settings()
        options += [SettingOption(common[name], **changes) for name, changes in found._changes.items()]
    records = [one.get_help_record(context) for one in options]
    told = [f"- `{flag.replace(', ', '`, `')}`: {help.strip()}" for flag, help in filter(None, records)]
    known = [] if words == "run" else lines("run").splitlines()
    pieces = [piece for piece in found.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    usage = " ".join(["admmnet", words, *pieces]).strip()
    return "\n".join([f"`{usage}`", "", *(line for line in told if line not in known)]).rstrip()


def made(kind: str, name: str) -> str:
    return table(name) if kind == "settings" else lines(name)


def renewed(page: str) -> str:
    return PLACE.sub(lambda at: f"<!-- {at[1]} of {at[2]} -->\n\n{made(at[1], at[2])}\n\n<!-- end of flags -->", page)


def leaves(found: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(found, click.Group):
        yield " ".join(words)
        return
    for name in found.list_commands(click.Context(found)):
        yield from leaves(command(" ".join([*words, name])), (*words, name))


def test_every_table_and_command_has_its_place() -> None:
    places = [match.groups() for match in PLACE.finditer(text(PAGE))]
    assert sorted(places) == sorted(
        [("settings", name) for name in TABLES] + [("flags", words) for words in leaves(command_line)]
    )


def test_flags_and_settings_are_those_of_the_program() -> None:
    assert renewed(text(PAGE)) == text(PAGE), "python -m tests.docs.test_command_tables writes them"


if __name__ == "__main__":
    PAGE.write_text(renewed(text(PAGE)), encoding="utf-8")
