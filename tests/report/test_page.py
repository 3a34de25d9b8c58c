"""The report's page: what it says is what the folder says, and text from files stays text."""

from __future__ import annotations

import hashlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from admmnet.cli import run_command_line
from admmnet.errors import RequestError
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.audit import read
from admmnet.record.format import epsilon, number
from admmnet.report import page
from admmnet.report.page import certainty, make_report
from tests.report_pages import HOSTILE, copy, damaged, hostile, rewrite, words_of
from tests.run_folders import made, unfinished

Folders = dict[str, Path]


class Tags(HTMLParser):
    """Elements of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_it_is_one_file_without_script_the_same_each_time(seeded: Path, private: Path) -> None:
    html = make_report([seeded, private]).html
    assert make_report([seeded, private]).html == html
    for tag, attributes in Tags(html).found:
        assert tag not in ("script", "iframe", "object", "embed", "base", "form", "link")
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        assert all((attributes.get(key) or "#").startswith(("#", "data:image/svg")) for key in ("href", "src"))
    assert "default-src 'none'" in html


def test_text_from_files_is_text(seeded: Path, private: Path, tmp_path: Path) -> None:
    attacked = make_report([hostile(seeded, tmp_path / HOSTILE.replace("/", "|"))]).html
    honest = make_report([copy(seeded, tmp_path / "run")]).html
    tags, right = ([tag for tag, _ in Tags(html).found] for html in (attacked, honest))
    assert all(tags.count(tag) == right.count(tag) for tag in ("img", "style", "body", "section", "details"))
    assert "script" not in tags
    fault = make_report([damaged(private, tmp_path / "<img src=x onerror=alert(1)>")])
    assert "<img" not in fault.html
    assert "agent-002.jsonl: line 3: " in fault.html


def test_a_fault_stands_on_top_and_no_figure_beside_it(private: Path, tmp_path: Path) -> None:
    folder, other, out = damaged(private, tmp_path / "run"), copy(private, tmp_path / "other"), tmp_path / "report.html"
    rewrite(other, lambda summary: summary["privacy"].update(epsilon_proven=0.1))
    assert run_command_line(["report", str(folder), "-o", str(out), "--quiet"]) == 1
    html = out.read_text(encoding="utf-8")
    assert html.index('role="alert"') < html.index("<main")
    assert "epsilon" not in html
    assert "agent-002.jsonl: line 3: " in html
    both = make_report([private, folder, other])
    assert len(both.faults) == 2
    assert "privacy.epsilon_proven is 0.1, by the" in both.faults[1]
    assert both.html.count("<section") == 1
    assert "2 of 3 runs" in both.html
    assert run_command_line(["report", str(private), "-o", str(out), "--quiet"]) == 0
    assert 'role="alert"' not in out.read_text(encoding="utf-8")


def test_figures_are_those_of_the_ledgers(folders: Folders) -> None:
    text = words_of(folders["published"])
    for file in (folders["published"] / "ledger").iterdir():
        total = read(file).events[-1][2]["total"]
        assert hashlib.sha256(file.read_bytes()).hexdigest() in text
        figures = number(total["rho"]), epsilon(total["epsilon_spent"]), epsilon(total["epsilon_published"])
        assert " ".join(figures) in text


def test_rounds_with_equal_events_share_a_row(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    account = read(folders["published"] / "ledger/agent-000.jsonl")
    rows = list(page._rows(account))
    assert sum(n for _, charges, *_ in rows for n, _, _ in charges) == len(account.events)
    total = account.events[-1][2]["total"]["rho"]
    assert sum(float(figures[0]) for _, _, figures, _ in rows) == pytest.approx(total, rel=1e-3)
    assert any(" to " in rounds for rounds, *_ in rows)
    monkeypatch.setattr(page, "LINES", len(rows))
    assert "no room for the lines of the other ledgers" in words_of(folders["published"])


def test_the_page_knows_the_release_of_every_mechanism() -> None:
    assert set(page.RELEASED) == set(EVENTS)


def test_it_promises_by_kind_of_run(folders: Folders) -> None:
    common = "What is protected is one record, not a person", "so the reading is a diagnostic and no guarantee"
    seeded = ("Of the same run with secret noise, fixed", "Of this run itself, quote no epsilon as a protection.")
    secret = ("is the figure to quote, with its delta", "this bound leaves at most 73.11% right guesses")
    own: dict[str, tuple[str, ...]] = {
        "seeded": (*common, *seeded),
        "private": (*common, *secret),
        "published": (*common, "Parts of that do not hold: it is a claim without a proof"),
        "open": ("This run had no privacy",),
        "baseline": ("Nothing is proven of the worst case", "Do not set it beside a replace-one figure without"),
        "away": ("the others went on: agent 1 in 3-5",),
        "part": ("the part of agent 2, one of 5",),
    }
    texts = {kind: words_of(folders[kind]) for kind in own}
    assert [(kind, said) for kind, text in texts.items() for said in own[kind] if said not in text] == []
    assert "figure to quote" not in texts["seeded"]
    assert "Delta is above" not in texts["private"]
    assert "differentially private" not in texts["open"]


def test_a_comparison_shows_each_difference(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    text = words_of(folders["seeded"], folders["private"])
    assert "Comparison of 2 runs" in text
    assert "different deltas" in text
    assert "compare proven figures with" not in text
    differ = text[text.index("Settings that differ") : text.index("Pictures")]
    assert "seed" in differ
    assert "shutdown_deadline" not in differ
    monkeypatch.setattr("admmnet.report.run_plot.MOST_RUNS", 2)
    text = words_of(*(folders[kind] for kind in ("private", "published", "open")))
    assert "compare proven figures with proven figures" in text
    assert "all of them together cost more" in text
    assert "No picture: a picture shows 1 to 2 runs, got 3" in text


def test_runs_that_ended_early_refused_agents_accounts_and_masked_sums(private: Path, tmp_path: Path) -> None:
    folder = unfinished(private, tmp_path / "died", rounds=3, agents=5)
    with (folder / "ledger" / "agent-001.jsonl").open("ab") as ledger:
        ledger.write(b'{"kind":"event","rou')
    text = words_of(folder)
    assert "The run is unfinished: there is no summary.json" in text
    assert "The last line of 1 ledger is cut off" in text
    assert "unfinished: no end line, last line cut off, counts for nothing" in text
    folder = copy(private, tmp_path / "run")
    rewrite(folder, lambda summary: summary["per_agent"][4].update(refused_at=5))
    text = words_of(folder)
    assert "The budget refused: agent 4 in round 5" in text
    assert "budget refused from round 5, ledger verified" in text
    added: dict[str, Any] = {"account": str(tmp_path / "account"), "no_account": False, "seed": None, "simulate": True}
    text = words_of(made(tmp_path / "first", rounds=1, **added))
    assert "this run's share alone" in text
    assert "account epsilon" in text
    assert "The ledgers begin at zero" not in text
    masked = {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1, "topology": "complete:5", "delta": 1e-3}
    text = words_of(made(tmp_path / "masked", **masked))
    assert "the second epsilon rests on no cryptography and no trust. Quote both." in text
    assert "eps B" in text
    assert "their noise is discrete, and rounding is counted in" in text
    assert "Delta is above 0.1 / records for 5 of 5 agents (agent " in text


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_without_the_extra_it_names_the_command(
    module: str, seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    out = tmp_path / "report.html"
    assert run_command_line(["report", str(seeded), "-o", str(out)]) == 2
    assert "run: pip install 'admmnet[plot]'" in capsys.readouterr().err
    assert not out.exists()


def test_requests_that_are_wrong(seeded: Path, tmp_path: Path, capsys: Any) -> None:
    for folders, message in (([], "needs a run"), ([tmp_path], "no run folder"), ([seeded, seeded], "named twice")):
        with pytest.raises(RequestError, match=message):
            make_report(folders)
    for out in ("report.pdf", "none/report.html", ""):
        assert run_command_line(["report", str(seeded), "-o", str(tmp_path / out)]) == 2
    assert re.search(r"ends in \.html.*there is no folder.*is a folder", capsys.readouterr().err, re.DOTALL)
    assert run_command_line(["report", str(seeded), "-o", str(tmp_path / "a.html")]) == 0
    assert re.fullmatch(r".*a\.html: 1 run, \d+ kB\n", capsys.readouterr().out)


def test_the_odds_are_those_of_randomised_response() -> None:
    """At delta = 0 the bound is attained: the true bit is told with probability e^eps / (1 + e^eps)."""
    assert certainty(1.0, 0.0) == pytest.approx(0.7310585786)
    assert certainty(0.0, 0.2) == pytest.approx(0.6)  # total variation delta
    assert certainty(700.0, 0.1) == 1.0
