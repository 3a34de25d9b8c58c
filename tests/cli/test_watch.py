"""admmnet watch: a run through its folder alone, while it is written, at its end, and after one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from admmnet import RequestError, RoundEvent, StopRun, run
from admmnet.evidence.follow import Sight, look
from admmnet.forms import encode, read_form
from admmnet.record.folder import hold, is_held
from admmnet.record.forms import StartEntry, Summary
from admmnet.running.starts import HostJournal
from tests.command_runs import Admmnet
from tests.people_runs import PRIVATE, small, stopping, summary_of

SECRET = {"private": True, **PRIVATE}


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("finished") / "run", seed=0)).folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """Copy of the finished run, to be changed."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def watch(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys, "watch")


@pytest.mark.parametrize("more", [SECRET, {"seed": 0, "method": "published"}])
def test_a_running_run_is_seen_as_its_events_tell_it(more: dict[str, Any], people: str, tmp_path: Path) -> None:
    seen: list[tuple[RoundEvent, Sight]] = []
    config = small(people, tmp_path / "run", rounds=5, **more)
    summary = run(config, on_round=lambda event: seen.append((event, look(tmp_path / "run")))).summary
    seen.append((seen[-1][0], look(tmp_path / "run")))
    assert [sight.phase for _, sight in seen] == ["running"] * 5 + ["finished"]
    for event, sight in seen:
        assert (sight.done, sight.rounds, sight.away) == (event.round + 1, 5, ())
        assert sight.errors.get(event.round) == event.test_error
        assert {agent.agent: agent.releases for agent in sight.agents} == event.releases
        if "method" not in more:
            assert {agent.agent: agent.spent for agent in sight.agents} == event.epsilon
    name = "epsilon_published" if "method" in more else "epsilon_spent"
    assert sight.most_spent is not None
    assert (sight.most_spent.spent, sight.most_spent.target) == (summary["privacy"][name], 20.0)


def test_once_shows_a_run_and_else_its_lines_are_followed(
    finished: Path, people: str, tmp_path: Path, watch: Admmnet
) -> None:
    mode, folder, state, *table = watch.ok(finished, "--once").out.splitlines()
    assert mode == "mode:    simulation, seed 0: the noise can be made again, nothing is protected"
    assert folder == f"folder:  {finished}"
    error = f"{100 * summary_of(finished)['test_error']['consensus']:.2f}%"
    line = f"finished, round 3 of 3, test error {error}, epsilon 20 of 20 spent"
    assert state == f"state:   {line}"
    rows = [row.split() for row in table if row.strip()]
    assert rows[1] == ["agent", "eps", "spent", "budget", "releases", "own", "error"]
    assert [row[0] for row in rows[3:]] == ["0", "1", "2", "3"]
    assert watch.ok(finished).out.splitlines()[1:] == [line]
    no_budget = run(small(people, tmp_path / "run", algorithm="admm", epsilon=1.0, seed=0)).folder
    assert ", no budget" in watch.ok(no_budget, "--once").out


def test_a_run_that_has_finished_without_an_agent_has_a_code_of_its_own(copied: Path, watch: Admmnet) -> None:
    summary = read_form(Summary, copied / "summary.json")
    for members, code in (([0, 1, 2, 3], 0), ([0, 1, 3], 5)):
        last = StartEntry(number=2, members=members, round=1, rule="go on", cause="agent 2 cannot be reached")
        (copied / "summary.json").write_bytes(encode(replace(summary, starts=[last]), indent=2))
        found, out, _ = watch(copied, "--once", "--stale", "0")
        assert (found, "finished, round" in out, "away: agent 2" in out) == (code, True, code == 5)


def test_a_stopped_and_a_broken_run(people: str, tmp_path: Path, watch: Admmnet) -> None:
    run(small(people, tmp_path / "stopped", seed=0), on_round=stopping(1, StopRun))
    line = watch.ok(tmp_path / "stopped").out.splitlines()[1]
    assert line.startswith("finished: stopped by on_round, round 2 of 3, ")
    folder = tmp_path / "broken"
    with pytest.raises(ZeroDivisionError):
        run(small(people, folder, rounds=6, **SECRET), on_round=stopping(4, ZeroDivisionError))
    remedy = f"go on with `admmnet run --resume {folder}`\n"
    code, out, _ = watch(folder, "--once")
    assert (code, out.endswith(remedy), "test error" in out) == (3, True, False)
    code, out, err = watch(folder)
    assert (code, err.endswith(remedy)) == (3, True)
    assert out.splitlines()[1].startswith("ended without a summary, round 5 of 6, ")
    # where it goes on: what its ledgers hold was done; its rounds are played again, and measured again
    done: list[int] = []
    run(resume=str(folder), on_round=lambda event: done.append(look(folder).done))
    assert done == [4, 4, 4, 4, 5, 6]


