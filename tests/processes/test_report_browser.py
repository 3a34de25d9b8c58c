"""The report in a headless Chromium: no complaint, no request, and everything that moves does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from admmnet.record.format import epsilon, number
from admmnet.report.html import make_report
from tests.report_pages import HOSTILE, damaged, hostile
from tests.run_folders import made, with_away

from .browser import Browser, found

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(found() is None, reason="no Chromium: install one, as apt-get install chromium"),
]
NARROW, WIDE = 390, 1280


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    gated = made(home / "gated", algorithm="ipp-admm", method="published", max_releases=3)
    private = made(home / "private", seed=None)
    return {
        "gated": gated,
        "private": private,
        "open": made(home / "open", algorithm="admm", epsilon=None),
        "away": with_away(gated, home / "away", agent=3, round=2),
        "bad": damaged(private, home / "bad"),
        "hostile": hostile(made(home / "source"), home / HOSTILE.replace("/", "|")),
    }


@pytest.fixture(scope="module")
def pages(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("pages")
    chosen = {name: [folder] for name, folder in runs.items()}
    chosen["several"] = [runs["gated"], runs["private"], runs["open"]]
    files = {name: home / f"{name}.html" for name in chosen}
    for name, file in files.items():
        file.write_text(make_report(chosen[name]).html, encoding="utf-8", errors="backslashreplace")
    return files


NAMES = ("gated", "private", "open", "away", "bad", "hostile", "several")


@pytest.mark.parametrize(("name", "width"), [*((name, NARROW) for name in NAMES), ("several", WIDE)])
def test_it_loads_without_complaint_or_request(
    name: str, width: int, chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.open(pages[name], width)
    chromium.run("for (const part of document.querySelectorAll('details')) part.open = true")
    settled(chromium)
    assert chromium.run("document.documentElement.dataset.ready") == "yes"
    assert chromium.complaints() == []
    asked = [address for address in chromium.requests() if not address.startswith("data:image/png;base64,")]
    assert asked == [pages[name].resolve().as_uri()]
    assert chromium.run("document.documentElement.scrollWidth") <= width
    charts = chromium.run("document.querySelectorAll('figure svg').length")
    assert charts > 0 or name == "bad"
    assert chromium.run("[...document.images, ...document.querySelectorAll('iframe, object')].length") == 0


def test_what_it_is_tested_for_would_be_seen(chromium: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """A page that asks for something, or fails, is told from a good one; its policy refuses both."""
    file = tmp_path / "bad.html"
    text = pages["gated"].read_text(encoding="utf-8")
    file.write_text(text.replace("<main", "<img src='https://example.invalid/a.png'><main", 1), encoding="utf-8")
    chromium.open(file)
    assert any("Content Security Policy" in line for line in chromium.complaints())
    file.write_text(text.replace("<main", "<script>alert(1)</script><main", 1), encoding="utf-8")
    chromium.open(file)
    assert any("Content Security Policy" in line for line in chromium.complaints())
    file.write_text(
        re.sub("<meta http-equiv=[^>]*>", "", text).replace('"use strict";', "nothing();", 1), encoding="utf-8"
    )
    chromium.open(file)
    assert any("nothing is not defined" in line for line in chromium.complaints())


def settled(chromium: Browser) -> None:
    """Wait until the page has been laid out and drawn twice."""
    chromium.run(
        "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => go(1)))))"
    )


def column(chromium: Browser, title: str) -> list[str]:
    script = f"""(() => {{
      const table = document.querySelector('.sortable'), heads = [...table.tHead.rows[0].cells];
      const k = heads.findIndex((head) => head.textContent === {json.dumps(title)});
      return [...table.tBodies[0].rows].map((row) => row.cells[k].textContent);
    }})()"""
    values: list[str] = chromium.run(script)
    return values


def aria(chromium: Browser, title: str) -> str:
    return str(chromium.run(f"{head(title)}.closest('th').getAttribute('aria-sort')"))


def head(title: str) -> str:
    return (
        "[...document.querySelectorAll('.sortable thead th')]"
        f".find((th) => th.textContent === {json.dumps(title)}).querySelector('button')"
    )


def chosen(chromium: Browser) -> tuple[str, str, str]:
    """Agent of the marked row, of the ledger below and of the graph's box."""
    return (
        chromium.run("document.querySelector('tr[aria-current=true] th').textContent"),
        chromium.run("document.querySelector('.book h4').textContent.match(/Agent (\\d+)/)[1]"),
        chromium.run("document.querySelector('.drawing h4').textContent.match(/Agent (\\d+)/)[1]"),
    )


