"""Several runs side by side: figures, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from admmnet.record.format import NONE, count, epsilon, number, seconds, size
from admmnet.report.html import sections
from admmnet.report.html.facts import RunFacts
from admmnet.report.html.markup import Raw, bullets, join, table, tag
from admmnet.report.names import data_of


def comparison(runs: Sequence[RunFacts]) -> Raw:
    """Return the tables of a comparison; the charts are drawn by the page's script."""
    figures, settings = _figures(runs), _settings(runs)
    return join(
        (
            _side_by_side(figures, runs),
            tag("div", bullets(_warnings(runs)), class_="aside"),
            tag("h3", "Settings that differ"),
            _side_by_side(settings, runs) if settings else tag("p", "None: all runs have the same settings."),
        )
    )


def _side_by_side(rows: list[tuple[str, list[str]]], runs: Sequence[RunFacts]) -> Raw:
    heads = [""] + [tag("a", run.name, href=f"#r{k}") for k, run in enumerate(runs)]
    cells = (tag("tr", tag("th", name, scope="row"), *(tag("td", value) for value in values)) for name, values in rows)
    return table(heads, cells, class_="versus")


def _figures(runs: Sequence[RunFacts]) -> list[tuple[str, list[str]]]:
    columns = [_column(run) for run in runs]
    rows = [(name, [column[name] for column in columns]) for name in columns[0]]
    return [(name, values) for name, values in rows if set(values) != {NONE}]


def _column(run: RunFacts) -> dict[str, str]:
    """Figures of a run by their names."""
    privacy, private, said = run.verdict.privacy, run.series.private, run.said
    missed = {key: sections.error_of(run, said("test_error", key)) for key in ("consensus", "mean", "std")}
    return {
        "Mode": run.verdict.mode.line(),
        "Method": f"{run.series.algorithm} ({run.header['method']})",
        "Data": data_of(run.series),
        "Agents": count(run.series.size),
        "Rounds or epochs": count(said("rounds")),
        "Epsilon proven": epsilon(privacy.epsilon_proven) if private else "no privacy",
        "Epsilon claimed (paper)": epsilon(privacy.epsilon_target if privacy.accountant == "published" else None),
        "Delta": epsilon(privacy.delta),
        "Epsilon spent so far": epsilon(privacy.epsilon_spent),
        "Relation": run.header["adjacency"] if private else NONE,
        "Error of the average": missed["consensus"],
        "Error of the agents' models, mean": missed["mean"],
        "The same, standard deviation": missed["std"],
        "Training loss": number(said("train_loss")),
        "Bytes sent": size(said("bytes_sent")),
        "Wall time": seconds(said("seconds", "total")),
    }


def _warnings(runs: Sequence[RunFacts]) -> list[str]:
    """What makes figures that stand side by side no equals."""
    found = []
    private = [run for run in runs if run.series.private]
    if len({run.header["adjacency"] for run in private}) > 1:
        found.append("The runs have different neighbouring relations: their epsilons mean different things.")
    if len({run.verdict.privacy.delta for run in private}) > 1:
        found.append("The runs have different deltas: compare their epsilons with care.")
    if len({run.verdict.privacy.accountant for run in private}) > 1:
        found.append(
            "Some budgets were kept by a proof, some by the paper's arithmetic: compare proven figures with proven "
            "figures."
        )
    if len({(run.series.metric, str(run.said("data"))) for run in runs if run.finished}) > 1:
        found.append("Not all runs have the same data: their errors are not measured on the same records.")
    return [
        *found,
        "Runs on the same records add up: unless an account spans them, all of them together cost more than any "
        "column shows.",
    ]


def _settings(runs: Sequence[RunFacts]) -> list[tuple[str, list[str]]]:
    tables: list[dict[tuple[str, str], Any]] = [
        {(name, key): value for name, values in run.settings.items() for key, value in values.items()} for run in runs
    ]
    places = dict.fromkeys(place for settings in tables for place in settings)
    names = [key for _, key in places]
    rows = []
    for where, key in places:
        values = [settings.get((where, key)) for settings in tables]
        if len({repr(value) for value in values}) > 1:
            shown = [NONE if value is None else sections.shown(value) for value in values]
            rows.append((key if names.count(key) == 1 else f"{where}: {key}", shown))
    return rows
