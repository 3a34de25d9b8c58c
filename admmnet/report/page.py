"""One page of HTML of one run or several: it runs no script and loads nothing (docs/results.md)."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from admmnet.config.run_config import is_loose, own_delta
from admmnet.errors import RequestError
from admmnet.files import read_toml
from admmnet.record import format
from admmnet.record.folder import SUMMARY, sha256
from admmnet.record.format import NONE, count, epsilon, number, parameters, seconds, size
from admmnet.record.forms import AgentEntry
from admmnet.record.reader import look_at, verdict_of
from admmnet.record.verdict import figures
from admmnet.report.columns import cell, column_of
from admmnet.report.figure import style
from admmnet.report.run_plot import plot_run
from admmnet.report.series import (
    RunSeries,
    curves,
    folder_names,
    gate_line,
    heading,
    joining,
    no_better_than,
    one_class,
    yardsticks,
)
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.privacy.ledger.audit import VerifiedLedger

LINES = 5_000
"""Most rows of ledgers on a page; those of further agents are left to the command line."""
RELEASED: Mapping[str, str] = {
    "objective-perturbation": "minimiser of an objective with Gaussian noise in it",
    "gaussian": "value with Gaussian noise",
    "discrete-gaussian": "sum over records on an integer grid with discrete Gaussian noise",
    "above-threshold": "start of a held noisy threshold: all its silences",
    "laplace": "comparison with Laplace noise",
    "gamma-norm": "minimiser of an objective with K(a) noise in it",
    "subsampled-gaussian": "all Gaussian steps on sampled batches",
    "gamma-norm-vector": "vector with K(a) noise",
    "none": "vector made of released vectors alone",
    "unprotected": "function of the records, without noise",
}
"""What was released, by mechanism (docs/ledger.md)."""


class Report(NamedTuple):
    """The whole page, and all that does not hold with file, line and fault: nothing if everything verifies."""

    html: str
    faults: tuple[str, ...]


def make_report(paths: Sequence[Path]) -> Report:
    """Read run folders, verify them and make the page; the same folders give the same bytes.

    Of several a comparison stands first. Faults are on top, and no figure is shown of a folder that has one.
    RequestError if the extra ``plot`` is missing, there is no run, one is named twice, is no run folder, or cannot be
    read.
    """
    with style():  # matplotlib, which draws the pictures
        try:
            from jinja2 import Environment, StrictUndefined
        except ImportError:
            raise RequestError("a report needs jinja2, run: pip install 'admmnet[plot]'") from None
    if not paths:
        raise RequestError("a report needs a run folder: name one or more")
    names = folder_names(paths)
    found = [(name, look_at(path)) for name, path in zip(names, paths, strict=True)]
    faults = tuple(fault for _, run in found for fault in run.faults)
    runs = [_facts(name, curves(run), LINES // len(found)) for name, run in found if not run.faults]
    title = f"Comparison of {len(found)} runs"
    if len(found) == 1:
        title = runs[0]["title"] if runs else names[0]
    css, page = (Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "html.j2"))
    env = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    env.filters |= {"count": count, "epsilon": epsilon, "number": number, "percent": format.percent}
    shown = {"title": title, "runs": runs, "faults": faults, "several": len(found), "version": __version__}
    shown |= {"css": css, "policy": base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()}
    html = env.from_string(page).render(shown, versus=_versus(runs) if len(runs) > 1 else None)
    return Report(html, faults)


def _said(summary: Any, *keys: str) -> Any:
    """What a summary says by these keys; None where something above is not there."""
    return reduce(lambda above, key: getattr(above, key, None), keys, summary)


def _facts(name: str, run: RunSeries, lines: int) -> dict[str, Any]:
    """Everything that the template shows of a run."""
    summary, verdict, settings = run.summary, verdict_of(run), read_toml(run.path / "config.toml")
    entries = {} if summary is None else {one.agent: one for one in summary.per_agent}
    parts = joining(entries.values())
    agents: list[dict[str, Any]] = [
        _agent(ledger, entries.get(ledger.header["agent"]), parts, run.metric) | {"account": ledger, "file": file}
        for file, ledger in run.ledgers.items()
    ]
    rows = [agent["shown"] for agent in agents]
    styles = {name: column_of(name, rows) for name in rows[0] if any(row[name] is not None for row in rows)}
    for agent in agents:  # as many ledgers as there is room for
        charged = list(_rows(agent["account"])) if lines > 0 else None
        agent["rows"] = charged if charged is not None and len(charged) <= lines else None
        lines -= len(charged or ())
    mechanisms = {event.mechanism for ledger in run.ledgers.values() for _, event, _ in ledger.events}
    proven, delta = verdict.privacy.epsilon_proven, verdict.privacy.delta
    return {
        "name": name,
        "title": heading(run),
        "verdict": verdict,
        "certainty": None if proven is None or delta is None else certainty(proven, delta),
        "odds": math.exp(min(20.0, proven or 0.0)),
        "said": partial(_said, summary),
        "series": run,
        "settings": {
            table: {key: _setting(value) for key, value in own.items()} for table, own in settings.items() if own
        },
        "cards": list(_cards(run)),
        "pairs": _pairs(run, settings),
        "columns": [(name, style, [cell(style, row[name]) for row in rows]) for name, style in styles.items()],
        "agents": agents,
        "torn": sum(ledger.torn for ledger in run.ledgers.values()),
        "away": [f"agent {i} in {' and '.join(ranges)}" for i, ranges in (_said(summary, "away") or {}).items()],
        "far": [f"agent {i}" for i in sorted(_said(summary, "far_from_others") or {}, key=int)],
        "refused": [f"agent {i} in round {one.refused_at}" for i, one in entries.items() if one.refused_at is not None],
        "data_dependent": any(one.header["preprocessing"] == "data-dependent" for one in run.ledgers.values()),
        "discrete": mechanisms == {"discrete-gaussian"},
        "loose": _loose(agents, [one.records for one in entries.values()]),
        "digest": None if summary is None else sha256(run.path / SUMMARY),
        "released": {mechanism: RELEASED[mechanism] for mechanism in sorted(mechanisms)},
        "picture": _picture(run),
    }


def _setting(value: Any) -> str:
    """A setting for people, with all its digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _agent(
    ledger: VerifiedLedger, entry: AgentEntry | None, parts: Mapping[int, str], metric: str | None
) -> dict[str, Any]:
    """An agent's row: figures, None where there is none, and how its ledger fared."""
    header, found, said = ledger.header, figures(ledger.totals, ledger.contract), partial(_said, entry)
    state = [parts[header["agent"]]] if header["agent"] in parts else []
    if said("refused_at") is not None:
        state.append(f"budget refused from round {said('refused_at')}")
    state.append("ledger verified" if ledger.finished else "ledger verified, unfinished: no end line")
    state += ["last line cut off, counts for nothing"] * bool(ledger.torn)
    shown = {
        "agent": header["agent"],
        "records": header["records"],
        "degree": len(header["neighbours"]),
        "releases": said("releases"),
        "events": ledger.count,
        "budget": header["budget"]["epsilon"],
        "eps proven": found["epsilon_proven"],
        "eps spent": ledger.total()["epsilon_spent"],
        "eps B": ledger.total().get("epsilon_if_all_collude"),
        "eps published": found["epsilon_published"],
        "account epsilon": said("account_epsilon_spent"),
        "test error" if metric == "error" else "test MSE": said("test_error"),
        "how it went": ", ".join(state),
    }
    return {"digest": ledger.sha256, "agent": header["agent"], "shown": shown}


