"""The run folder: what its files hold, and that no ledger is changed unnoticed, in a whole run or a part of one."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import CheckFailed, RequestError, load_config, read_run
from admmnet.forms import encode
from admmnet.record.file_forms import PartFile
from admmnet.record.folder import PART, agreed_folder, create_folder, default_folder, ledger_path, mean_of, write_part
from admmnet.transport.local import LocalWorld
from tests.people_runs import AGENTS, ROUNDS, rows, summary_of
from tests.report_pages import rechained
from tests.run_folders import part_of, with_away

LEDGERS = [f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)]


def test_summary_and_ledgers_agree(finished: Path) -> None:
    run, summary = read_run(finished), summary_of(finished)
    assert repr(run) == f"RunFolder({str(finished)!r}, finished, ledgers={AGENTS})"
    assert msgspec.to_builtins(run.summary) == summary
    assert [*run.ledgers] == [*summary["ledgers"]] == LEDGERS
    for name, digest in summary["ledgers"].items():
        assert digest == hashlib.sha256((finished / name).read_bytes()).hexdigest()
    for (i, book), entry in zip(enumerate(run.ledgers.values()), summary["per_agent"], strict=True):
        assert (entry["agent"], entry["degree"], book.finished) == (i, [3, 1, 1, 1][i], True)
        assert book.totals.rho == pytest.approx(entry["rho"], rel=1e-12)
    assert [book.header["neighbours"] for book in run.ledgers.values()] == [[1, 2, 3], [0], [0], [0]]
    assert summary["data"]["train"] == sum(entry["records"] for entry in summary["per_agent"])
    for name in ("epsilon_proven", "epsilon_spent", "epsilon_published"):
        assert summary["privacy"][name] == max(entry[name] for entry in summary["per_agent"])
    # every agent has used all its rounds: what was spent is the worst case
    most = max(entry["epsilon_spent"] for entry in summary["per_agent"])
    assert summary["privacy"]["epsilon_proven"] == pytest.approx(most, rel=1e-9)


def test_metrics_and_model_are_those_of_the_summary(finished: Path) -> None:
    lines, summary = rows(finished), summary_of(finished)
    columns = ["round", "agent", "test_error", "releases", "bytes_sent", "train_loss", "objective", "consensus_gap"]
    assert list(lines[0]) == columns
    expected = [(str(t), str(i)) for t in range(ROUNDS) for i in range(-1, AGENTS)]
    assert [(row["round"], row["agent"]) for row in lines] == expected
    network, *agents = lines[-AGENTS - 1 :]
    assert float(network["test_error"]) == summary["test_error"]["consensus"]
    assert int(network["bytes_sent"]) == 8 * summary["data"]["features"] * ROUNDS * 6
    for row, entry in zip(agents, summary["per_agent"], strict=True):
        assert int(row["releases"]) == entry["releases"] == ROUNDS
    with np.load(finished / "model.npz", allow_pickle=False) as model:
        np.testing.assert_allclose(model["consensus"], model["theta"].mean(axis=0), rtol=1e-14)
        assert (model["theta"].shape, model["feature_names"].dtype.kind) == ((AGENTS, 4), "U")
        assert model["feature_names"].tolist() == ["x1", "x2", "x3", "intercept"]


def test_settings_are_resolved(finished: Path) -> None:
    config = load_config(finished / "config.toml")
    assert "auto" not in [getattr(config, name) for name in ("rounds", "eta", "beta", "regularisation")]
    assert (config.agents, config.topology, config.seed, config.out) == (AGENTS, f"star:{AGENTS}", 5, None)


def test_of_equal_rows_the_mean_is_what_they_are() -> None:
    row, others = np.array([0.1, 1 / 3, 1e-7]), np.random.default_rng(0).standard_normal((5, 3))
    assert mean_of(np.tile(row, (7, 1))).tobytes() == mean_of(row[None]).tobytes() == row.tobytes()
    assert mean_of(others).tobytes() == others.mean(axis=0).tobytes()


def test_a_folder_is_new_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no run folder"):
        read_run(tmp_path)
    with pytest.raises(RequestError, match="3 is no run folder: give its path"):
        read_run(3)  # type: ignore[arg-type]
    create_folder(tmp_path / "a" / "b")
    with pytest.raises(RequestError, match=r"is not empty: name another one with --out"):
        create_folder(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot make the run folder"):
            create_folder(path)


class Told(LocalWorld):
    """The second of two processes, of which the first names a folder; "" of one that has a folder of its own."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.shared_folder = folder, folder != ""

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        return [self.folder, value]


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("admmnet.record.folder.time.strftime", lambda form: "20260101-120000")
    assert default_folder("admm") == Path("runs/20260101-120000-admm")
    for name in ("20260101-120000-admm", "20260101-120000-admm-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert default_folder("module:admm") == Path("runs/20260101-120000-admm-3")
    assert agreed_folder(Told(""), "admm") == agreed_folder(LocalWorld(), "admm") == default_folder("admm")
    assert agreed_folder(Told("runs/20260101-120000-sgd-7"), "sgd") == Path("runs/20260101-120000-sgd-7")
    for wrong in ("runs/20260101-120000-admm", "/20260101-120000-sgd", "runs/../20260101-120000-sgd", 7, None):
        with pytest.raises(RequestError, match="names no new folder in runs/"):
            agreed_folder(Told(wrong), "sgd")
    assert ledger_path(Path("r"), 7, 1000) == Path("r/ledger/agent-007.jsonl")
    assert ledger_path(Path("r"), 7, 1001) == Path("r/ledger/agent-0007.jsonl")


# ledgers that were changed


@pytest.fixture
def part(finished: Path, tmp_path: Path) -> Path:
    """What agent 2 alone would have written."""
    return part_of(finished, tmp_path / "part", agent=2, agents=AGENTS)


Lines = list[bytes]


def edit(path: Path, change: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def spoil(lines: Lines) -> Lines:
    """Another sigma in the first charge."""
    return [*lines[:2], lines[2].replace(b'"sigma":', b'"sigma":1'), *lines[3:]]


FAULTS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "sigma": (spoil, "line 3"),
    "header": (lambda lines: [lines[0].replace(b'"epsilon":1.0', b'"epsilon":2.0'), *lines[1:]], "line 1: delta_clip"),
    "removed": (lambda lines: lines[:2] + lines[3:], "line 3"),
    "cut": (lambda lines: [*lines[:-1], lines[-1][:-30]], "sha256"),
    "empty": (lambda lines: [], "is empty"),
    "no end": (lambda lines: lines[:-1], "sha256"),
}


@pytest.mark.parametrize("where", ["copied", "part"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_changed_ledger_is_named(fault: str, where: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(where)
    change, told = FAULTS[fault]
    edit(folder / LEDGERS[2], change)
    with pytest.raises(CheckFailed, match=rf"agent-002\.jsonl.*{told}"):
        read_run(folder)


def test_a_rewritten_chain_is_caught_by_the_digest(copied: Path) -> None:
    before = (copied / "summary.json").read_bytes()
    rechained(copied, 2, lambda header: header.update(admmnet="9.9.9"))
    (copied / "summary.json").write_bytes(before)
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*sha256"):
        read_run(copied)


def test_missing_and_swapped_ledgers(copied: Path) -> None:
    first, second = copied / LEDGERS[0], copied / LEDGERS[1]
    kept = first.read_bytes(), second.read_bytes()
    first.write_bytes(kept[1])
    second.write_bytes(kept[0])
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl.*ledger of agent 1"):
        read_run(copied)
    first.write_bytes(kept[0])
    second.unlink()
    with pytest.raises(CheckFailed, match="missing"):
        read_run(copied)
    second.write_bytes(kept[1])
    (copied / LEDGERS[3]).unlink()
    with pytest.raises(CheckFailed, match=r"summary.json.*agent-003.jsonl"):
        read_run(copied)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ledgers": 3}', '{"ledgers": {'])
def test_a_spoiled_summary(content: str, copied: Path) -> None:
    (copied / "summary.json").write_text(content)
    with pytest.raises(CheckFailed, match=r"summary\.json"):
        read_run(copied)


def test_a_run_that_died_holds_as_far_as_it_came(copied: Path) -> None:
    """Several processes make ledgers at once: any may be missing, as long as nothing was charged."""
    for name in ("summary.json", "manifest.json", "encoding.json"):
        (copied / name).unlink()
    edit(copied / LEDGERS[1], lambda lines: lines[:-1])
    assert [book.finished for book in read_run(copied).ledgers.values()] == [True, False, True, True]
    (copied / LEDGERS[1]).unlink()
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(copied)
    for name in (LEDGERS[0], *LEDGERS[2:]):
        edit(copied / name, lambda lines: lines[:1])
    run = read_run(copied)
    assert (len(run.ledgers), run.summary) == (3, None)
    (copied / LEDGERS[3]).rename(copied / LEDGERS[1])
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(copied)


# one agent's part of a run, and a run without an agent


def test_a_part_is_read(part: Path) -> None:
    run = read_run(part)
    assert (run.part, [*run.ledgers]) == (PartFile(agent=2, agents=AGENTS), [LEDGERS[2]])
    assert run.summary is not None
    assert [*run.summary["ledgers"]] == LEDGERS
    for name in ("summary.json", "manifest.json"):
        (part / name).unlink()
    assert read_run(part).summary is None


def test_parts_that_are_none(part: Path, finished: Path) -> None:
    (part / PART).unlink()
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*expected agent 0"):
        read_run(part)
    for content in ("", "[]", "{}", '{"agent": 2}', '{"agent": "2", "agents": 4}', '{"agent": 4, "agents": 4}'):
        (part / PART).write_text(content)
        with pytest.raises(CheckFailed, match=r"part\.json"):
            read_run(part)
    for agent, agents, told in ((1, AGENTS, "is the ledger of agent 2, expected agent 1"), (2, 2000, "misnamed")):
        write_part(part, agent, agents)
        with pytest.raises(CheckFailed, match=told):
            read_run(part)
    write_part(part, 2, AGENTS)
    shutil.copy(finished / LEDGERS[3], part / "ledger")
    with pytest.raises(CheckFailed, match="says one agent's ledger, but there are 2"):
        read_run(part)


@pytest.mark.parametrize("where", ["copied", "part"])
def test_only_the_digest_of_who_is_away_may_be_missing(where: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(where)
    summary = summary_of(folder)
    del summary["ledgers"][LEDGERS[2]]
    (folder / "summary.json").write_bytes(encode(summary, indent=2))
    with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-002\.jsonl"):
        read_run(folder)


def test_the_ledger_of_who_is_away_has_no_end(finished: Path, tmp_path: Path) -> None:
    """And is checked like the others."""
    folder = with_away(finished, tmp_path / "away", agent=1, round=ROUNDS - 1)
    assert [book.finished for book in read_run(folder).ledgers.values()] == [True, False, True, True]
    edit(folder / LEDGERS[1], spoil)
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: line 3"):
        read_run(folder)
