"""The report of folders that were tampered with, of wrong requests, and of names that are attacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from admmnet.cli.report import report
from admmnet.errors import CheckFailed, RequestError
from admmnet.report.html import make_report
from tests.report_pages import HOSTILE, Page, copy, damaged, hostile, page, rewrite


def invoke(*words: object) -> None:
    with click.Context(report) as context:
        context.invoke(report, **report.make_context("report", [str(word) for word in words]).params)


def test_a_fault_is_on_top_and_the_page_is_made(private: Path, tmp_path: Path) -> None:
    folder, out = damaged(private, tmp_path / "run"), tmp_path / "report.html"
    with pytest.raises(CheckFailed, match=r"agent-002\.jsonl: line 3: rho is .*says so on top"):
        invoke(folder, "-o", out, "--quiet")
    html = out.read_text(encoding="utf-8")
    found = Page(html)
    assert html.index('role="alert"') < html.index("<main")
    assert f"{folder}/ledger/agent-002.jsonl: line 3: rho is" in found.text
    assert found.data["runs"] == []  # nothing else is said of it
    assert "epsilon" not in found.text
    both = make_report([private, folder])
    assert len(both.faults) == 1
    good = make_report([private]).html
    assert 'role="alert"' not in good
    assert "1 of 2 runs" in both.html
    assert len(Page(both.html).data["runs"]) == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda s: s["per_agent"][1].update(epsilon_spent=0.1), r"agent 1: epsilon_spent is 0\.1"),
        (lambda s: s["per_agent"][1].update(epsilon_proven=0.1), r"agent 1: epsilon_proven is 0\.1, its ledger says"),
        (lambda s: s["privacy"].update(epsilon_proven=0.1), r"privacy\.epsilon_proven is 0\.1, by the"),
        (lambda s: s["per_agent"][1].update(epsilon_target=0.1), r"agent 1: epsilon_target is 0\.1"),
        (lambda s: s["per_agent"][1].update(delta=1e-9), "agent 1: delta is 1e-09"),
        (lambda s: s["per_agent"][0].update(records=10**6), "agent 0: records is 1000000"),
        (lambda s: s["privacy"].update(epsilon_spent=0.01), r"privacy\.epsilon_spent is 0\.01"),
        (lambda s: s["privacy"].update(adjacency="zero-out"), "adjacency is 'zero-out'"),
        (lambda s: s.update(seeded=True), "seeded is True, the ledgers say False"),
        (lambda s: s["ledgers"].update({"ledger/agent-001.jsonl": "0" * 64}), "its sha256 is not the one"),
        (lambda s: s.pop("ledgers"), "missing key `ledgers`"),
    ],
)
def test_a_summary_that_contradicts_the_ledgers(
    change: Callable[[dict[str, Any]], object], fault: str, private: Path, tmp_path: Path
) -> None:
    folder = copy(private, tmp_path / "run")
    rewrite(folder, change)
    found = make_report([folder])
    assert any(re.search(fault, line) for line in found.faults), found.faults
    assert 'role="alert"' in found.html


def test_requests_that_are_wrong(seeded: Path, tmp_path: Path) -> None:
    (tmp_path / "run.html").mkdir()
    for folders, message in (
        ([tmp_path], "is no run folder"),
        ([seeded, seeded], "named twice"),
        ([tmp_path / "gone"], "gone is no run folder: there is nothing of that name; name a folder"),
    ):
        with pytest.raises(RequestError, match=message):
            make_report(folders)
    a_folder = r"is a folder: name a page in it, such as .*/report\.html"
    for out, message in (
        ("report.pdf", r"ends in \.html"),
        ("none/report.html", r"none/report\.html: there is no folder .*none: make it"),
        ("", a_folder),
        ("run.html", a_folder),
    ):
        with pytest.raises(RequestError, match=message):
            invoke(seeded, "-o", tmp_path / out, "--quiet")


def test_the_command_says_what_it_wrote(seeded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invoke(seeded, "-o", tmp_path / "a.html")
    assert re.fullmatch(r".*a\.html: 1 run, \d+ kB\n", capsys.readouterr().out)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == make_report([seeded]).html


# hostile names


def test_text_from_files_is_text(seeded: Path, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "|")
    folder = hostile(seeded, tmp_path / name)
    attacked, honest = page(folder), page(copy(seeded, tmp_path / "run"))
    for tag in ("script", "img", "style", "body"):
        assert [t for t, _ in attacked.tags].count(tag) == [t for t, _ in honest.tags].count(tag)
    assert re.sub(r"\s+", " ", HOSTILE) in attacked.text
    assert attacked.data["runs"][0]["name"] == name
    assert [raw for kind, raw in attacked.scripts if not kind] == [raw for kind, raw in honest.scripts if not kind]
    (raw,) = (raw for kind, raw in attacked.scripts if kind)
    assert not set("<>&\u2028") & set(raw)


def test_a_name_in_a_fault_is_text(private: Path, tmp_path: Path) -> None:
    folder = damaged(private, tmp_path / "<img src=x onerror=alert(1)>")
    html = make_report([folder]).html
    assert "<img" not in html
    assert "&lt;img" in html
