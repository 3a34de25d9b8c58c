"""The parts of a run's report that need no script: summary, words, tables, verification, settings, versions."""

from __future__ import annotations

from typing import Any

from admmnet.errors import counted
from admmnet.record.format import NONE, count, epsilon, error, number, seconds, size
from admmnet.record.values import at
from admmnet.report.html import words
from admmnet.report.html.facts import AgentFacts, Broken, RunFacts
from admmnet.report.html.markup import Raw, bullets, join, pairs, table, tag
from admmnet.report.names import data_of
from admmnet.report.series import gate_line
from admmnet.running.yardsticks import WORDS, no_better_than, one_class, yardsticks

SHOWN = 20
"""Most faults that are listed on top."""
WORSE = "the run is no better than this"
"""Note on a run that learned nothing of use."""


def error_of(run: RunFacts, value: float | None) -> str:
    """Return an error in the run's own measure."""
    return error(value, run.series.metric)


def verdict(run: RunFacts) -> Raw:
    """Return the verdict's lines, the mode first."""
    alarm = " alarm" if run.series.seeded else ""
    return tag("div", *(tag("p", line) for line in run.verdict.lines()), class_=f"verdict{alarm}")


def banner(runs: tuple[RunFacts | Broken, ...]) -> Raw | None:
    """Return the faults, which stand on top in red."""
    sound = [run for run in runs if isinstance(run, RunFacts)]
    faults = [fault for run in runs if isinstance(run, Broken) for fault in run.faults]
    if not faults:
        return None
    which = "" if len(runs) == 1 else f" ({len(runs) - len(sound)} of {len(runs)} runs)"
    return tag(
        "div",
        tag("h2", f"✗ The ledgers do not verify{which}"),
        tag(
            "p",
            "A file was changed, damaged, exchanged or lost after it was written, or says otherwise than the "
            "ledgers. No figure is shown of such a run: none could be relied on.",
        ),
        tag("ul", *(tag("li", tag("code", fault)) for fault in faults[:SHOWN])),
        None if len(faults) <= SHOWN else tag("p", f"and {len(faults) - SHOWN} more"),
        class_="banner bad",
        role="alert",
    )


def heading(run: RunFacts) -> str:
    """Return data set and method."""
    return f"{data_of(run.series)}: {run.series.algorithm} ({run.header['method']})"


def subtitle(run: RunFacts) -> str:
    """Return the rest of a run in one line: graph and rounds."""
    series, settings = run.series, run.settings
    where = "one holder" if series.baseline else counted(series.size, "agent")
    named = run.said("topology") or at(settings, "network", "topology")
    where += f", {named}" if isinstance(named, str) and not series.baseline else ""
    planned = run.said("rounds") or at(settings, "algorithm", "rounds")
    return f"{where} · {planned} {series.unit}s"


Card = tuple[str, str, str, bool]
"""Label, value and note, and whether it is an alarm."""


def _error_cards(run: RunFacts) -> list[Card]:
    """The test error and its baselines."""
    found, only = run.said("test_error"), one_class(run.series.summary)
    consensus, root, r2 = (at(found, name) for name in ("consensus", "root_in_units", "r2"))
    over = "of the final model, the same at all agents"
    if at(found, "std"):
        over = f"of the agents' average; mean of their own models {error_of(run, found.mean)}"
    over = "not there" if consensus is None else over if only is None else f"{only}; {over}"
    name = "Mean squared error" if run.series.metric == "mean-squared-error" else "Test error"
    cards = [(name, error_of(run, consensus), over, only is not None)]
    if root is not None:
        share = "" if r2 is None else f"; R² {number(r2)}, the mean has 0"
        cards.append(("Root mean square error", number(root), f"in the target's own unit{share}", False))
    worse = no_better_than(run.series.summary)
    notes = {WORDS["pooled"]: "the same loss on all training records together"}
    for what, value in yardsticks(run.series.summary):
        bad = worse == (what, value)
        note = WORSE if bad else notes.get(what, "of the test records; looks at no row")
        cards.append((what.capitalize(), error_of(run, value), note, bad))
    return cards


def summary(run: RunFacts) -> Raw:
    """Return the summary: key figures, incidents, and the run's own notes."""
    said, cards = run.said, _error_cards(run)
    boxes = []
    for *lines, bad in cards:
        inside = (tag("div", line, class_=kind) for kind, line in zip(("label", "value", "note"), lines, strict=True))
        boxes.append(tag("div", *inside, class_="card alarm" if bad else "card"))
    train, test = said("data", "train") or sum(agent.records for agent in run.agents), said("data", "test")
    pure = said("baseline", "pure_epsilon")
    gate = None if run.series.summary is None else gate_line(run.series.summary)
    rows: list[tuple[str, Any]] = [
        ("Folder", tag("code", str(run.series.path))),
        ("Records", f"{count(train)} for training" + ("" if test is None else f", {count(test)} for testing")),
        ("Features", count(said("data", "features"))),
        *([] if pure is None else [("Pure epsilon", f"{epsilon(pure)}, with delta = 0")]),
        *([] if gate is None else [("Gate", gate)]),
        ("Carried by", said("transport") or NONE),
        ("Bytes sent", size(said("bytes_sent"))),
        ("Wall time", seconds(said("seconds", "total"))),
    ]
    happened, notes = list(words.incidents(run)), said("notes")
    otherwise = tag("div", tag("h4", "What went otherwise"), bullets(happened), class_="aside") if happened else ""
    told = join((tag("h4", "Notes of the run"), bullets(notes))) if notes else ""
    return join((tag("div", *boxes, class_="cards"), otherwise, pairs(rows), told))


