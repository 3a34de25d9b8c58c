"""The report: what the page says is what the folder says; test_report_faults.py has what is wrong with it."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from admmnet.forms import encode
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.audit import read
from admmnet.record.format import epsilon, number, parameters, percent
from admmnet.report.html import compact, make_report
from admmnet.report.html.words import RELEASED, certainty, meaning, uncovered
from admmnet.report.series import read_series
from tests.report_pages import Page, copy, page, rechained, rewrite, sound
from tests.run_folders import ROUNDS, made, part_of, unfinished, with_away


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "run"
    return made(folder, algorithm="ipp-admm", method="published", max_releases=3)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("plain") / "run", algorithm="admm", epsilon=None)


def words_of(folder: Path) -> str:
    return " ".join(f"{name}. {text}" for name, text in meaning(sound(folder)))


# the page as a file


def test_it_needs_nothing_from_outside(seeded: Path, private: Path) -> None:
    html = make_report([seeded, private]).html
    assert make_report([seeded, private]).html == html
    found = Page(html)
    for tag, attributes in found.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        href = attributes.get("href")
        assert href is None or href.startswith(("#", "data:image/png;base64,")) or href == "data:,"
    for text in (found.style, *(raw for kind, raw in found.scripts if not kind)):
        assert not re.search(
            r"\burl\(|@import|fetch\(|XMLHttp|WebSocket|import\(|innerHTML|insertAdjacent|document\.write|eval\(", text
        )
        assert re.findall(r"https?://[^\"\s]*", text) in ([], ["http://www.w3.org/2000/svg"])


def test_its_policy_names_its_own_script_and_style_alone(seeded: Path) -> None:
    found = page(seeded)
    (policy,) = (a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (script,) = (raw for kind, raw in found.scripts if not kind)
    for name, text in {"script-src": script, "style-src": found.style}.items():
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    assert "connect-src" not in rules


def test_without_matplotlib_it_says_what_is_missing(seeded: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, versus = page(seeded), page(seeded, plain)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for found, drawn in ((page(seeded), whole), (page(seeded, plain), versus)):
        assert "pip install 'admmnet[plot]'" in found.text
        assert "pip install" not in drawn.text
        assert "svg" in dict(drawn.tags)
        assert "svg" not in dict(found.tags)
        assert "What that means" in found.text
        assert found.data["runs"][0]["ledger"] == drawn.data["runs"][0]["ledger"]


def test_charts_are_the_figures(seeded: Path) -> None:
    run, series = page(seeded).data["runs"][0], read_series(seeded)
    charts = {chart["name"]: chart for chart in run["charts"]}
    assert list(charts) == ["error", "loss", "privacy", "gap", "broadcasts"]
    for name, each, says in (
        ("error", 100.0 * series.agents["test_error"], lambda value: percent(value / 100.0)),
        ("privacy", series.epsilon_spent, epsilon),
    ):
        histories = charts[name]["each"]
        for agent, values in enumerate(each.T):
            place = histories["of"][agent]
            assert histories["lines"][place] == pytest.approx(values.tolist(), rel=1e-4)
            assert histories["said"][place] == [says(value) for value in values.tolist()]
    words, rounds, values = charts["error"]["lines"][0]
    assert (words, rounds) == ("consensus", series.rounds.tolist())
    assert values == [percent(value) for value in series.network["test_error"]]
    assert charts["broadcasts"]["rows"] == ["2" * ROUNDS] * 5
    assert run["graph"]["nodes"] == [0, 1, 2, 3, 4]
    assert len(run["graph"]["edges"]) == 10


def test_links_lead_to_parts_of_the_page(seeded: Path, private: Path) -> None:
    found = page(seeded, private)
    names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = {str(attributes["href"])[1:] for tag, attributes in found.tags if tag == "a"}
    labels = {str(attributes["aria-labelledby"]) for _, attributes in found.tags if "aria-labelledby" in attributes}
    assert links | labels <= set(names)
    assert len(links) > 15


# what it says


def test_figures_are_those_of_the_ledgers(published: Path) -> None:
    found, facts = page(published), sound(published)
    (run,) = found.data["runs"]
    promised = [entry["epsilon_proven"] for entry in facts.said("per_agent")]
    assert [agent.figures()["promised"] for agent in facts.agents] == promised
    accounts = [read(file) for file in sorted((published / "ledger").iterdir())]
    for agent, account in enumerate(accounts):
        total = account.events[-1][2]["total"]
        assert run["spent"][agent] == epsilon(total["epsilon_spent"])
        assert epsilon(total["epsilon_spent"]) in found.text
        flat = run["ledger"]["rows"][run["ledger"]["of"][str(agent)]]
        left = [(round_, line) for round_, _, line in account.events]
        for when, what, place in zip(*[iter(flat)] * 3, strict=True):
            first, *more = map(int, run["ledger"]["rounds"][when].split(" to "))
            inside = [line for round_, line in left if first <= round_ <= (more or [first])[0]]
            left = left[len(inside) :]
            kinds, rho, claim = run["ledger"]["whats"][what]
            assert Counter({(name, words): times for times, name, words in kinds}) == Counter(
                (line["mechanism"], parameters(line["parameters"])) for line in inside
            )
            costs = [[line[key] for line in inside] for key in ("rho", "rho_published")]
            assert (rho, claim) == tuple(number(None if None in own else sum(own)) for own in costs)
            sums = inside[-1]["total"]
            expected = [number(sums["rho"]), epsilon(sums["epsilon_spent"]), epsilon(sums["epsilon_published"])]
            assert run["ledger"]["totals"][place] == expected
        assert not left
        digest = hashlib.sha256((published / f"ledger/agent-{agent:03d}.jsonl").read_bytes()).hexdigest()
        assert digest in found.text


def test_without_script_tables_and_words_are_there(seeded: Path) -> None:
    found = page(seeded)
    for said in (
        "census: pp-admm (proven)",
        ": 5 ledgers, 60 events hold",
        "What that means",
        "Relation: replace-one",
        "topology",
    ):
        assert said in found.text
    assert "JavaScript, which is off here" in found.text
    assert f" {sound(seeded).said('data', 'train'):,} for training, " in found.text
    assert found.text.count("digest is the one in summary.json") == 5
    rows = [attributes for tag, attributes in found.tags if tag == "tr" and "data-a" in attributes]
    assert len(rows) == 5


def test_promises_by_kind_of_run(seeded: Path, private: Path, published: Path, plain: Path) -> None:
    text = words_of(seeded)
    assert "Of the same run with secret noise" in text
    assert "figure to quote" not in text
    text = words_of(private)
    assert "simulation" not in text
    assert "is the figure to quote" in text
    assert "at most 73.11% right guesses" in text
    assert "Guarantee and spending" in text
    text = words_of(published)
    assert "Parts of that do not hold: it is a claim without a proof" in text
    assert "(proven epsilon, delta)-differentially private" in text
    assert "Of both, this is the figure to quote" not in text  # of a simulation none is
    text = words_of(plain)
    assert "This run had no privacy" in text
    assert "promise" not in text
    for folder in (private, published, plain):
        assert " ".join(sound(folder).verdict.lines()[0].split()) in page(folder).text
    found = page(plain, private)
    assert "no privacy" in found.text
    assert "the settings under privacy, such as epsilon, had no effect" in found.text


def test_a_baseline_of_zero_out_with_scaled_columns(tmp_path: Path) -> None:
    """No figure covers them, so the summary claims no spent epsilon where the ledger has one: no fault."""
    from admmnet.cli import run_command_line

    words = ["baseline", "primal-dp-scd", "--method", "published", "--seed", "0", "--epochs", "1", "--quiet"]
    assert run_command_line([*words, "-o", str(tmp_path / "run")]) == 0
    assert make_report([tmp_path / "run"]).faults == ()
    text, found = words_of(tmp_path / "run"), page(tmp_path / "run")
    assert "Nothing is proven of the worst case" in text
    assert "Relation: zero-out" in text
    assert "replace-one takes" not in text
    assert "for every agent" not in text
    assert (found.data["runs"][0]["graph"], found.data["runs"][0]["unit"]) == (None, "epoch")
    assert "Many agents" not in found.text
    rewrite(tmp_path / "run", lambda summary: summary["privacy"].update(epsilon_spent=0.01))
    assert len(make_report([tmp_path / "run"]).faults) == 1


def test_what_is_not_covered(seeded: Path, private: Path, tmp_path: Path) -> None:
    assert any("Test records are taken to be public" in line for line in uncovered(sound(seeded)))
    assert not any("Test records" in line for line in uncovered(sound(private)))
    loose = made(tmp_path / "loose", delta=1e-4)
    assert any("Delta is above 0.1" in line for line in uncovered(sound(loose)))
    assert "64-bit floating point" in " ".join(uncovered(sound(seeded)))
    for algorithm, rounds in (("noisy-gd", ROUNDS), ("ssp", None)):  # whose theorems speak of the integers that leave
        told = " ".join(uncovered(sound(made(tmp_path / algorithm, algorithm=algorithm, rounds=rounds))))
        assert "64-bit floating point" not in told
        assert "their noise is discrete" in told
    folder = copy(private, tmp_path / "run")
    for agent in range(5):
        rechained(folder, agent, lambda header: header.update(preprocessing="data-dependent"))
    text = " ".join(uncovered(sound(folder)))
    assert "Preprocessing was data-dependent" in text
    assert "or values decided which agent holds a record" in text
    assert "Preprocessing used public bounds" not in text


def test_masked_sums_have_a_second_epsilon(tmp_path: Path) -> None:
    masked = {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1, "topology": "complete:5", "delta": 1e-5}
    facts = sound(made(tmp_path / "run", **masked))
    for agent in facts.agents:
        last = agent.account.events[-1][2]["total"]
        assert agent.figures()["unmasked"] == last["epsilon_if_all_collude"] > last["epsilon_spent"]
    assert "Two epsilons: whom an agent trusts" in dict(meaning(facts))


def test_partial_and_unfinished_runs(seeded: Path, tmp_path: Path) -> None:
    found = page(with_away(seeded, tmp_path / "away", agent=3, round=2))
    assert "Agents took no part in some rounds, and the others went on: agent 3 in 2-5." in found.text
    assert "ledger verified, unfinished" in found.text
    found = page(unfinished(seeded, tmp_path / "died", rounds=3, agents=5))
    assert "The run is unfinished" in found.text
    assert "every listed file is as the run wrote it" not in found.text
    assert "5 without an end line" in found.text
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
        out.write(encode(line) + b"\n")
    found = page(folder)
    assert "went on from round 2" in found.text
    assert [result.endswith("resumed from round 2") for result in found.data["runs"][0]["results"]] == [
        agent == 1 for agent in range(5)
    ]


def test_refused_agents_and_accounts(private: Path, tmp_path: Path) -> None:
    folder = copy(private, tmp_path / "run")
    rewrite(folder, lambda summary: summary["per_agent"][4].update(refused_at=5))
    found = page(folder)
    assert "The budget refused: agent 4 in round 5" in found.text
    assert "budget refused from round 5, ledger verified" in found.text
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
    # folders of one name are told apart
    assert len({run["name"] for run in found.data["runs"]}) == 4
    start = found.text.index("Settings that differ")
    differing = found.text[start : found.text.index("Charts", start)]
    assert "max_releases" in differing
    assert "shutdown_deadline" not in differing


# words and weight


def test_the_odds_are_those_of_randomised_response() -> None:
    """At delta = 0 the bound is attained: the true bit is told with probability e^eps / (1 + e^eps)."""
    assert certainty(1.0, 0.0) == pytest.approx(0.7310585786)
    assert certainty(0.0, 0.0) == 0.5
    assert certainty(0.0, 0.2) == pytest.approx(0.6)  # total variation delta
    assert certainty(700.0, 0.1) == 1.0


def test_equal_rounds_share_rows(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = sound(published).agents
    found = compact.ledgers(agents)
    for agent in agents:
        flat, account = found["rows"][found["of"][agent.agent]], agent.account
        times = [sum(kind[0] for kind in found["whats"][what][0]) for what in flat[1::3]]
        assert sum(times) == len(account.events)
        assert found["totals"][flat[-1]][1] == epsilon(account.events[-1][2]["total"]["epsilon_spent"])
        rhos = [float(found["whats"][what][1]) for what in flat[1::3]]
        assert sum(rhos) == pytest.approx(account.events[-1][2]["total"]["rho"], rel=1e-3)
        assert any(" to " in found["rounds"][when] for when in flat[::3])
    monkeypatch.setattr(compact, "ROWS", 4)
    assert 0 < len(compact.ledgers(agents)["of"]) < len(agents)  # there is room for some


def test_the_page_knows_what_every_mechanism_releases() -> None:
    assert set(RELEASED) == set(EVENTS)
