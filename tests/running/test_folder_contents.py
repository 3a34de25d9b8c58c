"""The run folder: its files, and what each of them holds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from admmnet import CheckFailed, RequestError, load_config, read_run, run
from admmnet.record.folder import create_folder, default_folder, ledger_path
from tests.people_runs import AGENTS, ROUNDS, rows, small, summary_of

SUMMARY = """
algorithm method agents rounds topology transport seeded data privacy test_error train_loss per_agent
bytes_sent seconds ledgers versions
"""
PRIVACY = """
epsilon_target delta accountant adjacency unit epsilon_proven epsilon_spent epsilon_published
rho_proven rho_published
"""
PER_AGENT = """
agent records degree releases rho epsilon_proven epsilon_spent epsilon_published refused_at test_error
"""


def test_files(finished: Path) -> None:
    files = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert files >= {"config.toml", "manifest.json", "summary.json", "metrics.csv", "model.npz"}
    ledgers = {name for name in files if name.startswith("ledger/")}
    assert ledgers == {f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)}


def test_summary(finished: Path) -> None:
    summary = summary_of(finished)
    assert set(summary) >= set(SUMMARY.split())
    assert set(summary["privacy"]) >= set(PRIVACY.split())
    assert set(summary["data"]) == {"name", "train", "test", "features", "task", "preprocessing"}
    assert set(summary["test_error"]) >= {"mean", "std", "consensus"}
    assert set(summary["seconds"]) == {"total", "solve", "exchange"}
    assert [entry["agent"] for entry in summary["per_agent"]] == list(range(AGENTS))
    assert all(set(entry) >= set(PER_AGENT.split()) for entry in summary["per_agent"])
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
    rounds = 8 * d * ROUNDS * 6
    assert rounds == sum(8 * d * e["releases"] * e["degree"] for e in summary["per_agent"])
    # the average: up and down a tree, two numbers a coordinate
    assert summary["bytes_sent"] == rounds + 2 * (AGENTS - 1) * 8 * 2 * d


def test_metrics(finished: Path) -> None:
    lines, summary = rows(finished), summary_of(finished)
    columns = ["round", "agent", "test_error", "releases", "bytes_sent"]
    assert list(lines[0]) == [*columns, "train_loss", "objective", "consensus_gap"]
    expected = [(str(t), str(i)) for t in range(ROUNDS) for i in range(-1, AGENTS)]
    assert [(row["round"], row["agent"]) for row in lines] == expected
    network, *agents = lines[-AGENTS - 1 :]
    assert float(network["test_error"]) == summary["test_error"]["consensus"]
    assert float(network["train_loss"]) == pytest.approx(summary["train_loss"], rel=1e-9)
    assert int(network["bytes_sent"]) == 8 * summary["data"]["features"] * ROUNDS * 6
    # of the agents' own vectors here, of the average that all of them hold there
    assert len({row["train_loss"] for row in agents}) > 1
    for row, entry in zip(agents, summary["per_agent"], strict=True):
        assert entry["test_error"] == summary["test_error"]["consensus"]
        assert int(row["releases"]) == entry["releases"] == ROUNDS


def test_model(finished: Path) -> None:
    with np.load(finished / "model.npz", allow_pickle=False) as archive:
        model = {name: archive[name] for name in archive.files}
    assert sorted(model) == ["consensus", "feature_names", "theta"]
    assert model["theta"].shape == (AGENTS, 4)
    np.testing.assert_allclose(model["consensus"], model["theta"].mean(axis=0), rtol=1e-14)
    assert model["feature_names"].dtype.kind == "U"
    assert model["feature_names"].tolist() == ["x1", "x2", "x3", "intercept"]


def test_config_is_resolved(finished: Path) -> None:
    config = load_config(finished / "config.toml")
    for name in ("rounds", "eta", "beta", "regularisation"):
        assert getattr(config, name) != "auto", name
    assert (config.agents, config.topology, config.seed, config.out) == (AGENTS, f"star:{AGENTS}", 5, None)


def test_read_run(finished: Path) -> None:
    folder = read_run(finished)
    assert msgspec.to_builtins(folder.summary) == summary_of(finished)
    assert list(folder.ledgers) == [f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)]
    for account, entry in zip(folder.ledgers.values(), summary_of(finished)["per_agent"], strict=True):
        assert account.finished
        assert account.totals.rho == pytest.approx(entry["rho"], rel=1e-12)
    assert [account.header["neighbours"] for account in folder.ledgers.values()] == [[1, 2, 3], [0], [0], [0]]


def test_short_words_of_a_run_folder_and_its_ledgers_and_its_picture(finished: Path, tmp_path: Path) -> None:
    folder = read_run(finished)
    assert repr(folder) == f"RunFolder({str(finished)!r}, finished, ledgers={AGENTS})"
    for agent, ledger in enumerate(folder.ledgers.values()):
        start = f"VerifiedLedger(agent={agent}, events={len(ledger.events)}, rho="
        assert repr(ledger).startswith(start)
        assert len(repr(ledger)) < 80
    assert len(folder.plot(tmp_path / "run.svg", panels=("error",)).axes) == 1
    assert (tmp_path / "run.svg").stat().st_size > 1000


def test_an_unfinished_run_holds(copied: Path) -> None:
    for name in ("summary.json", "manifest.json"):
        (copied / name).unlink()
    ledger = copied / "ledger/agent-001.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    folder = read_run(copied)
    assert folder.summary is None
    assert [account.finished for account in folder.ledgers.values()] == [True, False, True, True]


def test_create_folder(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no run folder"):
        read_run(tmp_path)
    create_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(RequestError, match=r"is not empty: name another one with --out"):
        create_folder(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot make the run folder"):
            create_folder(path)


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("admmnet.record.folder.time.strftime", lambda form: "20260101-120000")
    assert default_folder("admm") == Path("runs/20260101-120000-admm")
    for name in ("20260101-120000-admm", "20260101-120000-admm-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert default_folder("admm") == Path("runs/20260101-120000-admm-3")
    assert ledger_path(Path("r"), 7, 1000) == Path("r/ledger/agent-007.jsonl")
    assert ledger_path(Path("r"), 7, 1001) == Path("r/ledger/agent-0007.jsonl")


def test_ledgers_of_a_run_that_died_while_they_were_made(people: str, tmp_path: Path) -> None:
    """Several processes make them at once: any may be missing, as long as nothing was charged."""
    result = run(small(people, tmp_path / "run", topology="ring:5", seed=0))
    for name in ("summary.json", "manifest.json"):
        (result.folder / name).unlink()
    for file in sorted((result.folder / "ledger").iterdir()):
        file.write_bytes(file.read_bytes().split(b"\n")[0] + b"\n")  # the header alone
    (result.folder / "ledger" / "agent-001.jsonl").unlink()
    assert len(read_run(result.folder).ledgers) == 4
    (result.folder / "ledger" / "agent-003.jsonl").rename(result.folder / "ledger" / "agent-001.jsonl")
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(result.folder)
