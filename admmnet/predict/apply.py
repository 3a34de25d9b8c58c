"""A saved model on rows it has not seen: its errors on labelled ones, predictions for any (docs/data.md).

Everything here is post-processing of released vectors, with one exception that must be asked for: errors on
records that the run was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings, Records
from admmnet.data.figures import (
    confusion,
    constant_figure,
    figure,
    further_figures,
    log_probability,
    only_class,
    probabilities,
    scores,
    test_errors,
)
from admmnet.data.loading import Part, in_memory, load_new
from admmnet.data.records import in_words
from admmnet.data.sets import BUILT_IN
from admmnet.data.settings import AGENT, FIXED_KEYS, GIVEN, form_of, path_for
from admmnet.errors import RequestError
from admmnet.methods.tasks import LEARNS
from admmnet.predict.model import Model, read_model
from admmnet.types import Matrix, Vector

__all__ = ["Model", "NewData", "Predictions", "evaluate", "predict", "read_model", "rows_for"]
PROBABLE = ("logistic", "softmax")
"""Losses whose scores are log-odds; those of others say nothing of probabilities."""


@dataclass(frozen=True, kw_only=True)
class NewData:
    """The request for rows; what is not given is as in the run."""

    data: Any
    """Name of a built-in set, the path of one file, or rows in memory as the run's were: a data frame, X (n, d), or
    (X, y), with their labels or without."""
    data_dir: str | Path | None = None  # this and the others as in `DataSettings`
    label: str | None = None
    separator: str | None = None


def _check(model: Model, new: NewData) -> None:
    """Refuse what is no model, or no request for rows."""
    if not isinstance(model, Model):
        raise RequestError(f"model is a {type(model).__name__}: give a Model, such as read_model(FOLDER) returns")
    if not isinstance(new, NewData):
        raise RequestError(f"new is a {type(new).__name__}: give NewData(data=FILE)")


def rows_for(model: Model, new: NewData, *, part: Part = "all", labelled: bool = True) -> Records:
    """Load rows encoded exactly as the model's features.

    RequestError if settings contradict the model, features differ in name or order, or rows are wrong.
    """
    label = str(new.label or model.config.label or (model.table or {}).get("label") or "y")
    table = in_memory(new.data, label, labelled=labelled, finite=model.found.encoding is None)
    name = str(new.data) if table is None else "arrays" if table.numbers is not None else "frame"
    settings = _settings(model, new, name)
    if part == "test" and settings.no_test:
        raise RequestError(
            f"--part test: the run in {model.folder} had no test records: name a file of others with --data"
        )
    if part != "all" and name not in BUILT_IN:
        if _relation(model.config, name) != "pool":
            raise RequestError(
                f"--part {part} goes with the data of the run ({model.config.data}): the rows of {name} are"
                " taken whole, drop --part"
            )
        if settings.test is not None:
            raise RequestError(
                f"--part {part}: the run tested on {settings.test}, nothing was drawn from {name}: name one"
                " of them with --data, and drop --part"
            )
    rows = load_new(settings, model.feature_names, part=part, labelled=labelled, table=table)
    if rows.task != model.task:
        raise RequestError(
            f"the model in {model.folder} learned {LEARNS[model.task]}, and {rows.name} has"
            f" {in_words(rows.task, rows.labels)}: take rows of its own kind"
        )
    with threadpool_limits(limits=1):  # as in the run: more threads change the last bits
        return replace(rows, X_test=model.found.rows(rows.X_test))


def _settings(model: Model, new: NewData, name: str) -> DataSettings:
    run, own, built_in = model.config.sections.data, _relation(model.config, name) == "pool", name in BUILT_IN
    if AGENT in name:
        raise RequestError(f"--data {name}: name one file, without {AGENT}")
    csv, table = not built_in and form_of(name) == ".csv", dict(model.table or {})
    if built_in:
        table = {key: value for key, value in table.items() if key in FIXED_KEYS}
    if not own:
        run = run.changed(test=None, test_fraction=None, no_test=False)
    return run.changed(
        data=name,
        data_dir=run.data_dir if new.data_dir is None else str(new.data_dir),
        split="auto",
        task="auto",
        label=new.label or (run.label if csv else None),
        separator=new.separator or (run.separator if csv else None),
        positive=None if built_in else run.positive,
        features=None if csv or built_in else run.features,
        schema=table,
        encode="declared" if model.found.encoding is None else "private",
    )


def _relation(run: RunConfig, data: str) -> Literal["pool", "shard"] | None:
    """Whether data are the run's own: the pool its records were drawn from, or the file of one agent."""
    if data in GIVEN:
        return None
    if data in BUILT_IN or run.data in BUILT_IN:
        # mnist:3 and mnist:4 are the same records
        return "pool" if data.partition(":")[0] == run.data.partition(":")[0] else None
    if AGENT not in run.data:
        return "pool" if _same_file(Path(data), Path(run.data)) else None
    files = (path_for(run.data, agent) for agent in range(run.agents or 0))
    return "shard" if any(_same_file(Path(data), file) for file in files) else None


