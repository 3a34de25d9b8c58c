"""admmnet evaluate, admmnet predict: a saved model on new rows."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from admmnet.cli.flags import (
    HOW_READ,
    PATH,
    RUN,
    data_dir_flag,
    json_flag,
    label_flag,
    lines,
    notes,
    out_flag,
    separator_flag,
    written,
)
from admmnet.errors import RequestError
from admmnet.record.format import count, number, percent

if TYPE_CHECKING:
    from admmnet.predict.apply import Predictions


def _new_data(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the run folder and the flags that name rows."""
    flags = [
        RUN,
        click.option("--data", required=True, metavar="NAME|PATH", help="data set name, or one file"),
        data_dir_flag,
        label_flag,
        separator_flag,
        click.option("--config", "--schema", "config", type=PATH, metavar="FILE", help=HOW_READ),
    ]

    for flag in reversed(flags):
        function = flag(function)
    return function


def mode_line(folder: Path) -> str:
    """First line of the verdict on a run, by its summary alone."""
    from admmnet.forms import read_form
    from admmnet.record.folder import SUMMARY
    from admmnet.record.forms import Summary
    from admmnet.record.verdict import verdict_on

    path = folder / SUMMARY
    if not path.exists():
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
def evaluate(run: Path, as_json: bool, part: Any, public: bool, **flags: Any) -> None:
    """Print the errors of a run's model on labelled rows, encoded as the run's own were."""
    from admmnet.predict.apply import NewData, read_model
    from admmnet.predict.apply import evaluate as evaluate_model

    facts = evaluate_model(read_model(run), NewData(**flags), part=part, public=public)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    lines(mode_line(run))
    _print_facts(facts)


def _print_facts(facts: dict[str, Any]) -> None:
    data, error, confused = facts["data"], facts["error"], facts["confusion"]
    if confused is None:
        print(f"{facts['run']} on {data['name']}: {count(data['rows'])} rows with real targets")
        print(f"  mean squared error  {number(error['consensus'])} of targets scaled to [-1, 1]")
        print(f"                      {number(facts['variance'])} of always giving these rows' mean")
        print(f"  root (RMSE)         {number(error['rmse'])}, {number(error['root_in_units'])} in the target's unit")
        print(f"  R^2                 {number(error['r2'])}: 0 for always predicting these rows' mean")
        if error["consensus"] >= facts["variance"]:
            print("                      the model is no better than that mean")
        return
    part = "" if data["part"] == "all" else f" ({data['part']} part)"
    majority = percent(facts["majority_error"])
    print(f"{facts['run']} on {data['name']}{part}: {count(data['rows'])} rows")
    if error["std"]:
        print(f"  error           {percent(error['consensus'])} of the consensus of the agents' vectors")
        print(f"                  {percent(error['mean'])} +- {percent(error['std'])} over agents")
    else:
        print(f"  error           {percent(error['consensus'])} of the final model, the same at all agents")
    if "macro" in error:
        print(f"  macro error     {percent(error['macro'])} of the consensus: the mean over the classes")
    print(f"  majority class  {majority}: the error of always giving the more frequent label")
    if error["consensus"] >= facts["majority_error"]:
        print("                  the consensus is no better than that")
    if facts["one_class"] is not None:
        print(f"  one class only: this model says {facts['one_class']!r} for every one of these rows")
    if facts["log_loss"] is not None:
        print(f"  log loss        {number(facts['log_loss'])} nats, of the consensus")
    if "classes" in facts:
        for name, row in zip(facts["classes"], confused, strict=True):
            given = ", ".join(f"{count(n)} {other!r}" for n, other in zip(row, facts["classes"], strict=True) if n)
            print(f"  label {name!r}: predicted {given or 'nowhere, there is none'}")
        return
    for name, values in (("positive", ("true_positive", "false_negative")),
                         ("negative", ("false_positive", "true_negative"))):  # fmt: skip
        ahead, behind = (count(confused[value]) for value in values)
        print(f"  label {data[name]!r}: {ahead} predicted {data['positive']!r}, {behind} {data['negative']!r}")


@click.command()
@_new_data
@click.option("--agent", type=int, metavar="I", help="this agent's vector, not the consensus")
@out_flag("FILE", "file (default: standard output)", required=False)
def predict(run: Path, agent: int | None, out: Path | None, **flags: Any) -> None:
    """Write one line a row: row, score, probability, prediction. Labels are not needed."""
    from admmnet.predict.apply import NewData, read_model
    from admmnet.predict.apply import predict as predict_rows

    if out is not None and out.exists() and Path(flags["data"]).exists() and out.samefile(flags["data"]):
        raise RequestError(f"-o {out} is the file of --data: name another one")
    model = read_model(run)
    found = predict_rows(model, NewData(**flags), agent=agent)
    if out is None:
        _write(sys.stdout, found)
    else:
        with written(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            _write(file, found)
    lines(mode_line(run), err=True)
    if model.task != "real" and not found.probable:
        notes(f"no probabilities: the scores of loss = {model.config.loss!r} are no log-odds: take loss = 'logistic'")
    if model.task != "real" and len(found.prediction) > 1 and len(set(found.prediction)) == 1:
        notes(f"one class only: this model says {found.prediction[0]!r} for every row")


def _write(file: TextIO, found: Predictions) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", "score", "probability", "prediction", *(f"probability={name}" for name in found.classes)])
    chances = [
        ["" if value != value else value for value in column.tolist()]  # nan: none
        for column in (found.probability, *found.probabilities.T)
    ]
    columns = (found.row.tolist(), found.score.tolist(), chances[0], found.prediction, *chances[1:])
    writer.writerows(zip(*columns, strict=True))
