"""Several runs side by side: figures, and the settings that differ."""

from __future__ import annotations

from typing import Any

from admmnet.record.values import at, real, whole
from admmnet.report.html import sections, words
from admmnet.report.html.facts import RunFacts
from admmnet.report.html.markup import Raw, join, table, tag
from admmnet.report.html.words import above, figure


def comparison(runs: tuple[RunFacts, ...]) -> Raw:
    """Return the tables of a comparison; the charts are drawn by the page's script."""
    return join(
        (
            tag("h3", "Figures"),
            _side_by_side([(name, values) for name, values in _figures(runs)], runs),
            _warnings(runs),
            tag("h3", "Settings that differ"),
            _settings(runs),
        )
    )


def _side_by_side(rows: list[tuple[str, list[Any]]], runs: tuple[RunFacts, ...]) -> Raw:
    heads = [""] + [tag("a", run.name, href=f"#r{k}") for k, run in enumerate(runs)]
    return table(
        heads,
        (tag("tr", tag("th", name, scope="row"), *(tag("td", value) for value in values)) for name, values in rows),
        class_="versus",
    )


def _figures(runs: tuple[RunFacts, ...]) -> list[tuple[str, list[Any]]]:
    promises = [words.promise_of(run) for run in runs]
    rows: list[tuple[str, list[Any]]] = [
        ("Ledgers", [_state(run) for run in runs]),
        ("Method", [f"{run.header.get('algorithm', '?')} ({run.header.get('method', '?')})" for run in runs]),
        ("Data", [str(run.said("data", "name") or at(run.settings or {}, "data", "data") or "?") for run in runs]),
        ("Agents", [f"{run.part[1] if run.part else len(run.agents):,}" for run in runs]),
        ("Rounds or epochs", [figure(real(run.said("rounds")), 9) for run in runs]),
        (
            "Epsilon promised (proven)",
            [
                "no privacy" if run.header and not run.private else _sure(run, promise.epsilon)
                for run, promise in zip(runs, promises, strict=True)
            ],
        ),
        ("Epsilon claimed (paper)", [_sure(run, promise.claimed) for run, promise in zip(runs, promises, strict=True)]),
        ("Delta", [figure(promise.delta) for promise in promises]),
        ("Epsilon spent (odometer)", [_sure(run, run.largest("spent")) for run in runs]),
        ("Relation", [str(run.header["adjacency"]) if run.private else sections.DASH for run in runs]),
        ("Noise", [_noise(run) for run in runs]),
        ("Mode", [run.mode or sections.DASH for run in runs]),
        ("Error of the average", [_error(run, "consensus") for run in runs]),
        ("Error of the agents' models, mean", [_error(run, "mean") for run in runs]),
        ("The same, standard deviation", [_error(run, "std") for run in runs]),
        ("Training loss", [figure(real(run.said("train_loss"))) for run in runs]),
        ("Bytes sent", [_bytes(run) for run in runs]),
        ("Wall time (s)", [figure(real(run.said("seconds", "total"))) for run in runs]),
    ]
    return [(name, values) for name, values in rows if name == "Ledgers" or set(values) != {sections.DASH}]


def _sure(run: RunFacts, epsilon: float | None) -> str:
    """Return an epsilon; of a run that does not verify, with a word that nobody can rely on it."""
    return above(epsilon) + (" (not verified)" if run.faults and epsilon is not None else "")


def _state(run: RunFacts) -> Raw:
    return tag("span", sections.state(run), class_="alarm" if run.faults else None)


def _bytes(run: RunFacts) -> str:
    value = whole(run.said("bytes_sent"))
    return sections.DASH if value is None else f"{value:,}"


def _noise(run: RunFacts) -> str:
    if not run.private:
        return sections.DASH
    return "seeded: a simulation" if run.seeded else "secret"


def _error(run: RunFacts, key: str) -> str:
    return sections.error_of(run, real(run.said("test_error", key)))


def _warnings(runs: tuple[RunFacts, ...]) -> Raw:
    """What makes figures that stand side by side no equals."""
    found = []
    private = [run for run in runs if run.private]
    if len({run.header["adjacency"] for run in private}) > 1:
        found.append("The runs have different neighbouring relations: their epsilons mean different things.")
    if len({words.promise_of(run).delta for run in private}) > 1:
        found.append("The runs have different deltas: compare their epsilons with care.")
    if len({words.promise_of(run).claimed is None for run in private}) > 1:
        found.append(
            "Some budgets were kept by a proof, some by the paper's arithmetic: compare proven figures with proven "
            "figures."
        )
    if len({(str(run.said("metric")), str(run.said("data"))) for run in runs if run.finished}) > 1:
        found.append("Not all runs have the same data: their errors are not measured on the same records.")
    found.append(
        "Runs on the same records add up: what all of them together cost is more than any column says, unless an "
        "account spans them."
    )
    return tag("div", tag("ul", *(tag("li", item) for item in found)), class_="aside")


def _settings(runs: tuple[RunFacts, ...]) -> Raw:
    tables = [
        {(name, key): value for name, values in (run.settings or {}).items() for key, value in values.items()}
        for run in runs
    ]
    places = dict.fromkeys(place for settings in tables for place in settings)
    names = [key for _, key in places]
    rows = []
    for table_, key in places:
        values = [settings.get((table_, key)) for settings in tables]
        if len({repr(value) for value in values}) > 1:
            rows.append((key if names.count(key) == 1 else f"{table_}: {key}", _few_digits(values)))
    if not rows:
        return tag("p", "None: all runs have the same settings.")
    return _side_by_side(rows, runs)


def _few_digits(values: list[Any]) -> list[Any]:
    """Values in a row, real numbers with six digits where that tells them apart."""
    full = [sections.DASH if value is None else sections.shown(value) for value in values]
    brief = [f"{v:.6g}" if isinstance(v, float) else text for v, text in zip(values, full, strict=True)]
    return brief if len(set(brief)) == len(set(full)) else full
