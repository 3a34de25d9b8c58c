"""admmnet evaluate | predict: a saved model on new rows; admmnet model show | export: its coefficients, and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from admmnet.cli import flags
from admmnet.cli.flags import RUN, asked, json_flag, lines, notes, out_flag, put, talks
from admmnet.cli.settings import setting_flags
from admmnet.errors import RequestError
from admmnet.record.format import count, number


def _new_data(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the run folder and the flags that name rows."""
    data = click.option("--data", required=True, metavar="NAME|PATH", help="data set name, or one file")
    return RUN(data(setting_flags("data_dir", "label", "separator")(function)))


def _mode_line(folder: Path) -> str:
    """First line of the verdict on a run, by its summary alone."""
    from admmnet.forms import read_form
    from admmnet.record.folder import SUMMARY
    from admmnet.record.forms import Summary
    from admmnet.record.verdict import verdict_on

    path = folder / SUMMARY
    if not (talks() and path.exists()):  # figures without words need none
        return "mode:       not known: there is no summary.json"
    return verdict_on(read_form(Summary, path), str(folder)).lines()[0]


@click.command()
@_new_data
@click.option(
    "--part",
    type=click.Choice(["test", "train", "all"]),
    help="rows of the run's own data (default: test of a built-in set, all of a file)",
)
@click.option("--public", is_flag=True, help="the run's training records are public")
@json_flag
def evaluate(run: Path, part: Any, public: bool, **rows: Any) -> None:
    """Print the errors of a run's model on labelled rows, encoded as the run's own were."""
    from admmnet.predict.apply import NewData, read_model
    from admmnet.predict.apply import evaluate as evaluate_model

    facts = evaluate_model(read_model(run), NewData(**rows), part=part, public=public)
    flags.show(facts, *_errors_said(facts), title=_mode_line(run))


def _errors_said(facts: dict[str, Any]) -> Iterator[str]:
    """What figures on labelled rows mean."""
    majority = facts["majority_error"]
    if majority is None:
        yield "mean squared errors are of targets scaled to [-1, 1], the root in units is in the target's unit"
    else:
        yield "majority error: that of always giving the more frequent label"
    if facts["error"]["std"]:
        yield "consensus: the mean of the agents' vectors; mean and std: of these vectors' errors, over agents"
    else:
        yield "consensus: the final model, the same at all agents"
    if "classes" in facts:
        yield "confusion: of the rows of each class, so many are predicted as each one"
    guess = "always giving " + ("these rows' mean" if majority is None else "the more frequent label")
    if facts["error"]["consensus"] >= (facts["variance"] if majority is None else majority):
        yield f"the consensus is no better than {guess}"
    if facts["one_class"] is not None:
        yield f"one class only: this model says {facts['one_class']!r} for every one of these rows"


_AGENT = click.option("--agent", type=int, metavar="I", help="this agent's vector, not the consensus")


@click.command()
@_new_data
@_AGENT
@out_flag("FILE", "file (default: standard output)", required=False)
def predict(run: Path, agent: int | None, out: Path | None, **rows: Any) -> None:
    """Write one line a row: row, score, probability, prediction. Labels are not needed."""
    from admmnet.files import csv_text
    from admmnet.predict.apply import NewData, read_model
    from admmnet.predict.apply import predict as predict_rows

    if out is not None and out.exists() and Path(rows["data"]).exists() and out.samefile(rows["data"]):
        raise RequestError(f"-o {out} is the file of --data: name another one")
    model = read_model(run)
    found = predict_rows(model, NewData(**rows), agent=agent)
    chances = [
        ["" if value != value else value for value in column.tolist()]  # nan: none
        for column in (found.probability, *found.probabilities.T)
    ]
    columns = (found.row.tolist(), found.score.tolist(), chances[0], found.prediction, *chances[1:])
    names = ["row", "score", "probability", "prediction", *(f"probability={name}" for name in found.classes)]
    put(csv_text(names, zip(*columns, strict=True)), out)
    lines(_mode_line(run), err=True)
    if model.task != "real" and not found.probable:
        notes(f"no probabilities: the scores of loss = {model.config.loss!r} are no log-odds: take loss = 'logistic'")
    if model.task != "real" and len(found.prediction) > 1 and len(set(found.prediction)) == 1:
        notes(f"one class only: this model says {found.prediction[0]!r} for every row")


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
def show(run: Path, top: int | None, agent: int | None) -> None:
    """Print the largest coefficients of a run's model, and how much of each may be noise; reads no record."""
    from admmnet.predict.model import read_model
    from admmnet.predict.noise import coefficients

    facts = coefficients(read_model(run), agent)
    few = facts["coefficients"][: top if asked("json") else top or TOP]
    if talks() and facts["noise"]["equation"] is None:  # nothing was told from noise
        few = [{name: value for name, value in row.items() if name != "beyond"} for row in few]
        facts = facts | {"beyond": None, "beyond_of_noise": None}
    title = f"{_mode_line(run)}\n{len(few)} of {len(facts['coefficients'])} coefficients"
    flags.show(facts | {"coefficients": few}, *_said(facts), title=title)


def _said(facts: dict[str, Any]) -> Iterator[str]:
    """What the figures mean, and how much of them may be noise."""
    beyond, chance, every = facts["beyond"], facts["beyond_of_noise"], count(len(facts["coefficients"]))
    if beyond is not None and facts["noise"]["equation"] is not None:
        told = "none" if not beyond else "few" if beyond <= 2.0 * chance else ""
        yield "deviation: standard deviation of the privacy noise in a coefficient (docs/methods.md)"
        yield (
            f"{beyond} of {every} coefficients lie beyond 2 standard deviations; of as many numbers of pure noise "
            f"about {number(chance)} would{f': {told} of them can be told from noise' if told else ''}"
        )
    yield _unit_words(facts)


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