def test_one_look_at_a_run_that_goes_on(people: str, tmp_path: Path, watch: Admmnet) -> None:
    """Its exit code, what is new by the ledgers though no round is measured, and its figures as JSON."""
    seen: list[tuple[int, int, Sight]] = []
    folder = tmp_path / "run"

    def at_a_round(event: RoundEvent) -> None:
        code, out, _ = watch(folder, "--once", "--json", "--stale", "0")
        shown = json.loads(out)
        assert (shown["phase"], shown["done"], shown["rounds"]) == ("running", (1, 1, 2, 4)[event.round], 4)
        assert {seen["agent"]: seen["spent"] for seen in shown["agents"]} == event.epsilon
        newest = max(path.stat().st_mtime for path in [folder / "metrics.csv", *(folder / "ledger").iterdir()])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("admmnet.evidence.follow.time.time", lambda: newest + 50.0)
            sight = look(folder)
        seen.append((code, watch(folder, "--once", "--stale", "3600").code, sight))

    run(small(people, folder, rounds=4, measure_every=4, **SECRET), on_round=at_a_round)
    assert [(now, hour) for now, hour, _ in seen] == [(3, 0)] * 4
    assert all(abs(sight.quiet - 50.0) < 1e-3 for *_, sight in seen)
    assert [(sight.verdict(49.0), sight.verdict(51.0), sight.verdict()) for *_, sight in seen] == [(3, 0, 0)] * 4
    assert watch(folder, "--once", "--stale", "0").code == 0  # it has finished: nothing more comes
    assert watch.refused(folder, "--json") == "admmnet: --json and --stale go with --once\n"
    # a folder of one host has one ledger
    for path in (folder / "ledger").iterdir():
        if path.name != "agent-002.jsonl":
            path.unlink()
    assert [one.agent for one in look(folder).agents if one.spent is not None] == [2]
    (folder / "summary.json").unlink()
    (folder / "part.json").write_text('{"agent": 2, "agents": 4}')
    code, out, _ = watch(folder, "--once")
    assert code == 3
    assert out.endswith("it cannot go on: run anew with --account, so that spent budget counts\n")  # without a journal
    (folder / "journal.bin").touch()
    assert watch(folder, "--once").out.endswith(f"go on with `--resume {folder}` at every agent\n")


@pytest.mark.usefixtures("_here")
def test_the_newest_run_is_watched_and_a_folder_must_be_there(finished: Path, tmp_path: Path, watch: Admmnet) -> None:
    for words, message in (
        (("--once",), "there is no run folder in runs/"),
        (("later",), "later is not there; start the run first"),
        (("later", "--wait", "0.1"), "later is not there after 0.1 s; "),
        ((tmp_path,), "is no run folder: it has no config.toml"),
    ):
        assert message in watch.refused(*words)
    for content in ("[data]\n", "[data\n"):
        Path("config.toml").write_text(content)
        assert "it has no config.toml that names an algorithm" in watch.refused(tmp_path)
    for number, name in enumerate("acb"):
        shutil.copytree(finished, Path("runs") / name)
        os.utime(Path("runs") / name / "config.toml", (number, number))
    assert watch.ok("--once").out.splitlines()[1].split() == ["folder:", "runs/b"]


@pytest.mark.parametrize("name", ["metrics.csv", "summary.json", "ledger/agent-001.jsonl", "journal.bin"])
@pytest.mark.parametrize("content", [b"", b"\xff\x00\n", b'{"per_agent": 3, "3": "x", "kind": []}\n', b"{" * 9])
def test_files_may_hold_anything(name: str, content: bytes, copied: Path, watch: Admmnet) -> None:
    (copied / name).write_bytes(content)
    code, out, err = watch(copied, "--once")
    assert (code, err) == (3 if name == "summary.json" else 0, "")  # without a summary it has not finished
    assert str(copied) in out


def test_what_is_not_told_is_not_zero_and_a_ledger_that_cannot_be_opened_is_left_out(
    copied: Path, watch: Admmnet
) -> None:
    (copied / "metrics.csv").unlink()
    rows = [line.split() for line in watch.ok(copied, "--once").out.splitlines()[-5:-1]]
    assert rows == [[str(agent), "20", "20", "-", "-"] for agent in range(4)]
    (copied / "ledger/agent-000.jsonl").unlink()
    (copied / "ledger/agent-000.jsonl").mkdir()
    watch.ok(copied, "--once")
    assert [agent.target for agent in look(copied).agents] == [20.0] * 3


def test_looking_does_not_keep_a_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is tried again while somebody may be looking; another run keeps it, and this one out."""
    (tmp_path / "config.toml").write_text("")
    real, refusals = fcntl.flock, [BlockingIOError(), BlockingIOError()]

    def busy(*given: Any) -> None:
        if refusals:
            raise refusals.pop()
        real(*given)

    assert is_held(tmp_path) is False
    monkeypatch.setattr(fcntl, "flock", busy)
    with hold(tmp_path, first=True):
        assert is_held(tmp_path) is True
        with pytest.raises(RequestError, match="is in use by another run"):
            hold(tmp_path, first=True)
    assert is_held(tmp_path) is False
    assert is_held(tmp_path / "nowhere") is None


def test_an_agent_keeps_its_folder_from_start_to_start(tmp_path: Path) -> None:
    """Also a folder that was emptied, because all begin anew; it takes no lock twice, and none stays behind."""
    memory = HostJournal(tmp_path, 0, 3, seeded=True)
    for content in ("first", "second"):
        (tmp_path / "config.toml").unlink(missing_ok=True)
        (tmp_path / "config.toml").write_text(content)
        for _ in range(2):
            memory.hold(tmp_path)
            assert is_held(tmp_path) is True
            with pytest.raises(RequestError, match="is in use by another run"):
                HostJournal(tmp_path, 0, 3, seeded=True).hold(tmp_path)
    memory.let_go()
    assert is_held(tmp_path) is False