def _rows(account: VerifiedLedger) -> Iterator[tuple[str, list[tuple[int, str, str]], tuple[str, str, str], str]]:
    """Rounds, charges, (their rho, total rho, epsilon spent), published epsilon; equal rounds in a row share one."""

    def charged(events: Sequence[Any]) -> dict[Any, int]:
        return Counter((e.mechanism, parameters(line["parameters"]), line["rho"]) for _, e, line in events)

    rounds = [(k, list(own)) for k, own in groupby(account.events, lambda event: event[0])]
    # of rounds that follow each other, the number less the place is the same
    for (_, kinds), found in groupby(enumerate(rounds), lambda one: (one[1][0] - one[0], charged(one[1][1]))):
        alike = [own for _, own in found]
        (first, _), (last, own), times = alike[0], alike[-1], len(alike)
        rho = None if any(cost is None for *_, cost in kinds) else times * sum(k[2] * n for k, n in kinds.items())
        total = own[-1][2]["total"]
        yield (
            count(first) if first == last else f"{count(first)} to {count(last)}",
            [(times * n, mechanism, words) for (mechanism, words, _), n in kinds.items()],
            (number(rho), number(total["rho"]), epsilon(total["epsilon_spent"])),
            epsilon(total["epsilon_published"]),
        )


