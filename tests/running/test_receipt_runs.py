"""Receipts of whole runs: which are kept, and behind what a run that is resumed goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, run
from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence.compare import read_evidence
from admmnet.identity.receipts import of_line
from tests.people_runs import PRIVATE, Stop, stopping, write_people


def settings(folder: Path, **more: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "path:3", "rounds": 5} | more
    return RunConfig(data=write_people(folder.parent / "people.npz"), out=str(folder), **values)


def cut(config: RunConfig) -> None:
    """Run until the end of round 2."""
    with pytest.raises(Stop):
        run(config, on_round=stopping(2))


def senders(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Of every file of receipts (agent, round) of its lines."""
    return {
        path.name: [(receipt.agent, receipt.round) for _, receipt, _ in map(of_line, path.read_bytes().splitlines())]
        for path in sorted((folder / "receipts").glob("agent-*.jsonl"))
    }


def test_a_run_keeps_receipts_of_every_agent_once_in_a_process(tmp_path: Path) -> None:
    run(settings(tmp_path / "run", seed=0, receipts=True))
    rounds = range(5)
    assert senders(tmp_path / "run") == {
        "agent-000.jsonl": [(1, number) for number in rounds],
        "agent-001.jsonl": [(0, number) for number in rounds] + [(2, number) for number in rounds],
    }
    (start,) = json.loads((tmp_path / "run" / "receipts" / "identities.json").read_text())["starts"]
    assert (start["round"], start["source"], sorted(start["keys"])) == (0, "run", ["0", "1", "2"])


@pytest.mark.parametrize(("more", "expected"), [({"seed": 0}, False), (PRIVATE, True)])
def test_private_runs_keep_receipts_and_simulations_on_request(
    more: Mapping[str, Any], expected: bool, tmp_path: Path
) -> None:
    run(settings(tmp_path / "run", **more))
    assert (tmp_path / "run" / "receipts").exists() is expected


def test_receipts_change_no_bit_of_a_run(tmp_path: Path) -> None:
    with_, without = (run(settings(tmp_path / str(flag), seed=0, receipts=flag)) for flag in (True, False))
    assert with_.theta.tobytes() == without.theta.tobytes()
    for path in (tmp_path / "True" / "ledger").iterdir():
        assert path.read_bytes() == (tmp_path / "False" / "ledger" / path.name).read_bytes()


@pytest.mark.parametrize("private", [True, False])
def test_a_resumed_run_goes_on_with_new_keys_behind_what_was_kept(private: bool, tmp_path: Path) -> None:
    more = PRIVATE if private else {"seed": 0, "receipts": True}
    cut(settings(tmp_path / "run", checkpoint_every=2, **more))
    torn = tmp_path / "run" / "receipts" / "agent-000.jsonl"
    before = torn.read_bytes()
    assert [of_line(line)[1].round for line in before.splitlines()] == [0, 1, 2]
    torn.write_bytes(before + before.splitlines()[0] + b"\n" + before[:50])
    run(RunConfig(resume=str(tmp_path / "run")))
    assert torn.read_bytes().startswith(before)
    assert senders(tmp_path / "run")["agent-000.jsonl"] == [(1, number) for number in (0, 1, 2, 2, 3, 4)]
    first, second = json.loads((tmp_path / "run" / "receipts" / "identities.json").read_text())["starts"]
    assert (first["round"], second["round"]) == (0, 2)
    assert first["run"] != second["run"]
    assert not set(first["keys"].values()) & set(second["keys"].values())


def test_receipts_that_were_removed_before_a_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cut(settings(folder, checkpoint_every=2, **PRIVATE))
    own, whole = folder / "receipts" / "agent-000.jsonl", folder / "receipts"
    good = own.read_bytes()
    own.unlink()
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl: is missing: it was removed"):
        read_evidence(folder)
    with pytest.raises(RequestError, match=r"agent-000.jsonl: lacks receipts of round 1, .* or run anew"):
        run(RunConfig(resume=str(folder)))
    own.write_bytes(good[: good.index(b"\n") + 1])
    with pytest.raises(RequestError, match=r"agent-000.jsonl: lacks receipts of round 1"):
        run(RunConfig(resume=str(folder)))
    whole.rename(tmp_path / "away")
    with pytest.raises(CheckFailed, match=r"receipts: is missing, though the run keeps receipts"):
        read_evidence(folder)
    with pytest.raises(RequestError, match=r"identities.json: is missing, though the run that goes on kept"):
        run(RunConfig(resume=str(folder)))
    shutil.rmtree(whole)
    (tmp_path / "away").rename(whole)
    own.write_bytes(good)
    run(RunConfig(resume=str(folder)))
    assert read_evidence(folder) is not None
    own.write_bytes(own.read_bytes().removeprefix(good))
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl: lacks receipts of round 1"):
        read_evidence(folder)


def test_sums_leave_receipts(tmp_path: Path) -> None:
    run(settings(tmp_path / "run", algorithm="noisy-gd", rounds=10, seed=0, receipts=True))
    files = [path.read_bytes().splitlines() for path in sorted((tmp_path / "run" / "receipts").glob("agent-*"))]
    found = [of_line(line)[1] for lines in files for line in lines]
    assert sorted((receipt.agent, receipt.round) for receipt in found) == [(i, t) for i in range(3) for t in range(10)]
    for number in range(10):
        said = {(receipt.said, receipt.total) for receipt in found if receipt.round == number}
        assert len(said) == 1  # one point, one sum
    assert len({receipt.total for receipt in found}) == 10
