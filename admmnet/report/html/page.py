"""The page: one file of HTML that needs nothing from the network (docs/results.md)."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from admmnet.errors import RequestError
from admmnet.record.format import epsilon
from admmnet.report.html import charts, compact, sections, words
from admmnet.report.html.comparison import comparison
from admmnet.report.html.facts import Broken, RunFacts, read_facts
from admmnet.report.html.markup import Raw, data, join, tag
from admmnet.report.html.markup import text as markup_text
from admmnet.report.series import STATES
from admmnet.version import __version__


@dataclass(frozen=True)
class Report:
    """The whole page, and all that does not hold with file, line and fault: nothing if everything verifies."""

    html: str
    faults: tuple[str, ...]


def make_report(paths: Sequence[Path]) -> Report:
    """Read run folders, verify them and make the page; the same folders give the same bytes.

    Of several a comparison stands first. Faults are on top, and no figure is shown of a folder that has one.
    RequestError if there is no run, one is named twice, is no run folder, or cannot be read.
    """
    if not paths:
        raise RequestError("a report needs a run folder: name one or more")
    doubled = [path for path, times in Counter(path.resolve() for path in paths).items() if times > 1]
    if doubled:
        raise RequestError(f"{doubled[0]} is named twice: name every run once")
    runs = tuple(read_facts(path, name) for path, name in zip(paths, _names(paths), strict=True))
    return Report(_page(runs), tuple(fault for run in runs if isinstance(run, Broken) for fault in run.faults))


def _names(paths: Sequence[Path]) -> list[str]:
    """Names of the folders; of several with the same name, their paths."""
    names = [path.resolve().name for path in paths]
    return [str(path) if names.count(name) > 1 or not name else name for path, name in zip(paths, names, strict=True)]


def _page(runs: tuple[RunFacts | Broken, ...]) -> str:
    here = files("admmnet.report.html")
    title = f"Comparison of {len(runs)} runs"
    if len(runs) == 1:
        title = sections.heading(runs[0]) if isinstance(runs[0], RunFacts) else runs[0].name
    body, content = _body(runs, title)
    style, script, template = (
        here.joinpath(name).read_text(encoding="utf-8").strip() for name in ("page.css", "page.js", "template.html")
    )
    digests = {"style_digest": _digest(style), "script_digest": _digest(script)}
    parts = {
        "title": markup_text(f"{title} - admmnet report"),
        "version": __version__,
        "style": style,
        "script": script,
        "body": body,
    }
    # filled in one pass, so that a name with a dollar in it stays a name
    return Template(template).substitute(parts, **digests, data=data(content)) + "\n"


def _digest(content: str) -> str:
    """What the page's policy names, so that no other script or style runs."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _body(runs: tuple[RunFacts | Broken, ...], title: str) -> tuple[Raw, dict[str, Any]]:
    """Return what is seen of the page, and the values that its script needs."""
    sound = [run for run in runs if isinstance(run, RunFacts)]
    one = len(runs) == 1
    header = tag(
        "header",
        tag("p", "admmnet report", class_="kicker"),
        tag("h1", title),
        tag("p", sections.subtitle(sound[0]), class_="lead") if one and sound else None,
        sections.banner(runs),
    )
    parts, common = list[Raw](), list[Any]()
    if len(sound) > 1:
        versus, common = charts.overlaid(sound)
        parts.append(tag("section", tag("h2", "Comparison"), comparison(sound), tag("h3", "Charts"), versus))
    made = [_run(run, place, share=len(runs)) for place, run in enumerate(sound)]
    footer = tag(
        "footer",
        tag("p", f"Made by admmnet {__version__} from run folders alone; this page loads nothing and sends nothing."),
    )
    body = join((header, tag("main", *parts, *(part for part, _ in made), id="content"), footer), "\n")
    values = [found for _, found in made]
    return body, {"runs": values, "versus": common, "released": dict(words.RELEASED), "states": STATES}


def _run(run: RunFacts, place: int, share: int) -> tuple[Raw, dict[str, Any]]:
    prefix, series, alone = f"r{place}", run.series, share == 1
    drawn, chart_values = charts.charts(run, prefix, share)
    values = {
        "name": run.name,
        "unit": series.unit,
        "private": series.private,
        "agents": [agent.agent for agent in run.agents],
        "spent": [epsilon(agent.account.total()["epsilon_spent"]) for agent in run.agents],
        "results": [sections.result_of(agent) for agent in run.agents],
        "files": [agent.file for agent in run.agents],
        "ledger": compact.ledgers(run.agents, share),
        "charts": chart_values,
        "graph": None,
    }
    parts = [
        ("summary", "Summary", sections.summary(run)),
        ("meaning", "What the epsilon means" if series.private else "What this means", sections.meaning(run)),
        ("charts", "Charts", drawn),
        ("agents", "Holder" if series.baseline else "Agents", sections.agents_table(run, prefix)),
        ("ledger", "Ledger, line by line", _ledger(run, prefix)),
        ("verification", "Verification", sections.verification(run)),
        ("settings", "Settings", sections.settings(run)),
        ("versions", "Versions", sections.versions(run)),
    ]
    if series.edges is not None:
        network, values["graph"] = charts.network(run, f"{prefix}-network")
        parts.insert(3, ("graph", "Graph", _graph(run, network)))
    links = tag(
        "nav", *(tag("a", title, href=f"#{prefix}-{key}") for key, title, _ in parts), aria_label=f"Parts of {run.name}"
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
    inside = tag("div", sections.verdict(run), links, *content, class_="run", data_run=place)
    if alone:
        return tag("div", inside, id=prefix), values
    head = tag(
        "summary",
        tag("h2", run.name),
        tag("span", f"{sections.heading(run)} · {sections.subtitle(run)}", class_="lead"),
    )
    return tag("details", head, inside, id=prefix, class_="whole"), values


def _graph(run: RunFacts, drawn: Raw) -> Raw:
    colours = ", its colour the epsilon it has spent by its ledger" if run.series.private else ""
    words_ = f"A node is an agent{colours}. Choose one here or in the table; with the keyboard, by the arrow keys."
    return join((tag("p", words_), drawn))


def _ledger(run: RunFacts, prefix: str) -> Raw:
    words_ = (
        "The lines of the ledgers are shown with JavaScript, which is off here. The command "
        "admmnet ledger show RUN --agent I --events prints them."
    )
    off = tag("noscript", tag("p", words_, class_="aside"))
    first, last = run.agents[0].agent, run.agents[-1].agent
    ends = {"min": first, "max": last, "value": first, "inputmode": "numeric"}
    label, key = tag("label", "Agent ", for_=f"{prefix}-pick"), f"{prefix}-pick"
    chooser = tag("p", label, tag("input", type="number", id=key, **ends), class_="chooser", hidden=first == last)
    return join((off, chooser, tag("div", class_="book", aria_live="polite")))
