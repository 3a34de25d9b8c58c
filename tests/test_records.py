"""The run folder: what is in it, and that nothing in it can be changed unnoticed."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import CheckFailed, RequestError, RunConfig, load_config, read_run, run
from admmnet.records import PART, create_folder, default_folder, ledger_path, write_part

AGENTS, ROUNDS = 4, 3
SUMMARY = {
    "algorithm",
    "method",
    "agents",
    "rounds",
    "topology",
    "transport",
    "seeded",
    "data",
    "privacy",
    "test_error",
    "train_loss",
    "per_agent",
    "bytes_sent",
    "seconds",
    "ledgers",
    "versions",
}
PRIVACY = {
    "epsilon_target",
    "delta",
    "accountant",
    "adjacency",
    "unit",
    "epsilon_proven",
    "epsilon_spent",
    "epsilon_published",
    "rho_proven",
    "rho_published",
}
PER_AGENT = {
    "agent",
    "records",
    "degree",
    "releases",
    "rho",
    "epsilon_proven",
    "epsilon_spent",
    "epsilon_published",
    "refused_at",
    "test_error",
}
HEADER = {
    "kind",
    "schema",
    "agent",
    "neighbours",
    "records",
    "adjacency",
    "unit",
    "budget",
    "accountant",
    "method",
    "algorithm",
    "noise",
    "preprocessing",
    "shards",
    "admmnet",
}
EVENT = {"kind", "round", "mechanism", "parameters", "rho", "xi", "rho_published", "total", "previous"}


def write_data(folder: Path) -> Path:
    stream = np.random.default_rng(2)
    X = stream.standard_normal((90, 3))
    path = folder / "people.npz"
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(90) > 0, 1, -1))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    config = RunConfig(
        data=str(write_data(folder)),
        topology=f"star:{AGENTS}",
        algorithm="pp-admm",
        method="published",
        rounds=ROUNDS,
        seed=5,
        out=str(folder / "run"),
    )
    return run(config).folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def summary_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return value


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_files(finished: Path) -> None:
    files = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert files >= {"config.toml", "summary.json", "metrics.csv", "model.npz"}
    ledgers = {name for name in files if name.startswith("ledger/")}
    assert ledgers == {f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)}


def test_summary(finished: Path) -> None:
    summary = summary_of(finished)
    assert set(summary) >= SUMMARY
    assert set(summary["privacy"]) >= PRIVACY
    assert set(summary["data"]) == {"name", "train", "test", "features"}
    assert set(summary["test_error"]) >= {"mean", "std", "consensus"}
    assert set(summary["seconds"]) == {"total", "solve", "exchange"}
    assert [entry["agent"] for entry in summary["per_agent"]] == list(range(AGENTS))
    assert all(set(entry) >= PER_AGENT for entry in summary["per_agent"])
    assert [entry["degree"] for entry in summary["per_agent"]] == [3, 1, 1, 1]
    assert summary["data"]["train"] == sum(entry["records"] for entry in summary["per_agent"])
    assert (summary["algorithm"], summary["method"], summary["seeded"]) == ("pp-admm", "published", True)
    assert (summary["agents"], summary["rounds"], summary["transport"]) == (AGENTS, ROUNDS, "local")
    assert summary["privacy"]["adjacency"] == "replace-one"
    for name in ("epsilon_proven", "epsilon_spent", "epsilon_published"):
        assert summary["privacy"][name] == max(entry[name] for entry in summary["per_agent"])
    # every agent has used all its rounds: what was spent is the worst case
    most = max(entry["rho"] for entry in summary["per_agent"])
    assert summary["privacy"]["rho_proven"] == pytest.approx(most, rel=1e-9)


def test_digests_and_sizes(finished: Path) -> None:
    summary = summary_of(finished)
    assert set(summary["ledgers"]) == {f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)}
    for name, digest in summary["ledgers"].items():
        assert digest == hashlib.sha256((finished / name).read_bytes()).hexdigest()
    d = summary["data"]["features"]
    assert summary["bytes_sent"] == sum(8 * d * e["releases"] * e["degree"] for e in summary["per_agent"])
    assert summary["bytes_sent"] == 8 * d * ROUNDS * 6


def test_metrics(finished: Path) -> None:
    rows, summary = rows_of(finished), summary_of(finished)
    columns = ["round", "agent", "test_error", "releases", "bytes_sent"]
    assert list(rows[0]) == [*columns, "train_loss", "objective", "consensus_gap"]
    expected = [(str(t), str(i)) for t in range(ROUNDS) for i in range(-1, AGENTS)]
    assert [(row["round"], row["agent"]) for row in rows] == expected
    network, *agents = rows[-AGENTS - 1 :]
    assert float(network["test_error"]) == summary["test_error"]["consensus"]
    assert float(network["train_loss"]) == summary["train_loss"]
    assert int(network["bytes_sent"]) == summary["bytes_sent"]
    for row, entry in zip(agents, summary["per_agent"], strict=True):
        assert float(row["test_error"]) == entry["test_error"]
        assert int(row["releases"]) == entry["releases"] == ROUNDS


def test_model(finished: Path) -> None:
    with np.load(finished / "model.npz", allow_pickle=False) as archive:
        model = {name: archive[name] for name in archive.files}
    assert sorted(model) == ["consensus", "feature_names", "theta"]
    assert model["theta"].shape == (AGENTS, 4)
    np.testing.assert_allclose(model["consensus"], model["theta"].mean(axis=0), rtol=1e-14)
    assert model["feature_names"].dtype.kind == "U"
    assert model["feature_names"].tolist() == ["x1", "x2", "x3", "intercept"]


def test_ledger_lines(finished: Path) -> None:
    for i in range(AGENTS):
        text = (finished / f"ledger/agent-00{i}.jsonl").read_text(encoding="utf-8")
        header, *events, end = [json.loads(line) for line in text.splitlines()]
        assert set(header) >= HEADER
        assert (header["kind"], header["agent"], header["noise"]) == ("header", i, "seeded")
        assert header["neighbours"] == ([1, 2, 3] if i == 0 else [0])
        assert all(set(event) >= EVENT and event["kind"] == "event" for event in events)
        assert end["kind"] == "end"
        assert end["events"] == len(events)
        assert end["total"] == events[-1]["total"]
        for before, line in pairwise(text.splitlines()):
            assert json.loads(line)["previous"] == hashlib.sha256(before.encode()).hexdigest()


def test_config_is_resolved(finished: Path) -> None:
    config = load_config(finished / "config.toml")
    for name in ("rounds", "eta", "beta", "regularisation"):
        assert getattr(config, name) != "auto", name
    assert (config.agents, config.topology, config.seed, config.out) == (AGENTS, f"star:{AGENTS}", 5, None)


def test_read_run(finished: Path) -> None:
    folder = read_run(finished)
    assert folder.summary == summary_of(finished)
    assert list(folder.ledgers) == [f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)]
    for account, entry in zip(folder.ledgers.values(), summary_of(finished)["per_agent"], strict=True):
        assert account.finished
        assert account.totals.rho == pytest.approx(entry["rho"], rel=1e-12)


def test_an_unfinished_run_holds(copied: Path) -> None:
    (copied / "summary.json").unlink()
    ledger = copied / "ledger/agent-001.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    folder = read_run(copied)
    assert folder.summary is None
    assert [account.finished for account in folder.ledgers.values()] == [True, False, True, True]


def edit_line(number: int, old: str, new: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return edit


def edit_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    return lambda path: (
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True)))),
        None,
    )[1]


LEDGER_FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "sigma": (edit_line(3, '"sigma":', '"sigma":1'), "line 3"),
    "header": (edit_line(1, '"epsilon":1.0', '"epsilon":2.0'), "line 2"),
    "round": (edit_line(4, '"round":1', '"round":2'), "line 5"),
    "mechanism": (edit_line(3, '"gaussian"', '"gausian"'), "line 3"),
    "total": (edit_line(5, '"total":{"rho":', '"total":{"rho":1'), "line 5"),
    "spaces": (edit_line(3, ",", ", "), "line 3"),
    "no JSON": (edit_line(3, "{", ""), "line 3"),
    "infinity": (edit_line(3, '"xi":0.0', '"xi":Infinity'), "line 3"),
    "removed": (edit_lines(lambda lines: lines[:2] + lines[3:]), "line 3"),
    "swapped": (edit_lines(lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]), "line 3"),
    "doubled": (edit_lines(lambda lines: [*lines[:3], lines[2], *lines[3:]]), "line 4"),
    "blank": (edit_lines(lambda lines: [*lines[:2], b"\n", *lines[2:]]), "line 3"),
    "behind the end": (edit_lines(lambda lines: [*lines, lines[-2]]), f"line {2 * ROUNDS + 3}"),
    "cut": (lambda path: (path.write_bytes(path.read_bytes()[:-30]), None)[1], "sha256"),
    "empty": (lambda path: (path.write_bytes(b""), None)[1], "is empty"),
    "no end": (edit_lines(lambda lines: lines[:-1]), "sha256"),
    "bytes": (edit_lines(lambda lines: [*lines[:2], b"\xff\xfe\n", *lines[3:]]), "line 3"),
}


@pytest.mark.parametrize("fault", LEDGER_FAULTS)
def test_a_changed_ledger_is_named(fault: str, copied: Path) -> None:
    change, where = LEDGER_FAULTS[fault]
    change(copied / "ledger/agent-002.jsonl")
    with pytest.raises(CheckFailed) as caught:
        read_run(copied)
    assert "agent-002.jsonl" in str(caught.value)
    assert where in str(caught.value)


def test_a_rewritten_chain_is_caught_by_the_digest(copied: Path) -> None:
    path = copied / "ledger/agent-002.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["admmnet"] = "9.9.9"
    raw: list[bytes] = []
    for line in lines:
        if raw:
            line["previous"] = hashlib.sha256(raw[-1]).hexdigest()
        raw.append(json.dumps(line, separators=(",", ":")).encode())
    path.write_bytes(b"\n".join(raw) + b"\n")
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*sha256"):
        read_run(copied)


def test_missing_and_swapped_ledgers(copied: Path) -> None:
    first, second = copied / "ledger/agent-000.jsonl", copied / "ledger/agent-001.jsonl"
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
    (copied / "ledger/agent-003.jsonl").unlink()
    with pytest.raises(CheckFailed, match=r"summary.json.*agent-003.jsonl"):
        read_run(copied)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ledgers": 3}', '{"ledgers": {'])
def test_a_spoiled_summary(content: str, copied: Path) -> None:
    (copied / "summary.json").write_text(content)
    with pytest.raises(CheckFailed, match=r"summary\.json"):
        read_run(copied)


def test_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no run folder"):
        read_run(tmp_path)


def test_create_folder(tmp_path: Path) -> None:
    create_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "ledger").is_dir()
    with pytest.raises(RequestError, match=r"is not empty: name another one with --out"):
        create_folder(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot make the run folder"):
            create_folder(path)


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("admmnet.records.time.strftime", lambda form: "20260101-120000")
    assert default_folder("admm") == Path("runs/20260101-120000-admm")
    for name in ("20260101-120000-admm", "20260101-120000-admm-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert default_folder("admm") == Path("runs/20260101-120000-admm-3")
    assert ledger_path(Path("r"), 7, 1000) == Path("r/ledger/agent-007.jsonl")
    assert ledger_path(Path("r"), 7, 1001) == Path("r/ledger/agent-0007.jsonl")


# one agent's part of a run


@pytest.fixture
def part(finished: Path, tmp_path: Path) -> Path:
    """What agent 2 alone would have written."""
    folder = Path(shutil.copytree(finished, tmp_path / "part"))
    for i in (0, 1, 3):
        (folder / f"ledger/agent-00{i}.jsonl").unlink()
    write_part(folder, 2, AGENTS)
    return folder


def test_a_part_is_read(part: Path) -> None:
    folder = read_run(part)
    assert folder.part == (2, AGENTS)
    assert list(folder.ledgers) == ["ledger/agent-002.jsonl"]
    assert folder.summary is not None
    assert set(folder.summary["ledgers"]) == {f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)}
    (part / "summary.json").unlink()
    assert read_run(part).summary is None


@pytest.mark.parametrize("fault", [name for name in LEDGER_FAULTS if name != "empty"])
def test_a_changed_ledger_of_a_part_is_named(fault: str, part: Path) -> None:
    change, where = LEDGER_FAULTS[fault]
    change(part / "ledger/agent-002.jsonl")
    with pytest.raises(CheckFailed, match=where):
        read_run(part)


def test_parts_that_are_none(part: Path, finished: Path) -> None:
    (part / PART).unlink()
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*expected agent 0"):
        read_run(part)
    for content in (
        "",
        "[]",
        "{}",
        '{"agent": 2}',
        '{"agent": "2", "agents": 4}',
        '{"agent": 4, "agents": 4}',
    ):
        (part / PART).write_text(content)
        with pytest.raises(CheckFailed, match=r"part\.json"):
            read_run(part)
    write_part(part, 1, AGENTS)
    with pytest.raises(CheckFailed, match="is the ledger of agent 2, expected agent 1"):
        read_run(part)
    write_part(part, 2, 2000)
    with pytest.raises(CheckFailed, match="misnamed"):
        read_run(part)
    write_part(part, 2, AGENTS)
    shutil.copy(finished / "ledger/agent-003.jsonl", part / "ledger")
    with pytest.raises(CheckFailed, match="says one agent's ledger, but there are 2"):
        read_run(part)
    summary = summary_of(part)
    del summary["ledgers"]["ledger/agent-002.jsonl"]
    (part / "ledger/agent-003.jsonl").unlink()
    (part / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-002\.jsonl"):
        read_run(part)


def lose(folder: Path, agent: int, *, digest: bool = False) -> Path:
    """Make a finished run one in which an agent was lost in its last round."""
    summary = summary_of(folder)
    summary["per_agent"][agent]["lost_at"] = ROUNDS - 1
    name = f"ledger/agent-00{agent}.jsonl"
    if not digest:
        del summary["ledgers"][name]
    (folder / "summary.json").write_text(json.dumps(summary))
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    (folder / name).write_bytes(b"".join(lines[:-2]))
    return folder / name


def test_a_lost_agents_ledger_has_no_end(copied: Path) -> None:
    lose(copied, 1)
    folder = read_run(copied)
    assert [account.finished for account in folder.ledgers.values()] == [True, False, True, True]


def test_a_lost_agents_ledger_is_checked_like_the_others(copied: Path) -> None:
    edit_line(3, '"sigma":', '"sigma":1')(lose(copied, 1))
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: line 3"):
        read_run(copied)


def test_only_a_lost_agents_digest_may_be_missing(copied: Path) -> None:
    summary = summary_of(copied)
    del summary["ledgers"]["ledger/agent-001.jsonl"]
    for lost_at in ({}, {"lost_at": None}):
        summary["per_agent"][1] |= lost_at
        (copied / "summary.json").write_text(json.dumps(summary))
        with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-001\.jsonl"):
            read_run(copied)
    summary["per_agent"] = "nobody"
    (copied / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(CheckFailed, match="do not match"):
        read_run(copied)


def test_a_digest_holds_for_a_lost_agent_too(copied: Path) -> None:
    lose(copied, 1, digest=True)
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: its sha256"):
        read_run(copied)


def test_ledgers_of_a_run_that_died_while_they_were_made(tmp_path: Path) -> None:
    """Several processes make them at once: any may be missing, as long as nothing was charged."""
    result = run(
        RunConfig(algorithm="pp-admm", topology="ring:5", rounds=1, seed=0, out=str(tmp_path / "run"))
    )
    (result.folder / "summary.json").unlink()
    for file in sorted((result.folder / "ledger").iterdir()):
        file.write_bytes(file.read_bytes().split(b"\n")[0] + b"\n")  # the header alone
    (result.folder / "ledger" / "agent-001.jsonl").unlink()
    assert len(read_run(result.folder).ledgers) == 4
    (result.folder / "ledger" / "agent-003.jsonl").rename(result.folder / "ledger" / "agent-001.jsonl")
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(result.folder)
