"""The report: what the page says is what the folder says, faults are on top, and nothing in a file is markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest

from admmnet.cli.report import report
from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy.audit import read
from admmnet.report.html import compact, layout, make_report
from admmnet.report.html.facts import Book, read_facts
from admmnet.report.html.words import above, certainty, meaning, promise_of, uncovered
from tests.run_folders import ROUNDS, made, part_of, unfinished, with_lost

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}&\"'\u2028"
VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """Elements of a page, checked to be nested; text and attributes as a reader sees them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.style = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append((self.tags[-1][1].get("type") or "", data))
        elif inside == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def data(self) -> dict[str, Any]:
        (raw,) = (raw for kind, raw in self.scripts if kind == "application/json")
        found: dict[str, Any] = json.loads(raw)
        return found


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("seeded") / "run")


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("private") / "run", seed=None, epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "run"
    return made(folder, algorithm="ipp-admm", method="published", max_releases=3)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("plain") / "run", algorithm="admm", epsilon=None)


def page(*folders: Path) -> Page:
    made_ = make_report(folders)
    assert made_.faults == ()
    return Page(made_.html)


def words_of(folder: Path) -> str:
    return " ".join(f"{name}. {text}" for name, text in meaning(read_facts(folder, "run")))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change summary.json."""
    file = folder / "summary.json"
    summary = json.loads(file.read_text(encoding="utf-8"))
    change(summary)
    file.write_text(json.dumps(summary), encoding="utf-8")


def rechained(folder: Path, agent: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a ledger's header and make the chain and the digest hold again."""
    file = folder / "ledger" / f"agent-{agent:03d}.jsonl"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    change(lines[0])
    raw: list[bytes] = []
    for line in lines:
        if raw:
            line["previous"] = hashlib.sha256(raw[-1]).hexdigest()
        raw.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode())
    file.write_bytes(b"\n".join(raw) + b"\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    rewrite(folder, lambda summary: summary["ledgers"].update({f"ledger/{file.name}": digest}))


def copy(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


# the page as a file


def test_it_needs_nothing_from_outside(seeded: Path, private: Path) -> None:
    html = make_report([seeded, private]).html
    found = Page(html)
    for tag, attributes in found.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        href = attributes.get("href")
        assert href is None or href.startswith("#") or href == "data:,"
    for text in (found.style, *(raw for kind, raw in found.scripts if not kind)):
        assert not re.search(
            r"\burl\(|@import|fetch\(|XMLHttp|WebSocket|import\(|innerHTML|insertAdjacent|document\.write|eval\(",
            text,
        )
        assert re.findall(r"https?://[^\"\s]*", text) in ([], ["http://www.w3.org/2000/svg"])


def test_its_policy_names_its_own_script_and_style_alone(seeded: Path) -> None:
    found = page(seeded)
    (policy,) = (a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (script,) = (raw for kind, raw in found.scripts if not kind)
    digest = {
        "script-src": script,
        "style-src": found.style,
    }
    for name, text in digest.items():
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    assert "connect-src" not in rules


def test_the_same_folders_give_the_same_bytes(seeded: Path, private: Path) -> None:
    assert make_report([seeded, private]).html == make_report([seeded, private]).html


def test_links_lead_to_parts_of_the_page(seeded: Path, private: Path) -> None:
    found = page(seeded, private)
    names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = {str(attributes["href"])[1:] for tag, attributes in found.tags if tag == "a"}
    labels = {
        str(attributes["aria-labelledby"]) for _, attributes in found.tags if "aria-labelledby" in attributes
    }
    assert links | labels <= set(names)
    assert len(links) > 15


# what it says


def test_figures_are_those_of_the_ledgers(published: Path) -> None:
    found = page(published)
    (run,) = found.data["runs"]
    accounts = [read(file) for file in sorted((published / "ledger").iterdir())]
    for agent, account in enumerate(accounts):
        total = account.events[-1][2]["total"]
        assert run["spent"][agent] == pytest.approx(total["epsilon_spent"], rel=1e-6)
        assert above(total["epsilon_spent"]) in found.text
        flat = run["ledger"]["rows"][run["ledger"]["of"][f"ledger/agent-{agent:03d}.jsonl"]]
        assert len(flat) == 5 * len(account.events)
        for k, (round_, _, line) in enumerate(account.events):
            first, last, pattern, times, place = flat[5 * k : 5 * k + 5]
            kind, count = run["ledger"]["patterns"][pattern]
            mechanism, parameters, rho, xi, claim = run["ledger"]["kinds"][kind]
            assert (first, last, times, count) == (round_, round_, 1, 1)
            assert (mechanism, parameters) == (line["mechanism"], line["parameters"])
            assert (rho, xi, claim) == pytest.approx(
                (line["rho"], line["xi"], line["rho_published"]), rel=1e-8
            )
            sums = line["total"]
            expected = (sums["rho"], sums["epsilon_spent"], sums["epsilon_published"])
            assert run["ledger"]["totals"][place] == pytest.approx(expected, rel=1e-6)
        digest = hashlib.sha256((published / f"ledger/agent-{agent:03d}.jsonl").read_bytes()).hexdigest()
        assert digest in found.text


def test_without_script_tables_and_words_are_there(seeded: Path) -> None:
    found = page(seeded)
    for said in (
        "The ledgers verify",
        "Epsilon promised",
        "What that means",
        "Relation: replace-one",
        "ledger verified",
        "pp-admm",
        "topology",
        "numpy",
        "JavaScript, which is off here",
    ):
        assert said in found.text
    rows = [attributes for tag, attributes in found.tags if tag == "tr" and "data-a" in attributes]
    assert len(rows) == 5


def test_promises_by_kind_of_run(seeded: Path, private: Path, published: Path, plain: Path) -> None:
    text = words_of(seeded)
    assert "this run protects nothing" in text
    assert "with epsilon 5 and" in text
    assert "Of the same run with secret noise" in text
    assert "figure to quote" not in text
    text = words_of(private)
    assert "simulation" not in text
    assert "This is the figure to quote" in text
    assert "with epsilon 1 and delta 1e-06" in text
    assert "at most 73.11 % right guesses" in text
    assert "odometer" in text
    text = words_of(published)
    assert "It is the paper's claim and no proof stands behind it" in text
    proven = json.loads((published / "summary.json").read_bytes())["privacy"]["epsilon_proven"]
    assert f"worst case is epsilon {above(proven)}" in text
    assert "This is the figure to quote" not in text
    assert promise_of(read_facts(published, "run")).epsilon == proven
    text = words_of(plain)
    assert "This run had no privacy" in text
    assert "promise" not in text
    assert promise_of(read_facts(plain, "run")).epsilon is None
    assert "no privacy" in page(plain, private).text


def test_nothing_proven_is_said_so(published: Path, tmp_path: Path) -> None:
    folder = copy(published, tmp_path / "run")
    rewrite(folder, lambda summary: summary["privacy"].update(epsilon_proven=None))
    assert "Nothing is proven of the worst case" in words_of(folder)


def test_a_baseline_of_zero_out(tmp_path: Path) -> None:
    from admmnet.cli import run_command_line

    words = ["baseline", "dp-sgd", "--epsilon", "2", "--seed", "0", "--epochs", "1", "--quiet"]
    assert run_command_line([*words, "-o", str(tmp_path / "run")]) == 0
    text = words_of(tmp_path / "run")
    assert "Relation: zero-out" in text
    assert "replace-one takes" not in text
    assert "for every agent" not in text
    found = page(tmp_path / "run")
    assert found.data["runs"][0]["graph"] is None
    assert found.data["runs"][0]["unit"] == "epoch"
    assert "Many agents" not in found.text


def test_what_is_not_covered(seeded: Path, private: Path, tmp_path: Path) -> None:
    assert any(
        "Test records are taken to be public" in line for line in uncovered(read_facts(private, "run"))
    )
    assert any("Delta is above 0.1" in line for line in uncovered(read_facts(seeded, "run")))
    folder = copy(private, tmp_path / "run")
    for agent in range(5):
        rechained(folder, agent, lambda header: header.update(preprocessing="data-dependent"))
    text = " ".join(uncovered(read_facts(folder, "run")))
    assert "Preprocessing was data-dependent" in text
    assert "Preprocessing used public bounds" not in text
    rewrite(folder, lambda summary: summary["data"].update(test=0))
    assert "Test records" not in " ".join(uncovered(read_facts(folder, "run")))


def test_lost_unfinished_and_partial_runs(seeded: Path, tmp_path: Path) -> None:
    found = page(with_lost(seeded, tmp_path / "lost", agent=3, round=2))
    assert "Lost on the way: agent 3 in round 2" in found.text
    assert "lost in round 2, ledger verified, unfinished" in found.text
    assert found.data["runs"][0]["spent"][3] is not None
    found = page(unfinished(seeded, tmp_path / "died", rounds=3, agents=5))
    assert "The run is unfinished" in found.text
    assert "every digest is" not in found.text
    assert "but 5 ledgers of unfinished runs or lost agents have none" in found.text
    found = page(part_of(seeded, tmp_path / "part", agent=2, agents=5))
    assert "part of agent 2, one of 5" in found.text
    assert found.data["runs"][0]["agents"] == [2]
    torn = unfinished(seeded, tmp_path / "torn", rounds=3, agents=5)
    with (torn / "ledger" / "agent-001.jsonl").open("ab") as file:
        file.write(b'{"kind":"event","rou')
    assert "The last line of 1 ledger is cut off" in page(torn).text


def test_resumed_ledgers_say_where(private: Path, tmp_path: Path) -> None:
    folder = unfinished(private, tmp_path / "run", rounds=3, agents=5)
    file = folder / "ledger" / "agent-001.jsonl"
    last = file.read_bytes().splitlines()[-1]
    line = {"kind": "resume", "round": 2, "previous": hashlib.sha256(last).hexdigest()}
    with file.open("ab") as out:
        out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    found = page(folder)
    assert "went on from round 2" in found.text
    events = len(read(file).events)
    assert found.data["runs"][0]["ledger"]["resumes"] == {"ledger/agent-001.jsonl": [[2, events]]}


def test_refused_agents_and_accounts(private: Path, tmp_path: Path) -> None:
    folder = copy(private, tmp_path / "run")
    rewrite(folder, lambda summary: summary["per_agent"][4].update(refused_at=3))
    found = page(folder)
    assert "The budget refused: agent 4 in round 3" in found.text
    assert "budget refused from round 3, ledger verified" in found.text
    account = tmp_path / "account"
    made(tmp_path / "first", account=str(account), rounds=1)
    text = words_of(tmp_path / "first")
    assert "this run's share alone" in text
    assert "The ledgers begin at zero" not in text


def test_comparison(seeded: Path, private: Path, published: Path, plain: Path) -> None:
    found = page(seeded, private, published, plain)
    assert "Comparison of 4 runs" in found.text
    assert "Settings that differ" in found.text
    assert "different deltas" in found.text
    assert "paper's arithmetic: compare proven figures" in found.text
    assert len(found.data["runs"]) == 4
    assert [name for tag, a in found.tags if tag == "details" and (name := a.get("id"))] == [
        "r0",
        "r1",
        "r2",
        "r3",
    ]
    # folders of one name are told apart
    assert len({run["name"] for run in found.data["runs"]}) == 4
    start = found.text.index("Settings that differ")
    differing = found.text[start : found.text.index("Charts", start)]
    assert "max_releases" in differing
    assert "shutdown_deadline" not in differing


# faults


def damaged(source: Path, folder: Path) -> Path:
    """Copy with one sigma changed by hand."""
    copy(source, folder)
    file = folder / "ledger" / "agent-002.jsonl"
    lines = file.read_bytes().split(b"\n")
    line = json.loads(lines[2])
    line["parameters"]["sigma"] *= 2
    lines[2] = json.dumps(line, separators=(",", ":")).encode()
    file.write_bytes(b"\n".join(lines))
    return folder


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
    assert "The ledgers verify" not in found.text
    assert "ledger does not verify" in found.text
    assert "quote none of it" in found.text
    (run,) = found.data["runs"]
    assert run["spent"][2] is None  # nothing of a ledger that does not hold is shown
    assert set(run["ledger"]["of"]) == {f"ledger/agent-{i:03d}.jsonl" for i in (0, 1, 3, 4)}
    both = make_report([private, folder])
    assert len(both.faults) == 1
    assert "1 of 2 runs" in both.html


def test_the_good_banner_needs_a_good_folder(private: Path) -> None:
    html = make_report([private]).html
    assert 'role="alert"' not in html
    assert 'class="banner good"' in html


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda s: s["per_agent"][1].update(epsilon_spent=0.1), r"agent 1: epsilon_spent is 0\.1"),
        (lambda s: s["per_agent"][1].update(epsilon_target=0.1), r"agent 1: epsilon_target is 0\.1"),
        (lambda s: s["per_agent"][1].update(delta=1e-9), "agent 1: delta is 1e-09"),
        (lambda s: s["per_agent"][0].update(records=10**6), "agent 0: records is 1000000"),
        (lambda s: s["privacy"].update(epsilon_spent=0.01), r"privacy\.epsilon_spent is 0\.01"),
        (lambda s: s["privacy"].update(adjacency="zero-out"), "adjacency is 'zero-out'"),
        (lambda s: s.update(seeded=True), "seeded is True, the ledgers say False"),
        (lambda s: s["ledgers"].update({"ledger/agent-001.jsonl": "0" * 64}), "its sha256 is not the one"),
        (lambda s: s.pop("ledgers"), "has no digests"),
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
    with pytest.raises(RequestError, match="is no run folder"):
        make_report([tmp_path])
    with pytest.raises(RequestError, match="named twice"):
        make_report([seeded, seeded])
    with pytest.raises(RequestError, match=r"ends in \.html"):
        invoke(seeded, "-o", tmp_path / "report.pdf")
    with pytest.raises(RequestError, match="cannot be written"):
        invoke(seeded, "-o", tmp_path / "none" / "report.html", "--quiet")


def test_the_command_says_what_it_wrote(
    seeded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke(seeded, "-o", tmp_path / "a.html")
    assert re.fullmatch(r".*a\.html: 1 run, 0\.\d\d MB\n", capsys.readouterr().out)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == make_report([seeded]).html


# hostile names


def hostile(source: Path, folder: Path) -> Path:
    """Copy whose every free text is an attack; it still verifies."""
    copy(source, folder)
    for agent in range(5):
        rechained(folder, agent, lambda header: header.update(algorithm=HOSTILE, admmnet=HOSTILE))
    rewrite(
        folder,
        lambda summary: (
            summary.update(algorithm=HOSTILE, topology=HOSTILE, transport=HOSTILE, notes=[HOSTILE, "\ud800"]),
            summary["data"].update(name=HOSTILE),
            summary["versions"].update({HOSTILE: HOSTILE}),
        ),
    )
    config = folder / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert 'split = "iid"' in text
    config.write_text(text.replace('split = "iid"', f"split = {json.dumps(HOSTILE)}"), encoding="utf-8")
    return folder


def test_text_from_files_is_text(seeded: Path, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "|")
    folder = hostile(seeded, tmp_path / name)
    attacked, honest = page(folder), page(copy(seeded, tmp_path / "run"))
    for tag in ("script", "img", "style", "body"):
        assert [t for t, _ in attacked.tags].count(tag) == [t for t, _ in honest.tags].count(tag)
    assert re.sub(r"\s+", " ", HOSTILE) in attacked.text
    assert attacked.data["runs"][0]["name"] == name
    assert [raw for kind, raw in attacked.scripts if not kind] == [
        raw for kind, raw in honest.scripts if not kind
    ]
    (raw,) = (raw for kind, raw in attacked.scripts if kind)
    assert not set("<>&\u2028") & set(raw)


def test_a_name_in_a_fault_is_text(private: Path, tmp_path: Path) -> None:
    folder = damaged(private, tmp_path / "<img src=x onerror=alert(1)>")
    html = make_report([folder]).html
    assert "<img" not in html
    assert "&lt;img" in html


# words and weight


@pytest.mark.parametrize("value", [0.1234, 1.0, 9.999999999509892, 0.0, 3.0000001, 12.3456, 1e-9])
def test_epsilons_are_rounded_up(value: float) -> None:
    said = float(above(value))
    assert value * (1 - 1e-9) <= said <= value + 0.001


def test_the_odds_are_those_of_randomised_response() -> None:
    """At delta = 0 the bound is attained: the true bit is told with probability e^eps / (1 + e^eps)."""
    assert certainty(1.0, 0.0) == pytest.approx(0.7310585786)
    assert certainty(0.0, 0.0) == 0.5
    assert certainty(0.0, 0.2) == pytest.approx(0.6)  # total variation delta
    assert certainty(700.0, 0.1) == 1.0


def test_many_events_share_rows(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted((published / "ledger").iterdir())
    books = [Book(f"ledger/{file.name}", read(file), None, "", None) for file in files]
    events = {book.name: len(book.account.events) for book in books if book.account is not None}
    for limits, form in (((10**6, 10**6), "lines"), ((1, 10**6), "rounds"), ((1, 6), "blocks")):
        monkeypatch.setattr(compact, "EVENTS", limits[0])
        monkeypatch.setattr(compact, "ROWS", limits[1])
        found = compact.ledgers(books)
        assert found["form"] == form
        for book in books:
            assert book.account is not None
            flat = found["rows"][found["of"][book.name]]
            counts = 0
            for k in range(0, len(flat), 5):
                assert flat[k] <= flat[k + 1] < ROUNDS
                counts += flat[k + 3] * sum(found["patterns"][flat[k + 2]][1::2])
            assert counts == events[book.name]
            last = book.account.events[-1][2]["total"]
            assert found["totals"][flat[-1]][1] == pytest.approx(last["epsilon_spent"], rel=1e-6)
    assert len(found["rows"]) <= 5


@pytest.mark.parametrize("kind", ["ring", "complete", "scattered", "pair", "many"])
def test_places_are_in_the_frame_and_apart(kind: str) -> None:
    edges = {
        "ring": [(i, (i + 1) % 6) for i in range(6)],
        "complete": [(i, j) for i in range(6) for j in range(i)],
        "scattered": [(0, 1), (1, 2), (3, 4)],
        "pair": [(0, 1)],
        "many": [(i, j) for i in range(400) for j in (i + 1, i + 20) if j < 400],
    }[kind]
    nodes = sorted({end for edge in edges for end in edge})
    found = layout.graph(edges, nodes)
    assert found is not None
    assert found == layout.graph(edges, nodes)
    places = list(zip(found["xy"][::2], found["xy"][1::2], strict=True))
    assert len(set(places)) >= 0.98 * len(nodes)
    assert all(0 <= x <= 1000 and 0 <= y <= 1000 for x, y in places)
    assert layout.graph([], list(range(layout.MAX_NODES + 1))) is None
