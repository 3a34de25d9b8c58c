"""What becomes of a run over ZeroMQ that sums along a tree when an agent is lost, also in the middle of a total."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit

from .test_everywhere import assert_same
from .test_zmq_run_faults import assert_ends_all, faulty, gone_on, lost_at, whole

pytestmark = pytest.mark.processes
TREE = ("--algorithm", "tests.tree_sum:TreeSum")


@pytest.mark.parametrize(
    ("fault", "network", "total_of_all"),
    [
        ("kill:0:2", "complete:5", False),
        ("halfway:0:2", "complete:5", True),
        ("halfway:2:2", "path:5", True),
        ("stop:4:2", "ring:5", False),
    ],
)
def test_sums_go_on_without_a_lost_agent_and_are_one(
    fault: str, network: str, total_of_all: bool, tmp_path: Path
) -> None:
    """Also where the root dies when it has told one agent alone: then all that go on have that total."""
    lost, folder = int(fault.split(":")[1]), gone_on(fault, tmp_path / "run", *TREE, "--topology", network)
    gone = [i for i, at in enumerate(lost_at(folder)) if at is not None]
    assert gone == ([2, 3, 4] if network == "path:5" else [lost])
    rows = figures_of(tmp_path / "run")
    without_loss = figures_of(whole(tmp_path / "whole", *TREE, "--topology", network))
    for round in range(4):
        errors = {rows[round, i][1] for i in range(5) if i not in gone}  # mean losses differ where models do
        assert len(errors) == 1
        same = all(rows[round, i] == without_loss[round, i] for i in range(5) if i not in gone)
        assert same == (round < (3 if total_of_all else 2))
    with np.load(tmp_path / "run" / "model.npz") as model:
        assert (model["theta"] == model["consensus"]).all()


def test_an_agent_may_be_lost_before_its_first_figures(tmp_path: Path) -> None:
    """Its test error is that of the zero vector, none in the summary; losses are means over the others' records."""
    summary: Any = gone_on("kill:2:0", tmp_path / "run", *TREE, "--topology", "path:3").summary
    *others, gone = summary["per_agent"]
    assert (gone["lost_at"], gone["releases"]) == (0, 0)
    rows = np.genfromtxt(tmp_path / "run" / "metrics.csv", delimiter=",", names=True)
    network, first, second, lost = rows[-4:]
    assert np.isnan(lost["train_loss"])
    assert 0.0 < lost["test_error"] < 1.0
    assert gone["test_error"] is None
    counts = [entry["records"] for entry in others]
    mean = np.average([first["train_loss"], second["train_loss"]], weights=counts)
    assert network["train_loss"] == pytest.approx(mean) == summary["train_loss"]
    assert network["objective"] == pytest.approx(first["objective"] + second["objective"])
    assert run_command_line(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0


def figures_of(folder: Path) -> dict[tuple[int, int], list[str]]:
    """Test error, norm of the gap to the consensus and loss of every agent's model, by round and agent."""
    lines = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    places = [lines[0].index(name) for name in ("test_error", "consensus_gap", "train_loss")]
    return {(int(row[0]), int(row[1])): [row[k] for k in places] for row in lines[1:] if row[1] != "-1"}


@pytest.mark.parametrize("transport", ["local", "zmq"])
def test_a_lost_agent_ends_sums_too_and_they_are_resumed(transport: str, tmp_path: Path) -> None:
    words = (*TREE, "--topology", "ring:4", "--checkpoint-every", "1", "--shutdown-deadline", "10")
    folder = tmp_path / "run"
    assert_ends_all(faulty("kill:1:3", folder, *words), 3, "agent 1 is lost in round 3", folder)
    assert run_command_line(["run", "--resume", str(folder), "--transport", transport, "--quiet"]) == 0
    assert_same(whole(tmp_path / "whole", *TREE, "--topology", "ring:4"), folder)


MASKED = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--topology", "complete:5")


def test_a_loss_makes_a_masked_sum_void_and_the_next_attempt_is_without_it(tmp_path: Path) -> None:
    """The void attempt is charged; parts and partners of the next are those of four agents."""
    summary: Any = gone_on("kill:4:2", tmp_path / "run", *MASKED).summary
    assert any("1 masked sum was void, the first in round 2" in note for note in summary["notes"])
    assert attempts(tmp_path / "run", 0) == [(0, 5), (1, 5), (2, 5), (2, 4), (3, 4)]
    with np.load(tmp_path / "run" / "model.npz") as model:
        assert (model["theta"][:4] == model["consensus"]).all()
        assert np.abs(model["consensus"]).max() < 1e3  # no masks in it


def attempts(folder: Path, agent: int) -> list[tuple[int, int]]:
    """Round and number of agents of every masked sum that an agent is charged for."""
    book = audit.read(folder / "ledger" / f"agent-00{agent}.jsonl")
    return [(round, event.agents) for round, event, _ in book.events if isinstance(event, DiscreteGaussian)]


def test_a_total_that_was_whole_before_a_loss_counts(tmp_path: Path) -> None:
    gone_on("halfway:0:2", tmp_path / "run", *MASKED)
    assert attempts(tmp_path / "run", 1) == [(0, 5), (1, 5), (2, 5), (3, 5), (3, 4)]


def test_fewer_than_two_honest_agents_make_no_further_sum(tmp_path: Path) -> None:
    summary: Any = gone_on("kill:4:2", tmp_path / "run", *MASKED, "--colluders", "3").summary
    assert any("from round 3 on fewer than 5 agents were left" in note for note in summary["notes"])
    assert [entry["releases"] for entry in summary["per_agent"][:4]] == 4 * [3]
