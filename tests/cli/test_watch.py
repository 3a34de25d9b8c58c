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
from tests.people_runs import PRIVATE, small, stopping

SECRET = {"private": True, **PRIVATE}


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("finished") / "run", seed=0)).folder


@pytest.fixture(scope="module")
def private(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("private") / "run", **SECRET)).folder


@pytest.fixture
def watch(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys, "watch")


@pytest.mark.parametrize("more", [SECRET, {"seed": 0, "method": "published"}])
def test_a_running_run_is_seen_as_its_events_tell_it(more: dict[str, Any], people: str, tmp_path: Path) -> None:
    seen: list[tuple[RoundEvent, Sight]] = []
    folder = tmp_path / "run"
    summary = run(
        small(people, folder, rounds=5, **more), on_round=lambda event: seen.append((event, look(folder)))
    ).summary
    seen.append((seen[-1][0], look(folder)))
    assert [sight.phase for _, sight in seen] == ["running"] * 5 + ["finished"]
    for event, sight in seen:
        assert (sight.done, sight.rounds, sight.away) == (event.round + 1, 5, ())
        assert sight.errors.get(event.round) == event.test_error
        assert {agent.agent: agent.releases for agent in sight.agents} == event.releases
        if "method" not in more:
            assert {agent.agent: agent.spent for agent in sight.agents} == event.epsilon
    assert sight.most_spent is not None
    name = "epsilon_published" if "method" in more else "epsilon_spent"
    assert sight.most_spent.spent == summary["privacy"][name]
    assert sight.most_spent.target == 20.0


def test_once_shows_a_finished_run(finished: Path, watch: Admmnet) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    code, out, err = watch(finished, "--once")
    assert (code, err) == (0, "")
    error = f"{100 * summary['test_error']['consensus']:.2f}%"
    mode, folder, state, *table = out.splitlines()
    assert mode == "mode:    simulation, seed 0: the noise can be made again, nothing is protected"
    assert folder == f"folder:  {finished}"
    assert state == f"state:   finished, round 3 of 3, test error {error}, epsilon 20 of 20 spent"
    rows = [line.split() for line in table if line.strip()]
    assert rows[1] == ["agent", "eps", "spent", "budget", "releases", "own", "error"]
    assert [row[0] for row in rows[3:]] == ["0", "1", "2", "3"]


def test_a_run_that_has_finished_without_an_agent_has_a_code_of_its_own(
    finished: Path, tmp_path: Path, watch: Admmnet
) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    summary = read_form(Summary, folder / "summary.json")
    for members, code in (([0, 1, 2, 3], 0), ([0, 1, 3], 5)):
        last = StartEntry(number=2, members=members, round=1, rule="go on", cause="agent 2 cannot be reached")
        (folder / "summary.json").write_bytes(encode(replace(summary, starts=[last]), indent=2))
        found, out, _ = watch(folder, "--once", "--stale", "0")
        assert (found, "finished, round" in out, "away: agent 2" in out) == (code, True, code == 5)


def test_what_lines_say(finished: Path, private: Path, people: str, tmp_path: Path, watch: Admmnet) -> None:
    _, line = watch.ok(finished).out.splitlines()
    assert line.startswith("finished, round 3 of 3, test error ")
    assert line.endswith(" of 20 spent")
    assert "test error" not in watch.ok(private, "--once").out
    no_budget = run(small(people, tmp_path / "run", algorithm="admm", epsilon=1.0, seed=0)).folder
    assert ", no budget" in watch.ok(no_budget, "--once").out


def test_a_stopped_and_a_broken_run(people: str, tmp_path: Path, watch: Admmnet) -> None:
    run(small(people, tmp_path / "stopped", seed=0), on_round=stopping(1, StopRun))
    line = watch.ok(tmp_path / "stopped").out.splitlines()[1]
    assert line.startswith("finished: stopped by on_round, round 2 of 3, ")
    with pytest.raises(ZeroDivisionError):
        run(small(people, tmp_path / "broken", seed=0), on_round=stopping(1, ZeroDivisionError))
    remedy = f"go on with `admmnet run --resume {tmp_path / 'broken'}`\n"
    code, out, _ = watch(tmp_path / "broken", "--once")
    assert (code, out.endswith(remedy)) == (3, True)
    code, out, err = watch(tmp_path / "broken")
    assert (code, err.endswith(remedy)) == (3, True)
    assert out.splitlines()[1].startswith("ended without a summary, round 2 of 3, ")


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


def test_a_run_that_goes_on_is_seen_where_it_stands(people: str, tmp_path: Path) -> None:
    """What its ledgers hold was done; its rounds are played again, and measured again."""
    folder = tmp_path / "run"
    with pytest.raises(ZeroDivisionError):
        run(small(people, folder, rounds=6, **SECRET), on_round=stopping(4, ZeroDivisionError))
    assert (look(folder).phase, look(folder).done) == ("broken", 5)
    done: list[int] = []
    run(resume=str(folder), on_round=lambda event: done.append(look(folder).done))
    assert done == [4, 4, 4, 4, 5, 6]


