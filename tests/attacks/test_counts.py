"""A member that lies about numbers of records: no agent's noise, ledger or proof follows its word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.launched import AGENTS, attacked, records_of, write_npz_files
from tests.processes.launch import Ended

pytestmark = pytest.mark.processes


def ledgers(folder: Path) -> list[list[dict[str, Any]]]:
    paths = sorted((folder / "ledger").iterdir())
    assert len(paths) == AGENTS
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def excess(lines: list[dict[str, Any]], records: int) -> float:
    """What an agent's objective perturbations cost if it has this many records, over what its ledger says.

    That is (2 G/n)^2 / (2 sigma^2) each.
    """
    events = [line["parameters"] for line in lines if line.get("mechanism") == "objective-perturbation"]
    *_, last = (line for line in lines if line["kind"] == "event")
    cost = sum((2.0 * e["lipschitz"] / records / e["sigma"]) ** 2 / 2.0 for e in events)
    return float(cost / last["total"]["rho"])


def attack(patch: pytest.MonkeyPatch, folder: Path, claim: str) -> Ended:
    # seeded, for what is asked is the scale of the noise
    words = f"--algorithm pp-admm --epsilon 5 --rounds 3 --beta 1e-6 --topology complete:{AGENTS} --seed 0 --quiet"
    given = ("run", *write_npz_files(folder), *words.split(), "-o", str(folder / "run"))
    return attacked(patch, "mpi", f"counts of {claim}", *given)


@pytest.mark.parametrize("claim", ["others", "its own"])
def test_noise_is_made_for_the_records_that_are_there(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = attack(monkeypatch, tmp_path, claim)
    assert ended.code == 0, ended.err
    for agent, lines in enumerate(ledgers(tmp_path / "run")):
        assert lines[0]["records"] == records_of(agent)
        assert 0.1 < excess(lines, records_of(agent)) <= 1.0 + 1e-12
