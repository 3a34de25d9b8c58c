"""Flags of settings: those of the sections, and the chosen methods' own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import HOW_READ, PATH, asked, notes, told_as_json
from admmnet.config.run_config import AUTO, RunConfig, known_settings, own_settings, owners_of
from admmnet.config.toml import algorithm_in, load_config, read_schema, saved_algorithm
from admmnet.errors import IN_PART, RequestError
from admmnet.methods import METHODS
from admmnet.methods.settings import DEFAULT
from admmnet.settings import FLAGGED, TABLES, Section, Setting, settings_in

if TYPE_CHECKING:
    from admmnet.library import RunResult

DEFAULTS = {"measure_every": "auto"}
"""Of commands; in Python every round is measured, because a caller may stop a run by its figures."""


class SettingOption(click.Option):
    """Flag of a setting."""

    def __init__(self, own: Setting, *_: Any, **changes: Any) -> None:
        self.own = own
        about = own.about
        word = "|".join(about.choices) or about.metavar or ("N" if own.base is int else "X")
        metavar = f"{word}|auto" if own.auto else word
        # a wrong text is refused in the setting's words, not wrapped in those of click, as a type's would be
        words: dict[str, Any] = {"metavar": metavar, "callback": lambda ctx, param, text: text and own.parse(text)}
        flag = own.flag
        if own.base is bool:
            words = {"is_flag": True, "default": None}
            if own.auto:  # without either word it is by the method
                flag = f"{flag}/--no-{flag.removeprefix('--')}"
        names = [flag, about.short] if about.short else [flag]
        super().__init__([*names, own.name], shell_complete=self._complete, **words | changes)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Flag and help, for which the source of the settings is read."""
        self.help = self.help or self.own.help
        return super().get_help_record(ctx)

    def _complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        names = METHODS if self.own.name == "algorithm" else self.own.about.choices
        return [name for name in names if name.startswith(incomplete)]


