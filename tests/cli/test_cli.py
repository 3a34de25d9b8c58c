from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.__main__ import main
from admmnet.cli import run_command_line
from admmnet.cli.progress import Progress
from admmnet.config.run_config import known_settings, own_settings
from admmnet.report import tables
from admmnet.running.plan import Plan
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT
from tests.people_runs import put_summary

PUBLISHED = ("--algorithm", "pp-admm", "--method", "published", "--rounds", "3", "--seed", "4")


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    words = ("run", "--data", people, "--topology", "ring:5", *PUBLISHED, "--quiet", "-o", str(folder))
    assert run_command_line(words) == 0
    return folder


def test_flags_or_a_file_without_a_command_mean_run(
    people: str, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    admmnet.ok("--data", people, *PUBLISHED, "--no-test", "--no-account")
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-pp-admm", folder.name)
    assert (folder / "summary.json").is_file()
    (tmp_path / "mine.toml").write_text(
        f'[data]\ndata = "{people}"\n[algorithm]\nalgorithm = "admm"\nrounds = 1\n[run]\nsimulate = true\n'
    )
    admmnet.ok("mine.toml", "--out", "there")
    assert json.loads((tmp_path / "there" / "summary.json").read_text())["algorithm"] == "admm"


def test_no_words_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["admmnet"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "Usage: admmnet" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()
    module, environ = [sys.executable, "-m", "admmnet"], {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(module, env=environ, capture_output=True, timeout=100, check=True)
    assert b"ipp-admm" in run.stdout
    assert b"on census" in run.stdout
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_closing_table(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    printed = admmnet.ok("run", "--data", people, "--topology", "ring:5", *PUBLISHED, "-o", str(tmp_path / "run"))
    rows = [line.split() for line in printed.out.splitlines()]
    assert [row[0] for row in rows if row and row[0].isdecimal()] == ["0", "1", "2", "3", "4"]
    (network,) = (row for row in rows if row and row[0] == "network")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert network[1] == str(summary["data"]["train"])
    assert f"{100 * summary['test_error']['consensus']:.2f}%" in network
    assert str(tmp_path / "run") in printed.out
    assert "note:" not in printed.out
    assert printed.err.count("note: ") == len(summary["notes"]) > 0
    assert "a seeded run is a simulation" in printed.err


def test_json_is_the_summary(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    printed = admmnet.ok("run", "--data", people, *PUBLISHED, "--json", "-o", str(tmp_path / "run"))
    assert json.loads(printed.out) == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_quiet(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    for name, words in (("one", ()), ("two", ("--json",))):
        printed = admmnet.ok("run", "--data", people, *PUBLISHED, "--quiet", *words, "-o", str(tmp_path / name))
        assert printed[1:] == ("", "")


def test_help_lists_every_flag(admmnet: Admmnet) -> None:
    general = admmnet.ok("--help").out
    for command in ("run", "ledger", "topology"):
        assert re.search(rf"^  {command} ", general, re.MULTILINE)
    listed = admmnet.ok("run", "--help").out
    for own in known_settings().values():
        assert (own.flag in listed) is (own.name != "budgets"), own.name
    assert "--growth" not in listed
    listed_for = admmnet.ok("run", "--algorithm", "m-admm", "--help").out
    for own in own_settings("m-admm").values():
        assert own.flag in listed_for
    for flag in ("-o", "--quiet", "--json", "--debug"):
        assert flag in listed
    assert "0.1.0" in admmnet.ok("--version").out
    for words in (("ledger", "verify"), ("ledger", "show"), ("ledger", "export"), ("topology", "make")):
        assert "Usage: admmnet" in admmnet.ok(*words, "--help").out


def test_a_config_file_and_flags_over_it(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(
        f"""
        [data]
        data = '{people}'
        test_fraction = 0.2
        [network]
        topology = 'star:4'
        [problem]
        regularisation = 50
        [algorithm]
        algorithm = 'pp-admm'
        method = 'published'
        rounds = 2
        [privacy]
        epsilon = 2
        [privacy.agents.3]
        epsilon = 0.5
        [run]
        seed = 8
        """
    )
    words = ("run", str(config), "--rounds", "3", "--delta", "1e-5", "--json", "-o", str(tmp_path / "run"))
    summary = json.loads(admmnet.ok(*words).out)
    assert (summary["rounds"], summary["topology"], summary["data"]["test"]) == (3, "star:4", 60)
    assert (summary["privacy"]["epsilon_target"], summary["privacy"]["delta"]) == (2.0, 1e-5)
    budgets = [
        json.loads((tmp_path / f"run/ledger/agent-00{i}.jsonl").read_text().splitlines()[0])["budget"]["epsilon"]
        for i in range(4)
    ]
    assert budgets == [2.0, 2.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("algorithm", "own"),
    [
        ("admm", ()),
        ("pp-admm", ()),
        ("ipp-admm", ("--max-releases", "3")),
        ("dvp", ()),
        ("m-admm", ("--growth", "1.1")),
        ("r-admm", ("--gamma", "0.5")),
    ],
)
def test_resolved_settings_reproduce_the_run(
    algorithm: str, own: tuple[str, ...], people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    words = ("--algorithm", algorithm, "--method", "published", "--rounds", "4", "--seed", "4", "--epsilon", "1e4")
    admmnet.ok("run", "--data", people, *words, *own, "--agents", "6", "-o", str(one))
    admmnet.ok("run", str(one / "config.toml"), "--quiet", "-o", str(two))
    assert (one / "config.toml").read_text() == (two / "config.toml").read_text()
    with np.load(one / "model.npz") as first, np.load(two / "model.npz") as second:
        assert first["theta"].any()
        assert first["theta"].tobytes() == second["theta"].tobytes()
    for path in (one / "ledger").iterdir():
        assert path.read_bytes() == (two / "ledger" / path.name).read_bytes()


def test_ledger_show(finished: Path, admmnet: Admmnet) -> None:
    printed = admmnet.ok("ledger", "show", str(finished)).out
    rows = [line.split() for line in printed.splitlines()]
    assert [row[0] for row in rows if row and row[-1] == "finished"] == ["0", "1", "2", "3", "4"]
    one = admmnet.ok("ledger", "show", str(finished), "--agent", "3", "--events").out
    assert "agent 3: pp-admm (published)" in one
    assert one.count("objective-perturbation") == one.count("gaussian") == 3
    assert "agent 2" not in one


def test_ledger_show_json(finished: Path, admmnet: Admmnet) -> None:
    accounts: list[dict[str, Any]] = json.loads(admmnet.ok("ledger", "show", str(finished), "--json").out)
    summary = json.loads((finished / "summary.json").read_text())
    assert [account["header"]["agent"] for account in accounts] == [0, 1, 2, 3, 4]
    for account, entry in zip(accounts, summary["per_agent"], strict=True):
        assert account["count"] == 6
        assert account["finished"] is True
        assert account["total"]["rho"] == pytest.approx(entry["rho"], rel=1e-9)
        assert account["total"]["epsilon_spent"] == pytest.approx(entry["epsilon_spent"], rel=1e-9)
        assert "events" not in account
    words = ("ledger", "show", str(finished), "--json", "--agent", "1", "--events", "--delta", "1e-9")
    (account,) = json.loads(admmnet.ok(*words).out)
    assert [event["round"] for event in account["events"]] == [0, 0, 1, 1, 2, 2]
    assert account["delta"] == 1e-9
    assert account["total"]["epsilon_spent"] > accounts[1]["total"]["epsilon_spent"]
    assert account["total"]["rho"] == accounts[1]["total"]["rho"]


def test_ledger_verify(finished: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    printed = admmnet.ok("ledger", "verify", str(finished))
    assert "5 ledgers, 30 events hold; the run is finished" in printed.out
    copied = Path(shutil.copytree(finished, tmp_path / "run"))
    ledger = copied / "ledger/agent-002.jsonl"
    header, *events = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(header + "".join(events).replace('"sigma":', '"sigma":1', 1))
    for words in (("verify",), ("show",), ("export",)):
        said = admmnet.refused("ledger", *words, str(copied), code=1)
        assert re.fullmatch(r"admmnet: .*agent-002\.jsonl: line 2: .*\n", said), said


def test_ledger_verify_names_a_changed_summary(finished: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    copied = Path(shutil.copytree(finished, tmp_path / "run"))
    summary = json.loads((copied / "summary.json").read_text())
    summary["ledgers"]["ledger/agent-004.jsonl"] = "0" * 64
    put_summary(copied, summary)
    printed = admmnet.refused("ledger", "verify", str(copied), code=1)
    assert "agent-004.jsonl" in printed
    assert "summary.json" in printed


def test_ledger_export(finished: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    printed = admmnet.ok("ledger", "export", str(finished), "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    columns = ["agent", "round", "mechanism", "parameters", "rho", "xi", "rho_published"]
    totals = ["total_rho", "total_xi", "total_epsilon_spent", "total_epsilon_published"]
    assert list(rows[0]) == columns + totals
    assert [row["agent"] for row in rows] == [str(i) for i in range(5) for _ in range(6)]
    assert set(json.loads(rows[0]["parameters"])) >= {"sensitivity", "sigma"}
    total = sum(float(row["rho"]) for row in rows if row["agent"] == "2")
    assert float(rows[17]["total_rho"]) == pytest.approx(total, rel=1e-12)
    told = admmnet.ok("ledger", "export", str(finished), "-o", str(tmp_path / "charges.csv")).out
    assert told == f"{tmp_path / 'charges.csv'}: 30 events of 5 ledgers\n"
    assert (tmp_path / "charges.csv").read_text() == printed


@pytest.mark.parametrize("ending", ["edges", "json", "graphml", "gml", "adjlist"])
def test_topology_make_and_show(ending: str, tmp_path: Path, admmnet: Admmnet) -> None:
    path = str(tmp_path / f"graph.{ending}")
    made = admmnet.ok("topology", "make", "erdos-renyi:8:0.4", "--seed", "3", "-o", path).out
    facts = json.loads(admmnet.ok("topology", "show", path, "--json").out)
    assert f"8 agents, {facts['edges']} edges" in made
    assert facts == json.loads(admmnet.ok("topology", "show", "erdos-renyi:8:0.4", "--seed", "3", "--json").out)
    table = admmnet.ok("topology", "show", path).out
    assert re.search(r"^edges: +" + str(facts["edges"]) + "$", table, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ("topology", "make", "ring:5", "-o", "graph.edges"),
        ("topology", "show", "ring:5"),
        ("network", "init", "ring:5", "--relay", "localhost:7000", "-o", "net"),
    ],
)
def test_a_seed_that_decides_nothing_is_refused(
    words: tuple[str, ...], tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = admmnet.refused(*words, "--seed", "3")
    assert "--seed 3 goes with a random graph, not topology = 'ring:5': leave it out" in said
    assert list(tmp_path.iterdir()) == []


def test_topology_plot(tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    printed = admmnet.ok("topology", "show", "ring:5", "--plot", str(tmp_path / "ring.svg"))
    assert "ring.svg" in printed.out
    assert "<svg" in (tmp_path / "ring.svg").read_text()
    with monkeypatch.context() as patch:  # refused before anything is computed
        patch.setattr("admmnet.graph.describe", None)
        refused = admmnet("topology", "show", "ring:1001", "--plot", str(tmp_path / "ring.png"))
    assert refused.code == 2
    assert "1001 agents are too many to draw" in refused.err


def test_a_file_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ring.edges"
    admmnet.ok("topology", "make", "ring:5", "-o", str(path))
    ring, write = path.read_bytes(), Path.write_text

    def full(place: Path, text: str, **how: Any) -> int:
        write(place, text[:9], **how)
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(Path, "write_text", full)
    printed = admmnet("topology", "make", "ring:9", "-o", str(path))
    assert (printed.code, path.read_bytes(), list(tmp_path.iterdir())) == (2, ring, [path])
    assert f"{path}: cannot be written: File too large" in printed.err


def test_a_made_topology_is_run(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    path = str(tmp_path / "graph.edges")
    admmnet.ok("topology", "make", "star:3", "-o", path)
    summary = json.loads(
        admmnet.ok("run", "--data", people, "--topology", path, *PUBLISHED, "--json", "-o", str(tmp_path / "run")).out
    )
    assert summary["agents"] == 3
    assert summary["topology"] == path


def test_advice_comes_before_the_run_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[str] = []
    start = Progress.start

    def watched(self: Progress, plan: Plan) -> None:
        start(self, plan)
        before.append(capsys.readouterr().err)

    monkeypatch.setattr(Progress, "start", watched)
    few = ("--agents", "20", "--epsilon", "0.05", "--rounds", "1", "--test-fraction", "0.98", "--seed", "0")
    assert run_command_line(("run", *few, "-o", str(tmp_path / "run"))) == 0
    assert before[0].count("noise may leave") == 1
    after = capsys.readouterr()
    assert "noise may leave" not in after.err + after.out
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert sum("noise may leave" in note for note in summary["notes"]) == 1


def test_names_with_colons_are_no_pictures(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ("--data", people, "--topology", "ring:100", "--rounds", "1", "--algorithm", "admm", "--seed", "0")
    assert "ring:100, 1 round," in admmnet.ok("run", *words, "-o", tmp_path / "run").out
    summary = json.loads((tmp_path / "run/summary.json").read_text())  # :100: is the name of one
    table = tables.run_text(summary | {"topology": "erdos-renyi:100:0.5"}, tmp_path)
    assert "erdos-renyi:100:0.5" in table
