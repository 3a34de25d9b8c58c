"""admmnet model show | export: the coefficients of a saved model, and files of it for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from admmnet.cli.evaluate import mode_line
from admmnet.cli.facts import show as show_facts
from admmnet.cli.flags import RUN, json_flag, lines, out_flag
from admmnet.record.format import count, number

_AGENT = click.option("--agent", type=int, metavar="I", help="this agent's vector, not the consensus")
TOP = 20


@click.group(no_args_is_help=False)
def model() -> None:
    """Coefficients of a saved model beside the noise in them; files of it for other programs (docs/results.md)."""


@model.command()
@RUN
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help=f"the N largest coefficients (default: {TOP}; of JSON all)"
)
@_AGENT
@json_flag
def show(run: Path, top: int | None, agent: int | None, as_json: bool) -> None:
    """Print the largest coefficients of a run's model, and how much of each may be noise; reads no record."""
    from admmnet.predict.model import read_model
    from admmnet.predict.noise import coefficients

    facts = coefficients(read_model(run), agent)
    if not as_json:
        lines(mode_line(run))
    few = facts["coefficients"][: top if as_json else top or TOP]
    if not as_json and facts["noise"]["equation"] is None:  # nothing was told from noise
        few = [{name: value for name, value in row.items() if name != "beyond"} for row in few]
        facts = facts | {"beyond": None, "beyond_of_noise": None}
    title = f"{len(few)} of {len(facts['coefficients'])} coefficients"
    show_facts(facts | {"coefficients": few}, *_said(facts), as_json=as_json, title=title)


def _said(facts: dict[str, Any]) -> Iterator[str]:
    """What the figures mean, and how much of them may be noise."""
    if facts["beyond"] is not None and facts["noise"]["equation"] is not None:
        yield "deviation: standard deviation of the privacy noise in a coefficient (docs/methods.md)"
        yield _beyond_words(facts, len(facts["coefficients"]))
    yield _unit_words(facts)


def _beyond_words(facts: dict[str, Any], all_: int) -> str:
    beyond, chance = facts["beyond"], facts["beyond_of_noise"]
    told = "none" if not beyond else "few" if beyond <= 2.0 * chance else ""
    return (
        f"{beyond} of {count(all_)} coefficients lie beyond 2 standard deviations; of as many numbers of pure noise "
        f"about {number(chance)} would{f': {told} of them can be told from noise' if told else ''}"
    )


def _unit_words(facts: dict[str, Any]) -> str:
    row = "as it is" if facts["rows"] == "as they are" else "that is scaled to norm 1"
    head = f"change of the score per unit of a feature in a row {row}"
    if facts["whitened"]:
        head += ", times a positive factor of the row, as its features were made even"
    labels, target = facts["labels"], facts["target"]
    if facts["task"] == "classes":
        return f"{head}; the class of the largest score is predicted"
    if facts["task"] == "real":
        own = f"score times {number(target['reach'])} plus {number(target['centre'])}" if target else "the score"
        return f"{head}; the prediction is {own}"
    return f"{head}; {labels[1]!r} is predicted where the score is positive, else {labels[0]!r}"


@model.command()
@RUN
@out_flag("FILE", "file: .json or .npz")
@_AGENT
def export(run: Path, out: Path, agent: int | None) -> None:
    """Write all that is needed to predict without admmnet: coefficients, features, encoding, labels."""
    from admmnet.predict.export import export_model
    from admmnet.predict.model import read_model

    export_model(read_model(run), out, agent)
    print(f"model: {out}")
