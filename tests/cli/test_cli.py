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

import click
import pytest

from admmnet.__main__ import main
from admmnet.cli import COMMANDS, run_command_line
from admmnet.cli.run import Progress
from admmnet.cli.settings import leave
from admmnet.config.run_config import known_settings, own_settings
from admmnet.report import tables
from admmnet.running.plan import Plan
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT
from tests.people_runs import put_summary, summary_of, theta_of

PUBLISHED = ("--algorithm", "pp-admm", "--method", "published", "--rounds", "3", "--seed", "4")


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    words = ("run", "--data", people, "--topology", "ring:5", *PUBLISHED, "--quiet", "-o", str(folder))
    assert run_command_line(words) == 0
    return folder


@pytest.mark.usefixtures("_here")
def test_flags_or_a_file_without_a_command_mean_run(people: str, admmnet: Admmnet) -> None:
    admmnet.ok("--data", people, *PUBLISHED, "--no-test", "--no-account")
    (folder,) = Path("runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-pp-admm", folder.name)
    assert summary_of(folder)["mode"] == "simulation"
    Path("mine.toml").write_text(
        f'[data]\ndata = "{people}"\n[algorithm]\nalgorithm = "admm"\nrounds = 1\n[run]\nsimulate = true\n'
    )
    admmnet.ok("mine.toml", "--out", "there")
    assert summary_of(Path("there"))["algorithm"] == "admm"