def _cards(run: RunSeries) -> Iterator[tuple[str, str, str, bool]]:
    """Errors and their references: label, value and note, and whether it is an alarm."""
    said, only = partial(_said, run.summary, "test_error"), one_class(run.summary)
    error = partial(format.error, metric=run.metric)
    over = "of the final model, the same at all agents"
    if said("std"):
        over = f"of the agents' average; mean of their own models {error(said('mean'))}"
    over = "not there" if said("consensus") is None else over if only is None else f"{only}; {over}"
    name = "Mean squared error" if run.metric == "mean-squared-error" else "Test error"
    yield name, error(said("consensus")), over, only is not None
    if said("root_in_units") is not None:
        share = "" if said("r2") is None else f"; R² {number(said('r2'))}, the mean has 0"
        yield "Root mean square error", number(said("root_in_units")), f"in the target's own unit{share}", False
    for words, value in yardsticks(run.summary):
        worse = run.summary is not None and no_better_than(run.summary) == (words, value)
        looks = "the same loss on all training records together" if "pooled" in words else "looks at no row"
        yield words.capitalize(), error(value), "the run is no better than this" if worse else looks, worse


def _pairs(run: RunSeries, settings: Mapping[str, Any]) -> dict[str, Any]:
    said = partial(_said, run.summary)
    pure, tested = said("baseline", "pure_epsilon"), said("data", "test")
    train = said("data", "train") or sum(ledger.header["records"] for ledger in run.ledgers.values())
    found = {
        "Folder": run.path,
        "Records": f"{count(train)} for training{'' if tested is None else f', {count(tested)} for testing'}",
        "Features": count(said("data", "features")),
        "Graph": None if run.baseline else said("topology") or settings.get("network", {}).get("topology"),
        "Epochs" if run.baseline else "Rounds": said("rounds") or settings.get("algorithm", {}).get("rounds"),
        "Pure epsilon": None if pure is None else f"{epsilon(pure)}, with delta = 0",
        "Gate": None if run.summary is None else gate_line(run.summary),
        "Agents": None if run.baseline else count(run.size),
        "Training loss": number(said("train_loss")),
        "Carried by": said("transport"),
        "Bytes sent": size(said("bytes_sent")),
        "Wall time": seconds(said("seconds", "total")),
    }
    return {name: value for name, value in found.items() if value not in (None, NONE)}


def _loose(agents: Sequence[Mapping[str, Any]], records: Sequence[int]) -> tuple[int, Mapping[str, Any]] | None:
    """Number of agents whose delta is above 0.1 / records without their own choice, and the one furthest above it."""
    own = own_delta(records or [agent["account"].header["records"] for agent in agents])
    held = [one for one in agents if (delta := one["account"].delta) and is_loose(delta, one["shown"]["records"], own)]
    return (len(held), max(held, key=lambda one: one["account"].delta * one["shown"]["records"])) if held else None


def certainty(epsilon: float, delta: float) -> float:
    """Largest share of right guesses between two equally likely candidates under (epsilon, delta).

    Half of 1 + (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), from the definition at both orders of the two.
    """
    tail = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * tail) / (1.0 + tail))


def _picture(*runs: RunSeries) -> tuple[str, str]:
    """Picture of runs as an address that holds it, or else the reason why there is none."""
    try:
        figure = plot_run(*runs, title="")
    except RequestError as error:
        return "", str(error)
    raw = io.BytesIO()
    with style():
        figure.savefig(raw, format="svg", transparent=True, metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(raw.getvalue()).decode()}", ""


def _versus(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Runs side by side: figures, settings that differ, and whatever keeps them from being compared."""
    columns = [_column(run) for run in runs]
    flat = [{f"{table}: {key}": v for table, own in run["settings"].items() for key, v in own.items()} for run in runs]
    figures, settings = (
        {name: [own.get(name, NONE) for own in each] for name in dict.fromkeys(name for own in each for name in own)}
        for each in (columns, flat)
    )
    private = [run for run in runs if run["series"].private]
    return {
        "figures": {name: values for name, values in figures.items() if {*values} != {NONE}},
        "settings": {name: values for name, values in settings.items() if len({*values}) > 1},
        "adjacencies": len({run["series"].header["adjacency"] for run in private}),
        "deltas": len({run["verdict"].privacy.delta for run in private}),
        "accountants": len({run["verdict"].privacy.accountant for run in private}),
        "data": len({(run["series"].metric, str(run["said"]("data"))) for run in runs if run["digest"]}),
        "picture": _picture(*(run["series"] for run in runs)),
    }


def _column(run: Mapping[str, Any]) -> dict[str, str]:
    """Figures of a run by their names."""
    privacy, series = run["verdict"].privacy, run["series"]
    own = {
        "Mode": run["verdict"].mode.line(),
        "Run": run["title"],
        "Epsilon proven": epsilon(privacy.epsilon_proven) if series.private else "no privacy",
        "Epsilon claimed (paper)": epsilon(privacy.epsilon_target if privacy.accountant == "published" else None),
        "Delta": epsilon(privacy.delta),
        "Epsilon spent so far": epsilon(privacy.epsilon_spent),
        "Relation": series.header["adjacency"] if series.private else NONE,
    }
    return {**own, **{label: value for label, value, *_ in run["cards"]}, **run["pairs"]}