def _same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def evaluate(model: Model, new: NewData, *, part: Part | None = None, public: bool = False) -> dict[str, Any]:
    """Errors of a model on labelled rows: the content of the command's `--json`, see docs/data.md.

    ``part`` of the run's own data is by default "test" of a built-in set and "all" of a file; ``public`` says that the
    run's training records are public: needed for figures computed from them, unless the run was a simulation.

    Raises
    ------
    RequestError
        As `rows_for`, or if figures would be computed from private training records.
    """
    _check(model, new)
    named = isinstance(new.data, str) and new.data in BUILT_IN
    chosen: Part = part or ("test" if named else "all")
    if chosen != "test" and not model.config.simulation and not public:
        _refuse_training_records(model, new, chosen)
    rows = rows_for(model, new, part=chosen)
    y, task = rows.y_test, rows.task
    vectors = model.theta.reshape(len(model.theta), -1)
    with threadpool_limits(limits=1):
        score = scores(rows.X_test, model.consensus.ravel(), len(rows.labels))
        errors = test_errors(rows, vectors).tolist()
        further = further_figures(rows, model.consensus.ravel())
    negative, positive = rows.labels if task == "binary" else (None, None)
    facts: dict[str, Any] = {
        "run": str(model.folder),
        "task": task,
        "metric": "mean-squared-error" if task == "real" else "error",
        "data": {"name": rows.name, "part": chosen, "rows": len(y), "negative": negative, "positive": positive},
        "error": {
            "consensus": figure(task, score, y),
            "mean": float(np.mean(errors)),
            "std": float(np.std(errors)) if len(set(errors)) > 1 else 0.0,
            **further,
        },
        "majority_error": None if task == "real" else constant_figure(task, y),
        "one_class": only_class(task, score, rows.labels),
        "log_loss": float(np.mean(-log_probability(score, y))) if model.config.loss in PROBABLE else None,
        "confusion": None if task == "real" else confusion(task, score, y),
        "per_agent": [{"agent": agent, "error": error} for agent, error in enumerate(errors)],
    }
    if task == "real":
        facts["variance"] = constant_figure(task, y)
    elif task == "classes":
        facts["classes"] = list(rows.labels)
    return facts


def _refuse_training_records(model: Model, new: NewData, part: Part) -> None:
    """Errors on training records are not post-processing of the model: they are computed from the records."""
    if not isinstance(new.data, str | Path) or (relation := _relation(model.config, str(new.data))) is None:
        return
    what = f"--part {part}" if new.data in BUILT_IN else f"--data {new.data}"
    drawn = relation == "pool" and (new.data in BUILT_IN or model.config.test is None)
    drawn = drawn and not model.config.no_test
    raise RequestError(
        f"{what} takes in records that the run was trained on: their errors are computed from the records, and no"
        f" budget pays for that; {'take --part test, or ' if drawn else ''}pass --public if the records are public"
    )


@dataclass(frozen=True)
class Predictions:
    """What a model says of some rows."""

    row: NDArray[np.intp]  # (m,) number of the record in its file or set, from 1
    score: Vector  # (m,) x . theta; of three classes or more the largest of them
    probability: Vector
    """Of the positive label, shape (m,), 1 / (1 + exp(-score)); of three classes or more that of the predicted one. nan
    where the loss of the run has none."""
    prediction: tuple[str, ...]
    """The positive label value where the score is positive, else the negative one; the class of the largest score; of
    real targets the value in the target's own unit."""
    classes: tuple[str, ...]  # names of three classes or more, else empty
    probabilities: Matrix  # (m, K) of those classes, by softmax; no column where there are none

    @property
    def probable(self) -> bool:
        """Whether there are probabilities."""
        return not np.isnan(self.probability).any()


def predict(model: Model, new: NewData, *, agent: int | None = None) -> Predictions:
    """Score all rows, in their order, by an agent's vector or the consensus; labels are not looked at.

    Raises
    ------
    RequestError
        As `rows_for`, or if there is no such agent.
    """
    _check(model, new)
    theta = model.vector(agent)
    rows = rows_for(model, new, labelled=False)
    with threadpool_limits(limits=1):
        score = scores(rows.X_test, theta.ravel(), len(rows.labels))
    probability = probabilities(score) if model.config.loss in PROBABLE else np.full_like(score, np.nan)
    if rows.task == "classes":
        best = np.argmax(score, axis=1)
        at = np.arange(len(best)), best
        words = tuple(rows.labels[k] for k in best.tolist())
        return Predictions(np.arange(1, len(score) + 1), score[at], probability[at], words, rows.labels, probability)
    if rows.target is not None:
        words = tuple(repr(value) for value in rows.target.unscaled(score).tolist())
    else:
        words = tuple(rows.labels[s > 0.0] for s in score.tolist())
    return Predictions(np.arange(1, len(score) + 1), score, probability, words, (), np.zeros((len(score), 0)))
