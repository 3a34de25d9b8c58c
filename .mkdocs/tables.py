"""Lists that the site has and docs/ has not: flags, settings, keys of files, members, tables of the benchmark.

A place is a line such as `<!-- flags: ledger verify -->`; the build puts the program's own words there.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from admmnet.cli import command_line
from admmnet.cli.settings import DEFAULTS, SettingOption, SettingsCommand
from admmnet.config.run_config import known_settings, own_settings, owners_of
from admmnet.holder import measurements
from admmnet.holder.encoding import Number, Plain, Words
from admmnet.methods import METHODS
from admmnet.methods.agents import Agents
from admmnet.privacy.contract import Filter
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.form import Line, RunLine, Total
from admmnet.record.encoding import Measured
from admmnet.record.forms import TABLES as SUMMARY
from admmnet.settings import TABLES, Setting

DOCS = Path(__file__).parents[1] / "docs"
PLACE = re.compile(r"^<!-- (settings|flags|keys|made): ([\w -]+) -->$", re.MULTILINE)
FORMS: dict[str, type] = {
    kind.__name__: kind
    for kind in (*get_args(Line), Filter, Total, *SUMMARY, Measured, Number, Plain, Words)
    if kind is not RunLine  # keys of a header
}
ASKED_ELSEWHERE = {"ColumnCounts", "SecondMoments", "PublishedComparison"}
"""Measurements of the time before the first round, or of a paper's gate."""
FEW = 3
"""Owners of a setting that are named; of more the help of each method tells."""


def settings() -> dict[str, Setting]:
    """Settings that have a flag, methods' own included."""
    own = (own_settings(name) for name in METHODS.own)
    found = dict(known_settings()) | {key: value for each in own for key, value in each.items()}
    return {key: value for key, value in found.items() if value.base is not Mapping}


def setting(own: Setting) -> str:
    """Line of a setting: flag, default, owners, help, range."""
    flag, value = SettingOption(own), DEFAULTS.get(own.name, own.default)
    default = "" if value in (None, False, "auto") else f" ({value:g})" if type(value) is float else f" ({value})"
    owners = [name for name in owners_of(own.name) if name in METHODS.own]
    whose = ", ".join(f"`{name}`" for name in owners)
    named = not owners or len(owners) > FEW or any(name in own.help for name in owners)
    low = f"[{own.meta.ge}" if own.meta.gt is None else f"({own.meta.gt}"
    most = f"{own.meta.le}]" if own.meta.lt is None else f"{own.meta.lt})"
    range = "" if own.meta.le is own.meta.lt is None else f"; in {low},{most}"
    names = "`, `".join([*flag.opts, *flag.secondary_opts])
    metavar = f" {flag.metavar}" if flag.metavar and own.base is not bool else ""
    return f"- `{names}{metavar}`{default}: {'' if named else f'of {whose}: '}{own.help}{range}"


def table(name: str) -> str:
    """Lines of the settings that stand in one table of a configuration file."""
    return "\n".join(setting(own) for own in settings().values() if own.table == name)


def command(words: str) -> click.Command:
    """Find a command by its words."""
    found: click.Command = command_line
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, words
        found = inner
    return found


