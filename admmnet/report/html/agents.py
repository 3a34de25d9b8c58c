"""The table of agents, which the page's script sorts."""

from __future__ import annotations

from admmnet.report.html.facts import AgentFacts, Book, RunFacts
from admmnet.report.html.markup import Raw, tag
from admmnet.report.html.sections import DASH, error_of
from admmnet.report.html.words import above

_COLUMNS = (
    ("agent", "Agent", "number of the agent"),
    ("records", "Records", "training records"),
    ("degree", "Degree", "neighbours"),
    ("releases", "Releases", "vectors it broadcast"),
    ("events", "Events", "lines of its ledger"),
    ("epsilon_target", "Budget ε", "epsilon of its ledger's header"),
    ("epsilon_proven", "Worst case ε", "proven before the run; summary.json"),
    ("spent", "Spent ε", "odometer: proven epsilon of what was released, from the ledger"),
    (
        "unmasked",
        "Spent ε, all collude",
        "spent, of its own noise alone: all other agents together, or masks that fail",
    ),
    ("published", "Paper's ε", "the same by the paper's arithmetic"),
    ("account_spent", "Account ε", "all runs of its account; summary.json"),
    ("test_error", "Error", "of its vector on the test records"),
)


def agents_table(run: RunFacts, prefix: str) -> Raw:
    """Return the table of agents."""
    columns = [
        column
        for column in _COLUMNS
        if column[0] == "agent" or any(getattr(agent, column[0]) is not None for agent in run.agents)
    ]
    head = []
    for key, title, note in (*columns, (None, "State", None)):
        button = tag("button", title, type="button", title=note)
        order = "ascending" if key == "agent" else "none"
        look = {"data_key": key, "data_title": title, "class_": "t" if key is None else None}
        head.append(tag("th", button, scope="col", aria_sort=order, **look))
    books = {book.name: book for book in run.books}
    rows = [
        _agent_row(run, agent, books.get(agent.book or ""), columns, place) for place, agent in enumerate(run.agents)
    ]
    label = f"{prefix}-agents-title"
    inside = tag("thead", tag("tr", *head)), tag("tbody", *rows)
    content = tag("table", *inside, class_="sortable", aria_labelledby=label)
    return tag("div", content, class_="scroll tall", tabindex="0", role="region", aria_labelledby=label)


def _agent_row(
    run: RunFacts, agent: AgentFacts, book: Book | None, columns: list[tuple[str, str, str]], place: int
) -> Raw:
    cells = []
    for key, _, _ in columns:
        value = getattr(agent, key)
        if key == "agent":
            button = tag("button", value, type="button", tabindex=None if place == 0 else "-1")
            cells.append(tag("th", button, scope="row", data_v=value))
        else:
            cells.append(tag("td", _cell(run, key, value), data_v=value))
    word, bad = _state(agent, book)
    return tag("tr", *cells, tag("td", word, class_="t alarm" if bad else "t"), data_a=place)


def _cell(run: RunFacts, key: str, value: float | None) -> str:
    if value is None:
        return DASH
    if key == "test_error":
        return error_of(run, value)
    return f"{value:,}" if isinstance(value, int) else above(value)


def _state(agent: AgentFacts, book: Book | None) -> tuple[str, bool]:
    """Return what became of an agent and its ledger in words, and whether that is a fault."""
    if book is not None and book.fault is not None:
        return "ledger does not verify", True
    said = [] if agent.part is None else [agent.part]
    if agent.lost_at is not None:
        said.append(f"lost in round {agent.lost_at}")
    if agent.refused_at is not None:
        said.append(f"budget refused from round {agent.refused_at}")
    if book is None:
        said.append("ledger not here")
    elif book.account is not None:
        said.append("ledger verified" if book.account.finished else "ledger verified, unfinished")
    return ", ".join(said), False
