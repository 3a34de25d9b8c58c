"""The parts of a run's report that need no script: summary, words, tables, verification, settings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.record.values import at, real, whole
from admmnet.report.html import incidents, words
from admmnet.report.html.facts import Book, RunFacts
from admmnet.report.html.markup import Raw, bullets, join, pairs, table, tag
from admmnet.report.html.words import above, figure
from admmnet.running.yardsticks import WORDS, no_better_than, one_class, yardsticks

SHOWN = 20
"""Most faults that are listed on top."""
WORSE = "the run is no better than this"
"""Note on a run that learned nothing of use."""
DASH = "–"  # noqa: RUF001


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    return DASH if value is None else f"{100 * value:.2f} %"


def error_of(run: RunFacts, value: float | None) -> str:
    """Return an error in the run's own measure."""
    return percent(value) if run.said("metric") != "mean-squared-error" else figure(value)


def measure(run: RunFacts) -> str:
    """Name of the run's error."""
    return "mean squared error" if run.said("metric") == "mean-squared-error" else "test error"


def held_against(run: RunFacts) -> list[tuple[str, str, str]]:
    """Cards of what the error is held against; none of an older or unfinished run."""
    if not run.finished:
        return []
    found = run.summary or {}
    worse = no_better_than(found)
    notes = {WORDS["pooled"]: "the same loss on all training records together"}
    return [
        (
            words.capitalize(),
            error_of(run, value),
            WORSE if worse == (words, value) else notes.get(words, "of the test records; looks at no row"),
        )
        for words, value in yardsticks(found)
    ]


def state(run: RunFacts) -> str:
    """Return the state of the verification in a word or two."""
    if run.faults:
        return "does not verify"
    return "verified" if run.finished else "verified, unfinished"


def count(value: int | None, what: str) -> str:
    """Return a number of things in words."""
    if value is None:
        return f"an unknown number of {what}s"
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def banner(runs: tuple[RunFacts, ...]) -> Raw:
    """Return what stands on top: the faults in red, or that everything holds."""
    bad = [run for run in runs if run.faults]
    if bad:
        faults = [fault for run in bad for fault in run.faults]
        shown = [tag("li", tag("code", fault)) for fault in faults[:SHOWN]]
        more = None if len(faults) <= SHOWN else tag("p", f"and {len(faults) - SHOWN} more, below each run")
        which = "" if len(runs) == 1 else f" ({len(bad)} of {len(runs)} runs)"
        return tag(
            "div",
            tag("h2", f"✗ The ledgers do not verify{which}"),
            tag(
                "p",
                "Do not rely on the figures of this page. A file was changed, damaged, exchanged or lost after it was "
                "written, or says otherwise than the ledgers:",
            ),
            tag("ul", *shown),
            more,
            class_="banner bad",
            role="alert",
        )
    books = [book.account for run in runs for book in run.books if book.account is not None]
    events = sum(account.count for account in books)
    loose = sum(book.listed is None for run in runs for book in run.books)
    digests = (
        "every digest is the one in summary.json"
        if not loose
        else f"the digests that summary.json has are right, but {count(loose, 'ledger')} of unfinished runs or lost "
        f"agents {'has' if loose == 1 else 'have'} none"
    )
    return tag(
        "div",
        tag("h2", "✓ The ledgers verify"),
        tag(
            "p",
            f"{count(len(books), 'ledger')}, {count(events, 'event')}: every line follows from the one before, every "
            f"cost and total was recomputed from its parameters{_within(runs)}, and {digests}. ",
            tag("a", "What this cannot show", href="#r0-verification"),
            ".",
        ),
        class_="banner good",
    )


def _within(runs: tuple[RunFacts, ...]) -> str:
    """Return how far the totals were held against budgets."""
    kinds = {run.header["accountant"] for run in runs if run.private}
    if not kinds:
        return ""
    if "published" not in kinds:
        return " and is within the budget"
    return " and is within the budget by the arithmetic that guarded it, which may be the paper's"


def subtitle(run: RunFacts) -> str:
    """Return a run in one line: method, data, graph, rounds."""
    head, data = run.header, at(run.summary, "data")
    settings = run.settings or {}
    algorithm = head.get("algorithm") or run.said("algorithm") or at(settings, "algorithm", "algorithm") or "?"
    method = head.get("method") or run.said("method")
    name = at(data, "name") or at(settings, "data", "data") or "unknown data"
    where = "one holder" if run.baseline else graph_words(run)
    rounds = whole(run.said("rounds"))
    unit = "epochs" if run.baseline else "rounds"
    planned = rounds if rounds is not None else at(settings, "algorithm", "rounds")
    return f"{algorithm}{f' ({method})' if method else ''} on {name} · {where} · {planned} {unit}"


