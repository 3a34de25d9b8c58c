"""A member that lies about numbers of records: no agent's noise, ledger or proof follows its word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admmnet.cli import run_command_line
from tests.attacks.attacked_run import LIAR, MANY
from tests.attacks.launched import AGENTS, attacked, records_of, write_npz_files

pytestmark = pytest.mark.processes

HONEST = [agent for agent in range(AGENTS) if agent != LIAR]


def ledgers(folder: Path) -> list[list[dict[str, Any]]]:
    paths = sorted((folder / "ledger").iterdir())
    assert len(paths) == AGENTS
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def true_rho(lines: list[dict[str, Any]], records: int) -> float:
    """Cost of an agent's objective perturbations to a record when it has this many: (2 G/n)^2 / (2 sigma^2) each."""
    events = [line["parameters"] for line in lines if line.get("mechanism") == "objective-perturbation"]
    assert events
    return float(sum((2.0 * e["lipschitz"] / records / e["sigma"]) ** 2 / 2.0 for e in events))


def spent(lines: list[dict[str, Any]]) -> float:
    *_, last = (line for line in lines if line["kind"] == "event")
    return float(last["total"]["rho"])


def settings(tmp_path: Path) -> tuple[str, ...]:
    # seeded, for what is asked is the scale of the noise
    words = f"--algorithm pp-admm --epsilon 5 --rounds 3 --beta 1e-6 --topology complete:{AGENTS} --seed 0 --quiet"
    return ("run", *write_npz_files(tmp_path), *words.split(), "-o", str(tmp_path / "run"))


@pytest.mark.parametrize("attack", ["counts of others", "counts of its own"])
def test_noise_is_made_for_the_records_that_are_there(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = attacked(monkeypatch, "mpi", attack, *settings(tmp_path), defended=True)
    assert ended.code == 0, ended.err
    for agent, lines in enumerate(ledgers(tmp_path / "run")):
        assert lines[0]["records"] == records_of(agent)
        assert true_rho(lines, records_of(agent)) <= spent(lines) * (1.0 + 1e-12)


def test_the_relay_passes_on_no_word_of_others_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = attacked(monkeypatch, "zmq", "counts of others", *settings(tmp_path), defended=True)
    assert ended.code == 3, ended.err
    told = f"agent {LIAR} is out of the run: its word SAY is out of form"
    assert [told in message for message in ended.messages] == [True]
    assert not (tmp_path / "run").exists()


def test_the_attack_works_where_everybody_is_believed_of_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = attacked(monkeypatch, "mpi", "counts of others", *settings(tmp_path), defended=False)
    assert ended.code == 0, ended.err
    found = ledgers(tmp_path / "run")
    for agent in HONEST:
        assert found[agent][0]["records"] == MANY
        assert true_rho(found[agent], records_of(agent)) > 1e12 * spent(found[agent])
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0  # and nothing shows