def meaning(run: RunFacts) -> Raw:
    """Return the plain words."""
    said = [join((tag("h4", name), tag("p", paragraph))) for name, paragraph in words.meaning(run)]
    heading = "Not covered" if run.series.private else "Also to know"
    return tag(
        "div", tag("div", *said), tag("div", tag("h4", heading), bullets(words.uncovered(run))), class_="columns prose"
    )


def result_of(agent: AgentFacts) -> str:
    """Return the result of a ledger's verification in words."""
    said = ["chain whole, costs and totals recomputed"]
    said.append("digest is the one in summary.json" if agent.listed else "no digest to compare")
    if not agent.account.finished:
        said.append("unfinished: no end line")
    if agent.account.torn:
        said.append("last line cut off, counts for nothing")
    said += [f"resumed from round {round_}" for round_ in agent.account.resumed]
    return "; ".join(said)


def verification(run: RunFacts) -> Raw:
    """Return which file was verified, with which result."""
    rows = []
    for agent in run.agents:
        digest = tag("td", tag("code", agent.digest, class_="digest"), class_="t")
        cells = tag("th", agent.file, scope="row"), tag("td", count(agent.account.count))
        rows.append(tag("tr", *cells, tag("td", result_of(agent), class_="t"), digest))
    files = table(("Ledger", "Events", "Result", "sha256"), rows, class_="files")
    return join(
        (
            tag("p", "sha256 of summary.json: ", tag("code", run.summary_digest or "there is none", class_="digest")),
            tag("details", tag("summary", f"Every ledger ({count(len(rows))})"), files, open=len(rows) <= 20),
            tag("h4", "What this cannot show"),
            bullets(words.UNVERIFIED),
        )
    )


def settings(run: RunFacts) -> Raw:
    """Return config.toml as tables."""
    idle = "This method has no privacy: the settings under privacy, such as epsilon, had no effect."
    parts = [
        tag("div", tag("h4", name), pairs((key, shown(value)) for key, value in values.items()))
        for name, values in run.settings.items()
        if values
    ]
    return join(("" if run.series.private else tag("p", idle), tag("div", *parts, class_="tiles")))


def versions(run: RunFacts) -> Raw:
    """Return the versions of what made the run."""
    told = run.said("versions")
    if not told:
        return tag("p", f"Ledgers written by admmnet {run.header['admmnet']}.")
    return pairs((key, shown(value)) for key, value in told.items())


def shown(value: Any) -> str:
    """Return a setting for people, with all its digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


COLUMNS = (
    ("agent", "Agent", "number of the agent", str),
    ("records", "Records", "training records", count),
    ("degree", "Degree", "neighbours", count),
    ("releases", "Releases", "vectors it broadcast", count),
    ("events", "Events", "lines of its ledger", count),
    ("target", "Budget ε", "epsilon of its ledger's header", epsilon),
    ("promised", "Worst case ε", "proven before the run: all that its filter lets through", epsilon),
    ("spent", "Spent ε", "spent so far: proven epsilon of all releases, from the ledger", epsilon),
    (
        "unmasked",
        "Spent ε, all collude",
        "spent, of its own noise alone: all other agents together, or masks that fail",
        epsilon,
    ),
    ("published", "Paper's ε", "the same by the paper's arithmetic", epsilon),
    ("account_spent", "Account ε", "all runs of its account; summary.json", epsilon),
    ("test_error", "Error", "of its vector on the test records", None),
)
"""Of the table of agents: figure, title, note, and how it prints; None: in the run's own measure."""


def agents_table(run: RunFacts, prefix: str) -> Raw:
    """Return the table of agents, which the page's script sorts."""
    figures = [agent.figures() for agent in run.agents]
    columns = [column for column in COLUMNS if any(own[column[0]] is not None for own in figures)]
    head = []
    for key, title, note in (*(column[:3] for column in columns), (None, "State", None)):
        button = tag("button", title, type="button", title=note)
        order = "ascending" if key == "agent" else "none"
        look = {"data_key": key, "data_title": title, "class_": "t" if key is None else None}
        head.append(tag("th", button, scope="col", aria_sort=order, **look))
    rows = []
    for place, agent in enumerate(run.agents):
        button = tag("button", agent.agent, type="button", tabindex=None if place == 0 else "-1")
        cells = [tag("th", button, scope="row", data_v=agent.agent)]
        for key, _, _, shows in columns[1:]:
            value = figures[place][key]
            cells.append(tag("td", error_of(run, value) if shows is None else shows(value), data_v=value))
        rows.append(tag("tr", *cells, tag("td", _became(agent), class_="t"), data_a=place))
    label = f"{prefix}-agents-title"
    inside = tag("thead", tag("tr", *head)), tag("tbody", *rows)
    content = tag("table", *inside, class_="sortable", aria_labelledby=label)
    return tag("div", content, class_="scroll tall", tabindex="0", role="region", aria_labelledby=label)


def _became(agent: AgentFacts) -> str:
    """Return what became of an agent and its ledger in words."""
    said = [] if agent.part is None else [agent.part]
    if (round_ := at(agent.entry, "refused_at")) is not None:
        said.append(f"budget refused from round {round_}")
    said.append("ledger verified" if agent.account.finished else "ledger verified, unfinished")
    return ", ".join(said)