def graph_words(run: RunFacts) -> str:
    """Return the graph in words."""
    agents = run.part[1] if run.part is not None else len(run.agents)
    named = run.said("topology") or at(run.settings or {}, "network", "topology")
    return f"{agents:,} agents, {named}" if isinstance(named, str) else f"{agents:,} agents"


def cards(run: RunFacts) -> Raw:
    """Return the key figures."""
    promise, spent = words.promise_of(run), run.largest("spent")
    if not run.header:
        privacy = [("Privacy", "unknown", "no ledger of this run verifies")]
    elif not run.private:
        privacy = [("Privacy", "none", "records are used without noise")]
    else:
        proven = "would be proven with secret noise" if run.seeded else "proven"
        delta = f"delta {promise.delta:g}, {run.header['adjacency']}, a record"
        privacy = (
            [("Epsilon promised", above(promise.epsilon), f"{proven}; {delta}")]
            if promise.claimed is None
            else [
                ("Epsilon claimed", above(promise.claimed), f"the paper's arithmetic, not proven; {delta}"),
                ("Epsilon proven", above(promise.epsilon), "of the planned worst case"),
            ]
        )
        if run.header.get("trust") == "masked":
            privacy[-1] = (*privacy[-1][:2], f"against {words.colluders_of(run)} at most; {privacy[-1][2]}")
            unmasked = real(run.said("privacy", "epsilon_if_all_collude")) or run.largest("unmasked")
            privacy.append(("Epsilon if all collude", above(unmasked), f"{proven}, without masks; {delta}"))
        holder = "" if run.baseline or len(run.agents) < 2 else "largest agent; "
        privacy.append(("Epsilon spent", above(spent), f"{holder}odometer reading, no promise"))
        if run.faults:
            privacy = [(name, value, "by the ledgers that do verify; do not rely on it") for name, value, _ in privacy]
    error = at(run.summary, "test_error")
    consensus = real(at(error, "consensus"))
    over = "of the model that every agent holds"
    if not run.baseline and real(at(error, "std")):
        over = f"of the agents' average; mean of their own models {error_of(run, real(at(error, 'mean')))}"
    only = one_class(run.summary or {})
    over = over if only is None else f"{only}; {over}"
    items = [
        *privacy,
        (measure(run).capitalize(), error_of(run, consensus), over if consensus is not None else "not there"),
        *_in_units(error),
        *held_against(run),
        ("Ledgers", state(run), count(len(run.books), "agent")),
    ]
    if run.private and run.header:
        noise = (
            ("seeded", "a simulation: protects nothing") if run.seeded else ("secret", "keyed by the operating system")
        )
        items.insert(len(privacy), ("Noise", *noise))
    shown_ = []
    for name, value, note in items:
        bad = value == "seeded" or note == WORSE or (only is not None and note == over)
        bad = bad or (bool(run.faults) and name.startswith(("Ledgers", "Epsilon")))
        parts = zip(("label", "value", "note"), (name, value, note), strict=True)
        lines = (tag("div", words_, class_=kind) for kind, words_ in parts)
        shown_.append(tag("div", *lines, class_="card alarm" if bad else "card"))
    return tag("div", *shown_, class_="cards")


def _in_units(error: Any) -> list[tuple[str, str, str]]:
    """Card of the error in the unit of real targets; none of classes, and of older runs."""
    root, r2 = (real(at(error, name)) for name in ("root_in_units", "r2"))
    if root is None:
        return []
    share = "" if r2 is None else f"; R² {figure(r2)}, 0 is what the mean has"
    return [("Root mean square error", figure(root), f"in the target's own unit{share}")]