@pytest.mark.usefixtures("_here")
def test_no_words_at_all(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["admmnet"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "Usage: admmnet" in capsys.readouterr().out
    assert not Path("runs").exists()
    module, environ = [sys.executable, "-m", "admmnet"], {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(module, env=environ, capture_output=True, timeout=100, check=True)
    assert b"ipp-admm" in run.stdout
    assert b"on census" in run.stdout
    assert len(list(Path("runs").iterdir())) == 1


def test_what_is_printed_of_a_run(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    """A table, or the summary with --json, or with --quiet nothing."""
    words = ("run", "--data", people, "--topology", "ring:5", *PUBLISHED)
    printed = admmnet.ok(*words, "-o", tmp_path / "run")
    rows = [line.split() for line in printed.out.splitlines()]
    assert [row[0] for row in rows if row and row[0].isdecimal()] == ["0", "1", "2", "3", "4"]
    (network,) = (row for row in rows if row and row[0] == "network")
    summary = summary_of(tmp_path / "run")
    assert network[1] == str(summary["data"]["train"])
    assert f"{100 * summary['test_error']['consensus']:.2f}%" in network
    assert str(tmp_path / "run") in printed.out
    assert printed.err.count("note: ") == len(summary["notes"]) > 0 == printed.out.count("note: ")
    assert admmnet.json(*words, "-o", tmp_path / "two") == summary_of(tmp_path / "two")
    assert admmnet.ok(*words, "--json", "--quiet", "-o", tmp_path / "three")[1:] == ("", "")


def test_help_lists_every_flag(admmnet: Admmnet) -> None:
    general, listed = admmnet.ok("--help").out, admmnet.ok("run", "--help").out
    assert [name for name in COMMANDS if not re.search(rf"^  {name} ", general, re.MULTILINE)] == []
    own = [setting.flag for setting in known_settings().values() if setting.name != "budgets"]
    assert [flag for flag in (*own, "-o", "--quiet", "--json", "--debug") if flag not in listed] == []
    assert "--growth" not in listed
    growing = admmnet.ok("run", "--algorithm", "m-admm", "--help").out
    assert [setting.flag for setting in own_settings("m-admm").values() if setting.flag not in growing] == []
    assert "0.1.0" in admmnet.ok("--version").out


def test_a_config_file_and_flags_over_it(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    (tmp_path / "mine.toml").write_text(
        f"data = {{data = '{people}', test_fraction = 0.2}}\nnetwork = {{topology = 'star:4'}}\n"
        "algorithm = {algorithm = 'pp-admm', method = 'published', rounds = 2}\nproblem = {regularisation = 50}\n"
        "privacy = {epsilon = 2, agents = {3 = {epsilon = 0.5}}}\nrun = {seed = 8}\n"
    )
    words = ("run", tmp_path / "mine.toml", "--rounds", "3", "--delta", "1e-5", "-o", tmp_path / "run")
    summary = admmnet.json(*words)
    assert (summary["rounds"], summary["topology"], summary["data"]["test"]) == (3, "star:4", 40)
    assert (summary["privacy"]["epsilon_target"], summary["privacy"]["delta"]) == (2.0, 1e-5)
    assert [entry["epsilon_target"] for entry in summary["per_agent"]] == [2.0, 2.0, 2.0, 0.5]
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,0\n2,1\n" * 30)
    (tmp_path / "schema.toml").write_text('[data]\nlabel = "y"\npositive = "1"\n')
    reads = ("run", "--data", tmp_path / "rows.csv", "--schema", tmp_path / "schema.toml", "--seed", "0", "--quiet")
    for value, more in (("1", ()), ("0", ("--positive", "0"))):  # a schema file is one, too
        admmnet.ok(*reads, *more, "--rounds", "1", "-o", tmp_path / value)
        assert f'\npositive = "{value}"\n' in (tmp_path / value / "config.toml").read_text()


def test_resolved_settings_reproduce_the_run(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ("--method", "published", "--rounds", "4", "--seed", "4", "--epsilon", "1e4", "--agents", "6")
    for algorithm, *own in (("ipp-admm", "--max-releases", "3"), ("m-admm", "--growth", "1.1")):
        one, two = tmp_path / algorithm, tmp_path / f"{algorithm}-again"
        admmnet.ok("run", "--data", people, "--algorithm", algorithm, *words, *own, "-o", one)
        admmnet.ok("run", one / "config.toml", "--quiet", "-o", two)
        for name in ("config.toml", "model.npz", *(f"ledger/{path.name}" for path in (one / "ledger").iterdir())):
            assert (one / name).read_bytes() == (two / name).read_bytes(), name
        assert theta_of(one).any()


def test_a_run_that_finishes_without_an_agent_has_a_code_of_its_own(finished: Path) -> None:
    summary, start = summary_of(finished), {"number": 1, "round": 1, "rule": "finish", "cause": ""}
    with pytest.raises(click.exceptions.Exit) as left:
        leave(summary | {"starts": [start | {"members": [0, 2, 3, 4]}]})
    assert left.value.exit_code == 5
    leave(summary | {"starts": [start | {"members": [0, 1, 2, 3, 4]}]})


def test_ledger_show(finished: Path, admmnet: Admmnet) -> None:
    rows = [line.split() for line in admmnet.ok("ledger", "show", finished).out.splitlines()]
    assert [row[0] for row in rows if row and row[-1] == "finished"] == ["0", "1", "2", "3", "4"]
    one = admmnet.ok("ledger", "show", finished, "--agent", "3", "--events").out
    assert "agent 3: pp-admm (published)" in one
    assert one.count("objective-perturbation") == one.count("gaussian") == 3
    assert "agent 2" not in one
    accounts: list[dict[str, Any]] = admmnet.json("ledger", "show", finished)
    for i, (account, entry) in enumerate(zip(accounts, summary_of(finished)["per_agent"], strict=True)):
        assert (account["header"]["agent"], account["count"], account["rounds"], account["finished"]) == (i, 6, 3, True)
        assert "events" not in account
        for name in ("rho", "epsilon_spent"):
            assert account["total"][name] == pytest.approx(entry[name], rel=1e-9)
    (account,) = admmnet.json("ledger", "show", finished, "--agent", "1", "--events", "--delta", "1e-9")
    assert [event["round"] for event in account["events"]] == [0, 0, 1, 1, 2, 2]
    assert account["delta"] == 1e-9
    assert account["total"]["epsilon_spent"] > accounts[1]["total"]["epsilon_spent"]
    assert account["total"]["rho"] == accounts[1]["total"]["rho"]
    said = admmnet.refused("ledger", "show", finished, "--agent", 9)
    assert "--agent 9: the run folder has the agents 0 to 4" in said


def test_ledger_verify(finished: Path, tmp_path: Path, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "5 ledgers, 30 events hold; the run is finished" in admmnet.ok("ledger", "verify", finished).out
    monkeypatch.chdir(finished.parent)
    said = admmnet.refused("ledger", "verify", finished.name, "--against", finished)
    assert f"--against {finished.name}: is the folder itself" in said
    assert "simulation" in admmnet.refused("ledger", "verify", finished, "--require", "private", code=1)
    copied = Path(shutil.copytree(finished, tmp_path / "run"))
    summary = summary_of(copied)
    put_summary(copied, summary | {"ledgers": summary["ledgers"] | {"ledger/agent-004.jsonl": "0" * 64}})
    printed = admmnet.refused("ledger", "verify", copied, code=1)
    assert "agent-004.jsonl" in printed
    assert "summary.json" in printed
    ledger = copied / "ledger/agent-002.jsonl"
    header, *events = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(header + "".join(events).replace('"sigma":', '"sigma":1', 1))
    for word in ("verify", "show", "export"):
        said = admmnet.refused("ledger", word, copied, code=1)
        assert re.fullmatch(r"admmnet: .*agent-002\.jsonl: line 2: .*\n", said), said


def test_the_commands_that_sign_a_private_run_and_check_a_signature(
    people: str, finished: Path, tmp_path: Path, admmnet: Admmnet
) -> None:
    words = ("run", "--data", people, "--agents", "3", "--rounds", "2", "--no-test", "--quiet")
    admmnet.ok(*words, "--no-account", "-o", tmp_path / "private")
    manifest = tmp_path / "private/manifest.json"
    sign = f"ssh-keygen -Y sign -n admmnet -f KEY {manifest}\n"
    assert sign in admmnet.ok("ledger", "verify", manifest.parent, "--require", "private").out
    assert "ssh-keygen" not in admmnet.ok("ledger", "verify", finished).out
    Path(f"{manifest}.sig").write_text("whatever it is")
    told = admmnet.ok("ledger", "verify", manifest.parent).out
    assert f"{manifest}.sig lies beside it, unchecked: ssh-keygen -Y verify" in told
    assert sign not in told


@pytest.mark.usefixtures("_here")
def test_accounts_of_several_folders_add_up_at_the_largest_delta(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    common = ("run", "--data", people, "--agents", "2", "--simulate", "--algorithm", "pp-admm", "--quiet")
    for name, delta, rounds in (("a", "1e-6", "1"), ("b", "1e-5", "2")):
        admmnet.ok(*common, "--delta", delta, "--rounds", rounds, "--account", name, "-o", f"run-{name}")
    (one, _), (two, _) = (admmnet.json("account", "show", name) for name in ("a", "b"))
    found = admmnet.json("account", "show", "a", "b")["together"]
    assert [(entry["agent"], entry["delta"]) for entry in found] == [(0, 1e-5), (1, 1e-5)]
    assert found[0]["total"]["rho"] == pytest.approx(one["total"]["rho"] + two["total"]["rho"])
    assert "together" in admmnet.ok("account", "show", "a", "b").out
    for other, why in (("a", "is named twice"), ("c", "holds no account")):
        assert why in admmnet.refused("account", "show", tmp_path / "a", other)
    admmnet.ok("account", "show", "a", "--against", "run-a")
    admmnet.refused("account", "show", "a", "--against", "run-b", code=1)


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


def test_topology_make_and_show(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    path, random = tmp_path / "graph.json", ("erdos-renyi:8:0.4", "--seed", "3")
    made = admmnet.ok("topology", "make", *random, "-o", path).out
    facts = admmnet.json("topology", "show", path)
    assert f"8 agents, {facts['edges']} edges" in made
    assert facts == admmnet.json("topology", "show", *random)
    assert "picture: " in admmnet.ok("topology", "show", path, "--plot", tmp_path / "graph.svg").out
    assert "<svg" in (tmp_path / "graph.svg").read_text()
    assert re.search(rf"^edges: +{facts['edges']}$", admmnet.ok("topology", "show", path).out, re.MULTILINE)
    words = ("--algorithm", "admm", "--rounds", "1", "--seed", "4", "-o", tmp_path / "run")
    summary = admmnet.json("run", "--data", people, "--topology", path, *words)
    assert (summary["agents"], summary["topology"]) == (8, str(path))
    table = tables.run_text(summary | {"topology": "erdos-renyi:100:0.5"}, tmp_path)
    assert "erdos-renyi:100:0.5" in table  # :100: is the name of a picture


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
