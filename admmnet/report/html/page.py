"""The page: one file of HTML that needs nothing from the network (docs/report.md)."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.report.html import compact, layout, sections, words
from admmnet.report.html.agents import agents_table
from admmnet.report.html.comparison import comparison
from admmnet.report.html.facts import RunFacts, read_facts
from admmnet.report.html.markup import Raw, data, join, tag
from admmnet.report.html.markup import text as markup_text
from admmnet.report.series import STATES
from admmnet.version import __version__


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes
    ----------
    html : str
        The whole page.
    faults : tuple of str
        All that does not hold, with file, line and fault; empty if everything verifies.
    """

    html: str
    faults: tuple[str, ...]


def make_report(paths: Sequence[Path]) -> Report:
    """Read run folders, verify them and make the page; the same folders give the same bytes.

    Parameters
    ----------
    paths : sequence of Path
        Run folders, one or more; of several, a comparison stands first.

    Returns
    -------
    Report
        The page, also where a ledger does not verify: then the faults are on top of it.

    Raises
    ------
    RequestError
        If there is no run, one is named twice, is no run folder, or cannot be read.
    """
    if not paths:
        raise RequestError("a report needs a run folder: name one or more")
    doubled = [path for path, times in Counter(path.resolve() for path in paths).items() if times > 1]
    if doubled:
        raise RequestError(f"{doubled[0]} is named twice: name every run once")
    runs = tuple(read_facts(path, name) for path, name in zip(paths, _names(paths), strict=True))
    return Report(_page(runs), tuple(fault for run in runs for fault in run.faults))


def _names(paths: Sequence[Path]) -> list[str]:
    """Names of the folders; of several with the same name, their paths."""
    names = [path.resolve().name for path in paths]
    return [
        str(path) if names.count(name) > 1 or not name else name
        for path, name in zip(paths, names, strict=True)
    ]


def _page(runs: tuple[RunFacts, ...]) -> str:
    here = files("admmnet.report.html")
    style, script, template = (
        here.joinpath(name).read_text(encoding="utf-8").strip()
        for name in ("page.css", "page.js", "template.html")
    )
    title = f"admmnet report: {runs[0].name}" if len(runs) == 1 else f"admmnet report: {len(runs)} runs"
    # filled in one pass, so that a name with braces in it stays a name
    parts = {
        "title": markup_text(title),
        "version": __version__,
        "style": style,
        "style_digest": _digest(style),
        "script": script,
        "script_digest": _digest(script),
        "body": _body(runs),
        "data": data(_data(runs)),
    }
    pieces = template.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [str(parts[name]), rest]
    return "".join(filled) + "\n"