def commands(found: click.Command = command_line, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Words of every command that has flags."""
    if not isinstance(found, click.Group):
        yield " ".join(words)
        return
    for name in found.list_commands(click.Context(found)):
        yield from commands(command(" ".join([*words, name])), (*words, name))


def flags(words: str) -> str:
    """A command's usage and its flags, without those that it shares with `run` as settings."""
    found = command(words)
    context = click.Context(found, info_name=words)
    options: list[Any] = [one for one in found.params if isinstance(one, click.Option) and not one.hidden]
    if isinstance(found, SettingsCommand):
        common = known_settings()
        options += [SettingOption(common[name], **changes) for name, changes in found._changes.items()]
        options += [one for one in [found._schema] if not one.hidden]
    pieces = [piece for piece in found.collect_usage_pieces(context) if piece.strip("[]") != "OPTIONS"]
    lines = [f"`{' '.join(filter(None, ['admmnet', words, *pieces]))}`", ""]
    for one in options:
        names, help = one.get_help_record(context)
        lines.append(f"- `{names.replace(', ', '`, `')}`: {help.strip()}")
    return "\n".join(lines)


def keys(kind: type) -> dict[str, str]:
    """Keys of a form, those that one description has joined by commas, from the texts behind its fields."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("admmnet.")]):
        names: list[str] = []
        for node in ast.walk(ast.parse(inspect.getsource(base))):
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                names.append(ast.unparse(node.target))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and names:
                found[", ".join(names)] = " ".join(str(node.value.value).split()).replace("``", "`")
                names = []
    return found


def form(kind: type) -> str:
    """List the keys of a form, with the values of those that have few."""
    properties, rows = msgspec.json.schema_components([kind])[1][kind.__name__]["properties"], []
    for names, told in keys(kind).items():
        values = [f"`{value}`" for value in properties.get(names.partition(",")[0], {}).get("enum", ())]
        choice = len(values) > 1 and not any(value in told for value in values)
        spans = ", ".join(f"`{name}`" for name in names.split(", "))
        rows.append(f"- {spans}: {told}" + (f": {' or '.join(values)}" if choice else ""))
    return "\n".join(rows)


def mechanisms() -> str:
    """List the mechanisms of a ledger with their parameters."""
    rows = []
    for name, kind in EVENTS.items():
        told = ", ".join(f"`{one}`" for names in keys(kind) for one in names.split(", "))
        released = " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"- `{name}`: {released.replace('docs/', '')}" + (f" Parameters: {told}" if told else ""))
    return "\n".join(rows)


def attributes() -> str:
    """List attributes and properties of `Agents`, with their words."""
    told, words = {}, inspect.cleandoc(Agents.__doc__ or "").partition("----------\n")[2]
    for name, kind, text in re.findall(r"^(\w+) : (.*)((?:\n    .+)*)", words, re.MULTILINE):
        told[name] = ". ".join(filter(None, [kind, " ".join(text.split())]))
    told |= {name: inspect.getdoc(one) for name, one in vars(Agents).items() if isinstance(one, property)}
    return "\n".join(f"- `{name}`: {words}" for name, words in told.items())


def asked() -> str:
    """List how measurements are made; fields with a default are left out."""
    rows = []
    for kind in (getattr(measurements, name) for name in measurements.__all__ if name not in ASKED_ELSEWHERE):
        words = [field.name for field in fields(kind) if field.default is MISSING]
        more = ["..."] * any(field.default is not MISSING for field in fields(kind))
        rows.append(f"- `{kind.__name__}({', '.join(words + more)})`: {inspect.cleandoc(kind.__doc__).splitlines()[0]}")
    return "\n".join(rows)


def benchmark() -> str:
    """Tables of docs/benchmark.json: a line a method, from the lowest error at epsilon 1 on."""
    places = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))
    return "\n".join(line for name, found in places.items() for line in place(name, found))


def place(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Facts, references and table of one place."""
    (facts,) = found["data"]
    real = facts["task"] == "real"
    by = {(one["name"], one["epsilon"]): one for one in found["lines"] if one["epsilon"] is not None}
    epsilons = sorted({epsilon for _, epsilon in by})

    def error(value: float) -> str:
        return f"{value:.4f}" if real else f"{100 * value:.2f}"

    known = [] if facts["pooled"] is None else [f"pooled {error(facts['pooled'])}"]
    plain = (one for one in found["lines"] if one["epsilon"] is None)
    known += [f"`{one['name']}` {error(one['error'])} by {one['releases']:g} messages" for one in plain]
    yield f"### {name}\n"
    yield f"{facts['train']:,} training and {facts['test']:,} test records, {facts['features']} features. "
    yield f"{'Mean squared error' if real else 'Error in %'}: always the {'mean' if real else 'larger class'} "
    yield f"{error(facts['larger_class'])}" + (f"; without privacy {', '.join(known)}" if known else "") + ".\n"
    yield "| ".join(["| method", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "messages", "MB |"])
    yield "|---" * (3 + len(epsilons)) + "|"
    for one in sorted((one for (_, epsilon), one in by.items() if epsilon == 1), key=lambda one: float(one["error"])):
        whole = [by.get((one["name"], epsilon)) for epsilon in epsilons]
        errors = ["-" if own is None else f"{error(own['error'])} ({error(own['spread'])})" for own in whole]
        sent = [f"{one['releases']:g}", f"{one['bytes_sent'] / 1e6:.3g}"] if one["bytes_sent"] else ["-", "-"]
        mark = "" if one["adjacency"] == "replace-one" else " *"
        yield " | ".join([f"| `{one['name']}`{mark}", *errors, *sent]) + " |"
    yield from (f"\nRefused: {one['reason']}." for one in found["refused"])
    yield ""


API = {
    "Running": "library.run config.run_config.RunConfig config.toml.load_config library.RunResult "
    "running.events.RoundEvent",
    "Reading": "library.read_run library.RunFolder privacy.ledger.audit.VerifiedLedger privacy.budget.Totals",
    "Errors": "errors.",
    "Graphs": "graph.load_topology graph.describe graph.GraphFacts graph.files.write_topology",
    "A saved model on new rows": "predict.model.read_model predict.model.Model predict.apply.NewData "
    "predict.apply.evaluate predict.apply.predict predict.apply.Predictions",
    "Comparing and drawing": "experiments.grid.Comparison experiments.driver.compare report.run_plot.plot_run",
    "Estimators": "estimators.network. estimators.single_site.",
    "Noise and its cost": "privacy.calibrate.Target privacy.calibrate.calibrate privacy.calibrate.Draft "
    "privacy.contract.Contract privacy.events.",
    "Methods": "methods.base.Method methods.base.Facts methods.agents.AgentPlan methods.agents.Agents "
    "methods.agents.Asks methods.agents.Told methods.agents.Said methods.base.filled holder.measurements. "
    "holder.answers.Measurement holder.door.Door privacy.ledger.file.Ledger",
    "Audits": "auditing.audit.draw auditing.audit.judge auditing.audit.Audit auditing.audit.Trial",
    "Records and transports": "data.load transport.World transport.Transport transport.layout",
}
"""Sections of the reference: names, and modules whose public members are listed (they end in a dot)."""
OPTIONS = {
    "config.run_config.RunConfig": "show_signature: false\n"
    "      members: [baseline, budgeted, mode, public_data, seeded, simulation]",
    "estimators.single_site.": 'filters: ["!^_", "!^fit$"]',
    "estimators.network.": 'filters: ["!^_", "!^parameters$"]',
    "privacy.events.": f"members: [{', '.join(kind.__name__ for kind in EVENTS.values())}]",
}


def signatures() -> str:
    """Sections of `API`, as mkdocstrings takes them."""
    lines = []
    for title, names in API.items():
        lines.append(f"## {title}\n")
        for name in names.split():
            options = ["show_root_heading: false", "show_root_toc_entry: false"] * name.endswith(".")
            options += [OPTIONS[name]] if name in OPTIONS else []
            lines.append(f"::: admmnet.{name.rstrip('.')}")
            lines += ["    options:", *(f"      {option}" for option in options)] * bool(options)
            lines.append("")
    return "\n".join(lines)


PARTS = {
    "mechanisms": mechanisms,
    "attributes": attributes,
    "measurements": asked,
    "benchmark": benchmark,
    "signatures": signatures,
}


def places() -> list[tuple[str, str]]:
    """All places that the pages must have, each once."""
    return sorted(
        [("settings", name) for name in TABLES]
        + [("flags", words) for words in commands()]
        + [("keys", name) for name in FORMS]
        + [("made", name) for name in PARTS]
    )


def made(kind: str, name: str) -> str:
    """Text of a place."""
    if kind == "settings":
        return table(name)
    if kind == "flags":
        return flags(name)
    return form(FORMS[name]) if kind == "keys" else PARTS[name]()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the places of a page: a hook of mkdocs."""
    return PLACE.sub(lambda at: made(at[1], at[2]), markdown)
