"""Flags and settings on docs/cli.md are those of the program; `python -m tests.docs.test_command_tables` writes them.

A place is `<!--settings:TABLE-->` or `<!--flags:WORDS-OF-COMMAND-->`, up to `<!--end-->`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import click

from admmnet.cli import command_line
from admmnet.cli.settings import DEFAULTS, SettingOption, SettingsCommand
from admmnet.config.run_config import known_settings, own_settings, owners_of
from admmnet.methods import METHODS
from admmnet.settings import TABLES, Setting
from tests.doc_pages import ROOT, text

PAGE = ROOT / "docs" / "cli.md"
PLACE = re.compile(r"<!--(settings|flags):([\w-]+)-->\n(?:.*\n)*?<!--end-->")
LARGE = 1000
"""Ranges that go beyond are told by the program alone."""
FEW = 3
"""Owners of a setting that are named; of more the help of each method tells."""


def settings() -> dict[str, Setting]:
    """Settings that have a flag, methods' own included."""
    own = (own_settings(name) for name in METHODS.own)
    found = dict(known_settings()) | {key: value for each in own for key, value in each.items()}
    return {key: value for key, value in found.items() if value.base is not Mapping}


def default(own: Setting) -> str:
    """Default of a setting on the command line, in brackets; nothing where it is not set, or ``auto``."""
    value = DEFAULTS.get(own.name, own.default)
    if value is None or value is False or value == "auto":
        return ""
    return f" ({value:g})" if isinstance(value, float) else f" ({value})"


def meaning(own: Setting) -> str:
    """What its help says, whose it is, and the range of a number that is narrow."""
    owners = [name for name, _ in owners_of(own.name) if name in METHODS.own]  # another test may have loaded more
    names = [name for name in owners if own.name not in METHODS[name].lacks]
    named = not names or len(names) > FEW or any(name in own.help for name in names)
    whose = "" if named else f"of {', '.join(f'`{name}`' for name in names)}: "
    meta = own.meta
    most = meta.le if meta.lt is None else meta.lt
    low = f"({meta.gt}" if meta.ge is None else f"[{meta.ge}"
    bounded = most is not None and most <= LARGE
    return f"{whose}{own.help}" + (f"; in {low},{most}{')' if meta.le is None else ']'}" if bounded else "")


def option(own: Setting) -> str:
    """Line of a setting."""
    flag = SettingOption(own)
    names = "`, `".join([*flag.opts, *flag.secondary_opts])
    metavar = f" {flag.metavar}" if flag.metavar and own.base is not bool else ""
    return f"- `{names}{metavar}`{default(own)}: {meaning(own)}"


def table(name: str) -> str:
    """Lines of the settings that stand in one table of a configuration file."""
    return "\n".join(option(own) for own in settings().values() if own.table == name)


def command(words: str) -> click.Command:
    found: click.Command = command_line
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, words
        found = inner
    return found


class Flag(NamedTuple):
    """A command's own flag on the page."""

    name: str
    required: bool
    value: str
    line: str
    range: str

    @property
    def usage(self) -> str:
        return f"{self.name} {self.value}" if self.required else f"[{self.name}]"


@cache
def flags(words: str) -> list[Flag]:
    """A command's own flags, as its help page says them."""
    found = command(words)
    context = click.Context(found, info_name=words)
    options: list[Any] = [one for one in found.params if isinstance(one, click.Option) and not one.hidden]
    if isinstance(found, SettingsCommand):
        common = known_settings()
        options += [SettingOption(common[name], **changes) for name, changes in found._changes.items()]
        options += [one for one in [found._schema()] if not one.hidden]
    told = []
    for one in options:
        names, help = one.get_help_record(context)
        meaning, mark, range = help.strip().partition("  [")
        line = f"- `{names.replace(', ', '`, `')}`: {meaning}"
        told.append(Flag(max(reversed(one.opts), key=len), one.required, str(one.metavar), line, mark + range))
    return told


@cache
def shared() -> dict[str, str]:
    """Lines by flag: of `run`, then those that most other commands have, if they are several."""
    of_run = {own.flag: option(own).partition("; in ")[0] for own in settings().values()}
    of_run |= {flag.name: flag.line for flag in flags("run")}
    count = Counter((flag.name, flag.line) for words in leaves(command_line) for flag in flags(words))
    return {name: line for (name, line), often in reversed(count.most_common()) if often > 1} | of_run


def lines(words: str) -> str:
    """A command's usage, with the flags that it shares, and the lines of the others."""
    found, common = command(words), {} if words == "run" else shared()
    pieces = [piece for piece in found.collect_usage_pieces(click.Context(found)) if piece.strip("[]") != "OPTIONS"]
    also = [flag.usage for flag in flags(words) if common.get(flag.name) == flag.line]
    own = [flag.line + flag.range for flag in flags(words) if common.get(flag.name) != flag.line]
    return "\n".join([f"`{' '.join(filter(None, ['admmnet', words, *pieces, *also]))}`", "", *own]).rstrip()


def common() -> str:
    """Lines of flags that several commands have and `run` has not."""
    of_run = {own.flag for own in settings().values()} | {flag.name for flag in flags("run")}
    return "\n".join(line for name, line in sorted(shared().items()) if name not in of_run)


def made(kind: str, name: str) -> str:
    if name == "several-commands":
        return common()
    return table(name) if kind == "settings" else lines(name.replace("-", " "))


def renewed(page: str) -> str:
    return PLACE.sub(lambda at: f"<!--{at[1]}:{at[2]}-->\n\n{made(at[1], at[2])}\n\n<!--end-->", page)


def leaves(found: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(found, click.Group):
        yield " ".join(words)
        return
    for name in found.list_commands(click.Context(found)):
        yield from leaves(command(" ".join([*words, name])), (*words, name))


def test_every_table_and_command_has_its_place() -> None:
    places = [match.groups() for match in PLACE.finditer(text(PAGE))]
    assert sorted(places) == sorted(
        [("settings", name) for name in TABLES]
        + [("flags", words.replace(" ", "-")) for words in ["several commands", *leaves(command_line)]]
    )


def test_flags_and_settings_are_those_of_the_program() -> None:
    assert renewed(text(PAGE)) == text(PAGE), "python -m tests.docs.test_command_tables writes them"


if __name__ == "__main__":
    PAGE.write_text(renewed(text(PAGE)), encoding="utf-8")