def _digest(content: str) -> str:
    """What the page's policy names, so that no other script or style runs."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _data(runs: tuple[RunFacts, ...]) -> dict[str, Any]:
    return {
        "runs": [_run_data(run, len(runs)) for run in runs],
        "released": dict(words.RELEASED),
        "states": STATES,
    }


def _run_data(run: RunFacts, share: int) -> dict[str, Any]:
    numbers = [agent.agent for agent in run.agents]
    edges = sorted({(min(a.agent, j), max(a.agent, j)) for a in run.agents for j in a.neighbours})
    nodes = sorted({*numbers, *(end for edge in edges for end in edge)})
    books = {book.name: book for book in run.books}
    return {
        "name": run.name,
        "unit": "epoch" if run.baseline else "round",
        "percent": run.said("metric") != "mean-squared-error",
        "private": run.private,
        "limit": compact.short(words.promise_of(run).epsilon),
        "agents": numbers,
        "spent": [compact.short(agent.spent) for agent in run.agents],
        "results": [
            None if agent.book is None else sections.book_words(books[agent.book]) for agent in run.agents
        ],
        "files": [agent.book for agent in run.agents],
        "series": None if run.series is None else compact.figures(run.series, share),
        "graph": layout.graph(edges, nodes) if not run.baseline else None,
        "nodes": nodes,
        "ledger": compact.ledgers(run.books, share),
    }


def _body(runs: tuple[RunFacts, ...]) -> Raw:
    one = len(runs) == 1
    heading = runs[0].name if one else f"Comparison of {len(runs)} runs"
    header = tag(
        "header",
        tag("p", "admmnet report", class_="kicker"),
        tag("h1", heading),
        tag("p", sections.subtitle(runs[0]), class_="lead") if one else None,
        tag("p", words.mode_of(runs[0]), class_="lead") if one else None,
        sections.banner(runs),
    )
    parts = [] if one else [_comparison(runs)]
    parts += [_run(run, k, alone=one) for k, run in enumerate(runs)]
    footer = tag(
        "footer",
        tag(
            "p",
            f"Made by admmnet {__version__} from run folders alone; this page loads nothing and sends nothing.",
        ),
    )
    return join((header, tag("main", *parts, id="content"), footer), "\n")


def _comparison(runs: tuple[RunFacts, ...]) -> Raw:
    return tag(
        "section",
        tag("h2", "Comparison"),
        comparison(runs),
        tag("h3", "Charts"),
        _script_only(),
        tag("div", class_="charts", id="versus"),
        class_="compare",
    )


def _script_only(what: str = "The charts are drawn with JavaScript, which is off here.") -> Raw:
    return tag("noscript", tag("p", what, class_="aside"))


def _run(run: RunFacts, place: int, *, alone: bool) -> Raw:
    prefix = f"r{place}"
    holder = "Holder" if run.baseline else "Agents"
    parts = [
        ("summary", "Summary", sections.summary(run, several=not alone)),
        (
            "meaning",
            "What the epsilon means" if run.private else "What this means for privacy",
            sections.meaning(run),
        ),
        ("charts", "Charts", _charts(run)),
        ("agents", holder, agents_table(run, prefix)),
        ("ledger", "Ledger, line by line", _ledger(run, prefix)),
        ("verification", "Verification", sections.verification(run)),
        ("settings", "Settings", sections.settings(run)),
        ("versions", "Versions", sections.versions(run)),
    ]
    if not run.baseline and len(run.agents) > 1:
        parts.insert(3, ("graph", "Graph", _graph(run)))
    links = tag(
        "nav",
        *(tag("a", title, href=f"#{prefix}-{key}") for key, title, _ in parts),
        aria_label=f"Parts of {run.name}",
    )
    content = [
        tag(
            "section",
            tag("h3", title, id=f"{prefix}-{key}-title"),
            body,
            id=f"{prefix}-{key}",
            class_=f"part {key}-part",
        )
        for key, title, body in parts
    ]
    inside = tag("div", links, *content, class_="run", data_run=place)
    if alone:
        return tag("div", inside, id=prefix)
    head = tag(
        "summary",
        tag("h2", run.name),
        tag("span", f"{sections.subtitle(run)} · {words.mode_of(run)}", class_="lead"),
    )
    return tag("details", head, inside, id=prefix, class_="whole")


def _charts(run: RunFacts) -> Raw:
    if run.series is None:
        return tag("p", "There are no charts: they are drawn of folders that verify.")
    seen = (
        "Error and loss belong to released vectors."
        if not run.private or run.mode == "simulation"
        else "Losses and the consensus gap are computed from training records; a private run does not tell them."
    )
    return join((_script_only(), tag("p", seen), tag("div", class_="charts")))


def _graph(run: RunFacts) -> Raw:
    agents = len(run.agents)
    if agents > layout.MAX_NODES:
        return tag("p", f"{agents:,} agents are too many to draw; the limit is {layout.MAX_NODES:,}.")
    words_ = (
        "A node is an agent, its colour the epsilon it has spent by its ledger. White with a dashed line: not known. "
        "Choose an agent here or in the table; with the keyboard, the arrow keys go from agent to agent."
        if run.private
        else "A node is an agent. Choose one here or in the table; with the keyboard, the arrow keys go from agent to "
        "agent."
    )
    return join((_script_only(), tag("p", words_), tag("div", class_="network")))


def _ledger(run: RunFacts, prefix: str) -> Raw:
    off = _script_only(
        "The lines of the ledgers are shown with JavaScript, which is off here. The command "
        "admmnet ledger show RUN --agent I --events prints them."
    )
    first = run.agents[0].agent if run.agents else 0
    last = run.agents[-1].agent if run.agents else 0
    chooser = tag(
        "p",
        tag("label", "Agent ", for_=f"{prefix}-pick"),
        tag(
            "input",
            type="number",
            id=f"{prefix}-pick",
            min=str(first),
            max=str(last),
            value=str(first),
            inputmode="numeric",
        ),
        class_="chooser",
        hidden=len(run.agents) < 2,
    )
    return join((off, chooser, tag("div", class_="book", aria_live="polite")))