def click(chromium: Browser, script: str) -> None:
    """Click with the mouse in the middle of an element."""
    x, y = chromium.run(
        f"(() => {{ const node = {script}; node.scrollIntoView({{block: 'center'}}); "
        "const box = node.getBoundingClientRect(); "
        "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    chromium.click(x, y)


def test_sorting_by_mouse_and_keyboard(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["gated"])
    assert aria(chromium, "Agent") == "ascending"
    before = column(chromium, "Spent ε")
    click(chromium, head("Spent ε"))
    assert column(chromium, "Spent ε") == sorted(before, key=float)
    assert (aria(chromium, "Spent ε"), aria(chromium, "Agent")) == ("ascending", "none")
    chromium.press("Enter")  # the focus is on the heading
    assert column(chromium, "Spent ε") == sorted(before, key=float, reverse=True)
    assert aria(chromium, "Spent ε") == "descending"
    chromium.run(f"{head('Agent')}.focus()")
    chromium.press("Enter")
    assert column(chromium, "Agent") == ["0", "1", "2", "3", "4"]
    assert chromium.complaints() == []


def test_an_agent_is_chosen_in_table_graph_field_and_by_keys(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["gated"])
    assert chosen(chromium) == ("0", "0", "0")
    click(chromium, "document.querySelectorAll('.sortable tbody tr')[3].querySelector('td')")
    assert chosen(chromium) == ("3", "3", "3")
    assert chromium.run("document.querySelector('.chooser input').value") == "3"
    assert "agent 3" in chromium.run("document.querySelector('figcaption .mine').textContent")
    click(chromium, "document.querySelector('.network use[data-agent=\"1\"]')")
    assert chosen(chromium) == ("1", "1", "1")
    chromium.run("document.querySelector('.network svg').focus()")
    chromium.press("ArrowRight")
    assert chosen(chromium) == ("2", "2", "2")
    chromium.run("document.querySelector('tr[aria-current=true] button').focus()")
    chromium.press("ArrowDown")
    assert chosen(chromium) == ("3", "3", "3")
    assert chromium.run("document.activeElement.textContent") == "3"
    field = "document.querySelector('.chooser input')"
    chromium.run(f"{field}.value = 99; {field}.dispatchEvent(new Event('change'))")
    assert chosen(chromium) == ("4", "4", "4")
    assert chromium.run(f"{field}.value") == "4"
    tabs = chromium.run(
        "[...document.querySelectorAll('.sortable tbody button')].filter((b) => b.tabIndex === 0).length"
    )
    assert tabs == 1  # one stop for the whole table, however many agents
    assert chromium.complaints() == []


def test_the_ledger_shows_every_round_and_its_total(
    chromium: Browser, pages: dict[str, Path], runs: dict[str, Path]
) -> None:
    chromium.open(pages["gated"])
    lines = (runs["gated"] / "ledger" / "agent-000.jsonl").read_bytes().splitlines()
    events = [line for line in map(json.loads, lines) if line["kind"] == "event"]
    rows = chromium.run(
        "[...document.querySelectorAll('.book tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    places = [[int(place) for place in row[0].split(" to ")] for row in rows]
    assert [place for own in places for place in range(own[0], own[-1] + 1)] == sorted({e["round"] for e in events})
    for row, own in zip(rows, places, strict=True):
        inside = [event for event in events if own[0] <= event["round"] <= own[-1]]
        total = inside[-1]["total"]
        assert row[1:3] == [epsilon(total["epsilon_spent"]), epsilon(total["epsilon_published"])]
        assert row[4:] == [
            *(number(sum(e[key] for e in inside)) for key in ("rho", "rho_published")),
            number(total["rho"]),
        ]
        assert all(event["mechanism"] in row[3] for event in inside)


def test_hover_and_keys_read_the_charts(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["gated"])
    svg = "document.querySelector('figure svg[role=img]')"
    x, y, wide, high = chromium.run(
        f"(() => {{ {svg}.scrollIntoView({{block: 'center'}}); const b = {svg}.getBoundingClientRect(); "
        "return [b.x, b.y, b.width, b.height]; })()"
    )
    chromium.move(x + wide - 13, y + high / 2)
    said = chromium.run("document.querySelector('figure .readout').textContent")
    assert re.match(r"round 5: consensus \d+\.\d\d% · median agent \d+\.\d\d% · agent 0 \d+\.\d\d%$", said)
    chromium.move(x + wide / 2, y - 200)
    assert chromium.run("document.querySelector('figure .readout').textContent") == ""
    chromium.run(f"{svg}.focus()")
    for key, round_ in (("Home", 0), ("ArrowRight", 1), ("End", 5), ("ArrowLeft", 4)):
        chromium.press(key)
        said = chromium.run("document.querySelector('figure .readout').textContent")
        assert said.startswith(f"round {round_}: ")


def test_without_script_the_tables_are_there(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["several"], scripts=False)
    shot = chromium.call("DOM.getDocument", depth=-1)
    text = json.dumps(shot)
    assert "shown with JavaScript, which is off here" in text
    assert "What that means" in text
    assert "ledger verified" in text
    assert chromium.complaints() == []
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("name", ["gated", "several"])
def test_it_prints(name: str, chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages[name])
    chromium.run(
        "window.seen = null; window.addEventListener('beforeprint', () => { window.seen = ["
        "document.querySelectorAll('details:not([open])').length,"
        "[...document.querySelectorAll('.run figure')].filter((f) => !f.querySelector('svg path')).length,"
        "document.querySelectorAll('.book h4').length]; })"
    )
    raw = chromium.pdf()
    assert raw.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", raw)) >= 3
    shut, empty, books = chromium.run("window.seen")
    assert (shut, empty) == (0, 0)
    assert books >= 5  # every agent's ledger, as there are few
    assert chromium.run("document.querySelectorAll('details.whole[open]').length") == 0
    assert chromium.complaints() == []
    chromium.call("Emulation.setEmulatedMedia", media="print")
    cut = chromium.run(
        "[...document.querySelectorAll('.scroll')].filter((b) => getComputedStyle(b).overflowX !== 'visible' ||"
        " getComputedStyle(b).maxHeight !== 'none').length"
    )
    chromium.call("Emulation.setEmulatedMedia", media="")
    assert cut == 0


CONTRAST = """(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/rgba\\(.*, 0\\)/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const node of document.querySelectorAll("body *:not(script):not(svg *)")) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([node.tagName, node.className, ratio]);
  }
  return low;
})()"""


@pytest.mark.parametrize("name", ["gated", "bad", "several"])
def test_text_is_dark_enough_and_named(name: str, chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages[name])
    chromium.run("for (const part of document.querySelectorAll('details')) part.open = true")
    settled(chromium)
    assert chromium.run(CONTRAST) == []
    unnamed = chromium.run(
        "[...document.querySelectorAll('svg[tabindex], svg[role=img]')]"
        ".filter((svg) => !svg.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