def test_a_folder_that_is_not_there(tmp_path: Path, watch: Admmnet) -> None:
    later = tmp_path / "later"
    for words, message in (
        ((later,), "later is not there; start the run first"),
        ((later, "--wait", "0.1"), "later is not there after 0.1 s; "),
        ((tmp_path,), "is no run folder: it has no config.toml"),
    ):
        assert message in watch.refused(*words)
    for content in ("[data]\n", "[data\n"):
        (tmp_path / "config.toml").write_text(content)
        assert "it has no config.toml that names an algorithm" in watch.refused(tmp_path)


@pytest.mark.usefixtures("_here")
def test_the_newest_run_is_watched_by_default(finished: Path, watch: Admmnet) -> None:
    assert "there is no run folder in runs/" in watch.refused("--once")
    for number, name in enumerate("acb"):
        shutil.copytree(finished, Path("runs") / name)
        os.utime(Path("runs") / name / "config.toml", (number, number))
    assert watch.ok("--once").out.splitlines()[1].split() == ["folder:", "runs/b"]


def test_a_folder_of_one_host_has_one_ledger(private: Path, tmp_path: Path, watch: Admmnet) -> None:
    shutil.copytree(private, tmp_path / "part")
    for path in (tmp_path / "part/ledger").iterdir():
        if path.name != "agent-002.jsonl":
            path.unlink()
    spent = {seen.agent: seen.spent for seen in look(tmp_path / "part").agents}
    assert [agent for agent, value in spent.items() if value is not None] == [2]
    (tmp_path / "part/summary.json").unlink()
    (tmp_path / "part/part.json").write_text('{"agent": 2, "agents": 4}')
    code, out, _ = watch(tmp_path / "part", "--once")
    assert code == 3
    assert out.endswith("it cannot go on: run anew with --account, so that spent budget counts\n")  # without a journal
    (tmp_path / "part/journal.bin").touch()
    _, out, _ = watch(tmp_path / "part", "--once")
    assert out.endswith(f"go on with `--resume {tmp_path / 'part'}` at every agent\n")


@pytest.mark.parametrize("name", ["metrics.csv", "summary.json", "ledger/agent-001.jsonl", "journal.bin"])
@pytest.mark.parametrize("content", [b"", b"\xff\x00\n", b'{"per_agent": 3, "3": "x", "kind": []}\n', b"{" * 9])
def test_files_may_hold_anything(name: str, content: bytes, finished: Path, tmp_path: Path, watch: Admmnet) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / name).write_bytes(content)
    code, out, err = watch(tmp_path / "run", "--once")
    assert (code, err) == (3 if name == "summary.json" else 0, "")  # without a summary it has not finished
    assert str(tmp_path / "run") in out


def test_looking_does_not_keep_a_run_out(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is tried again while somebody may be looking; another run keeps it, and this one out."""
    (tmp_path / "config.toml").write_text("")
    assert is_held(tmp_path) is False
    real, refusals = fcntl.flock, 2

    def busy(*given: Any) -> None:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise BlockingIOError
        real(*given)

    monkeypatch.setattr(fcntl, "flock", busy)
    with hold(tmp_path, first=True):
        assert is_held(tmp_path) is True
        with pytest.raises(RequestError, match="is in use by another run"):
            hold(tmp_path, first=True)
    assert is_held(tmp_path) is False
    assert is_held(tmp_path / "nowhere") is None


def test_an_agent_keeps_its_folder_from_start_to_start(tmp_path: Path) -> None:
    """Also a folder that was emptied, because all begin anew; it takes no lock twice, and none stays behind."""
    folder = tmp_path
    memory = HostJournal(folder, 0, 3, seeded=True)
    for content in ("first", "second"):
        (folder / "config.toml").unlink(missing_ok=True)
        (folder / "config.toml").write_text(content)
        for _ in range(2):
            memory.hold(folder)
            assert is_held(folder) is True
            with pytest.raises(RequestError, match="is in use by another run"):
                HostJournal(folder, 0, 3, seeded=True).hold(folder)
    memory.let_go()
    assert is_held(folder) is False


def test_what_is_not_told_is_not_zero_and_a_ledger_that_cannot_be_opened_is_left_out(
    finished: Path, tmp_path: Path, watch: Admmnet
) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "metrics.csv").unlink()
    rows = [line.split() for line in watch.ok(folder, "--once").out.splitlines()[-5:-1]]
    assert rows == [[str(agent), "20", "20", "-", "-"] for agent in range(4)]
    (ledger, *_) = sorted((folder / "ledger").iterdir())
    ledger.unlink()
    ledger.mkdir()
    watch.ok(folder, "--once")
    assert [agent.target for agent in look(folder).agents] == [20.0] * 3
