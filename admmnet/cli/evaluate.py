"""admmnet evaluate, admmnet predict: a saved model on new rows."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from admmnet.cli.facts import show
from admmnet.cli.flags import RUN, json_flag, lines, notes, out_flag, written
from admmnet.cli.settings import setting_flags
from admmnet.errors import RequestError

if TYPE_CHECKING:
    from admmnet.predict.apply import Predictions


def _new_data(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the run folder and the flags that name rows."""
    data = click.option("--data", required=True, metavar="NAME|PATH", help="data set name, or one file")
    return RUN(data(setting_flags("data_dir", "label", "separator")(function)))


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
    if not as_json:
        lines(mode_line(run))
    show(facts, *_said(facts), as_json=as_json)


def _said(facts: dict[str, Any]) -> Iterator[str]:
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