def setting_flags(
    *names: str, section: type[Section] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the flags of some settings of a run, for a command that has these alone, or of a section of its own."""
    known = known_settings() if section is None else settings_in(section)

    def given(function: Callable[..., None]) -> Callable[..., None]:
        for name in reversed(names):
            option: Any = partial(SettingOption, known[name])
            function = click.option(cls=option)(function)
        return function

    return given


def words_after(args: list[str], flag: str) -> Iterator[str]:
    """Values of a flag among words that are not parsed yet."""
    for place, word in enumerate(args):
        if word == flag:
            yield from args[place + 1 : place + 2]
        elif word.startswith(f"{flag}="):
            yield word.partition("=")[2]


def _named(args: list[str]) -> Iterator[str]:
    """Methods that the words name: with --algorithm, or in a configuration file or run folder."""
    for word in args:
        if word.endswith(".toml"):
            yield from filter(None, [algorithm_in(Path(word))])
    folders = list(words_after(args, "--resume"))
    for folder in folders if AUTO not in folders else [*words_after(args, "--out"), *words_after(args, "-o")]:
        yield from filter(None, [saved_algorithm(Path(folder))])
    yield from words_after(args, "--algorithm")


class SettingsCommand(click.Command):
    """A command that has a flag for every setting, and those of the methods that its words name.

    Settings that it fills in itself or cannot have are ``hidden``: read, to be refused with the reason. ``changes`` are
    what a setting's flag has other than what the setting says. ``named`` finds those of its ``methods`` that its words
    name, and ``more`` shows their settings.
    """

    def __init__(
        self,
        *args: Any,
        hidden: Collection[str] = (),
        changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        methods: Callable[[], Iterable[str]] = lambda: METHODS,
        named: Callable[[list[str]], Iterable[str]] = _named,
        more: str = "run --algorithm NAME",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._hidden, self._changes, self._methods, self._named, self._more = hidden, changes, methods, named, more
        self._schema = click.Option(["--schema"], type=PATH, metavar="FILE", help=HOW_READ, hidden="schema" in hidden)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words after the methods that they name."""
        named = list(self._named(args))
        if not named and {"-h", "--help"}.isdisjoint(args):
            named = [DEFAULT]
        ctx.meta["algorithms"], settings = list(dict.fromkeys(named)), dict(known_settings())
        for algorithm in ctx.meta["algorithms"]:
            settings = own_settings(algorithm) | settings
        ctx.meta["settings"] = [
            SettingOption(own, hidden=name in self._hidden, **self._changes.get(name, {}))
            for name, own in settings.items()
            if own.base in FLAGGED
        ]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._unknown(ctx, error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command with the settings of its schema file besides; flags override these."""
        file = ctx.params.pop("schema", None)
        for name, value in ({} if file is None else read_schema(file)).items():
            if ctx.params.get(name) is None:
                ctx.params[name] = value
        return super().invoke(ctx)

    def _unknown(self, ctx: click.Context, error: click.NoSuchOption) -> Exception:
        """Say which methods have a setting that those named do not have; else click says what may be meant."""
        if error.option_name == "--config" and any(one.name == "config" for one in self.params):
            return RequestError(f"--config is no flag: give the file alone, {ctx.command_path} FILE.toml")
        owners = owners_of(error.option_name.removeprefix("--").replace("-", "_"))
        if not owners:
            return error
        named = " and ".join(ctx.meta["algorithms"])
        return RequestError(f"{error.option_name} does not go with {named}, but with {', '.join(owners)}")

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own flags, and those of all settings."""
        return [*super().get_params(ctx), self._schema, *ctx.meta.get("settings", ())]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what is used every day first, then a panel a section, then the chosen methods' own."""
        shown = [option for option in ctx.meta["settings"] if not option.hidden]
        common = known_settings()
        everyday = [option for option in shown if option.own.about.everyday]
        first = sorted(everyday, key=lambda option: option.own.about.everyday)
        others = [param for param in super().get_params(ctx) if isinstance(param, click.Option)]
        _panel(formatter, "Everyday", [*first, *others])
        for table in TABLES:
            rest = [o for o in shown if o.name in common and o.own.table == table and o not in first]
            title = "Method" if table == "algorithm" else table.capitalize()
            _panel(formatter, title, [*rest, self._schema] if table == "data" else rest)
        named = ctx.meta.get("algorithms")
        if named:
            own = [option for option in shown if option.name not in common]
            _panel(formatter, f"Settings of {' and '.join(named)}", own)
        else:
            formatter.write_paragraph()
            where = f"A method's own settings: admmnet {self._more} --help."
            formatter.write_text(f"{where} The methods: {', '.join(self._methods())}.")


def _panel(formatter: click.HelpFormatter, title: str, options: Iterable[click.Option]) -> None:
    context = click.get_current_context()
    rows = [record for option in options if (record := option.get_help_record(context))]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def tell(result: RunResult, told: Collection[str]) -> None:
    """Print a finished run, less the notes that were told before it."""
    if told_as_json(result.summary):
        return
    from admmnet.report.columns import console
    from admmnet.report.tables import print_closing

    print_closing(console(), result.summary, result.folder, explain=bool(asked("explain")))
    notes(*(text for text in result.summary["notes"] if text not in told))


def leave(summary: Any) -> None:
    """Exit with a code of its own where a run has finished without some agent, as its summary says."""
    from msgspec import convert

    from admmnet.record.forms import Summary, absent

    if absent(convert(summary, Summary)):
        raise click.exceptions.Exit(IN_PART)


def given_in(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were given."""
    return {name: value for name, value in flags.items() if value is not None}


def settings_of(config: str | None, flags: Mapping[str, Any]) -> RunConfig:
    """Return the settings of a command line."""
    if flags.get("resume") in (None, AUTO):
        return load_config(config, flags, DEFAULTS)
    from admmnet.running.arguments import resumed_config

    refuse_beside_resume(config)
    return resumed_config(flags["resume"], flags)


def refuse_beside_resume(config: str | None) -> None:
    """Refuse a file of settings for a run that goes on."""
    if config is not None:
        raise RequestError(f"{config} and --resume exclude each other: the run goes on with its own config.toml")