def summary(run: RunFacts, *, several: bool) -> Raw:
    """Return the summary: key figures, what went otherwise, what the run says of itself."""
    data, said = at(run.summary, "data"), run.said
    train = whole(at(data, "train")) or sum(agent.records or 0 for agent in run.agents)
    features, test = whole(at(data, "features")), whole(at(data, "test"))
    rows: list[tuple[str, Any]] = [
        ("Folder", tag("code", str(run.path))),
        ("Trained", subtitle(run)),
        ("Records", f"{train:,} for training" + ("" if test is None else f", {test:,} for testing")),
        ("Features", DASH if features is None else f"{features:,}"),
        ("Accountant", _accountant(run)),
        ("Carried by", said("transport") or DASH),
        ("Bytes sent", DASH if whole(said("bytes_sent")) is None else f"{said('bytes_sent'):,}"),
        ("Wall time", DASH if real(at(said("seconds"), "total")) is None else f"{said('seconds')['total']:g} s"),
    ]
    pure = real(at(said("baseline"), "pure_epsilon"))
    if pure is not None:
        rows.insert(5, ("Pure epsilon", f"{above(pure)}, with delta = 0 (summary.json)"))
    notes = said("notes")
    happened = incidents.incidents(run)
    return join(
        (
            _faults(run) if several or len(run.faults) > SHOWN else "",
            cards(run),
            tag("div", tag("h4", "What went otherwise"), bullets(happened), class_="aside") if happened else "",
            pairs(rows),
            join((tag("h4", "Notes of the run"), bullets(notes))) if isinstance(notes, list) and notes else "",
        )
    )


def _faults(run: RunFacts) -> Raw:
    if not run.faults:
        return Raw("")
    return tag(
        "div",
        tag("h4", "✗ Faults of this run"),
        tag("ul", *(tag("li", tag("code", fault)) for fault in run.faults[:200])),
        None if len(run.faults) <= 200 else tag("p", f"and {len(run.faults) - 200} more"),
        class_="banner bad",
    )


def _accountant(run: RunFacts) -> str:
    if not run.private:
        return "none"
    if run.header["accountant"] == "proven":
        return "proven: what is proved calibrated the noise and guarded the budget"
    return "published: the paper's arithmetic calibrated the noise and guarded the budget"


def meaning(run: RunFacts) -> Raw:
    """Return the plain words."""
    said = [join((tag("h4", name), tag("p", paragraph))) for name, paragraph in words.meaning(run)]
    heading = "Not covered" if run.private else "Also to know"
    return tag(
        "div", tag("div", *said), tag("div", tag("h4", heading), bullets(words.uncovered(run))), class_="columns prose"
    )


def book_words(book: Book) -> str:
    """Return the result of a ledger's verification in words."""
    if book.account is None:
        return book.fault or "does not verify"
    said = ["chain whole, costs and totals recomputed"]
    if book.listed is not None:
        said.append("digest is the one in summary.json")
    if not book.account.finished:
        said.append("unfinished: no end line")
    if book.account.torn:
        said.append("last line cut off, counts for nothing")
    said += [f"resumed from round {round_} after {events} events" for round_, events in book.resumes]
    if book.listed is None:
        said.append("no digest to compare")
    return "; ".join(said)


def verification(run: RunFacts) -> Raw:
    """Return which file was verified, with which result."""
    rows = [
        tag(
            "tr",
            tag("th", book.name, scope="row"),
            tag("td", "-" if book.account is None else f"{book.account.count:,}"),
            tag("td", book_words(book), class_="t alarm" if book.account is None else "t"),
            tag("td", tag("code", book.digest, class_="digest"), class_="t"),
        )
        for book in run.books
    ]
    digest = "there is none" if run.summary_digest is None else run.summary_digest
    files = table(("Ledger", "Events", "Result", "sha256"), rows, class_="files")
    return join(
        (
            tag("p", "sha256 of summary.json: ", tag("code", digest, class_="digest")),
            tag("details", tag("summary", f"Every ledger ({len(rows):,})"), files, open=len(rows) <= 20),
            tag("h4", "What this cannot show"),
            bullets(words.unverified()),
        )
    )


def settings(run: RunFacts) -> Raw:
    """Return config.toml as tables."""
    if run.settings is None:
        return tag("p", "There is no config.toml.")
    idle = None
    if run.header and not run.private:
        idle = tag("p", "This method has no privacy: what stands under privacy, such as epsilon, had no effect.")
    parts = [
        tag("div", tag("h4", name), pairs((key, shown(value)) for key, value in values.items()))
        for name, values in run.settings.items()
        if values
    ]
    return join((idle or "", tag("div", *parts, class_="tiles")))


def versions(run: RunFacts) -> Raw:
    """Return the versions of what made the run."""
    told = run.said("versions")
    if not isinstance(told, Mapping):
        wrote = run.header.get("admmnet")
        return tag("p", f"Ledgers written by admmnet {wrote}." if wrote else "Not there.")
    return pairs((key, shown(value)) for key, value in told.items())


def shown(value: Any) -> str:
    """Return a setting for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
