"""One of four agents lies: the others go on without it, or as if nothing had been said, or end and name it.

`ADMMNET_LIES=all` tells all lies (launch/nightly.sh), else one of each kind. `ADMMNET_TRIED=FILE` appends what became
of them, for docs/tried.md (tests/benchmarks/pages.py).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from admmnet.cli import run_command_line
from tests.attacks.lies import LIES
from tests.attacks.stage import HONEST, Left, perform

pytestmark = pytest.mark.processes

FEW = (
    *("abort 0", "abort text", "accuse 1", "accuse as 3", "share as 2", "rows as 2", "rows nan", "vector nan"),
    *("receipt none", "receipt unsigned"),
    *("vector twice", "hang nobody", "hello junk", "again", "count capped"),
)
TOLD = list(LIES) if os.environ.get("ADMMNET_LIES") == "all" else FEW
REFUSED = {"count negative", "count text", "count of 2", "count capped", "share junk"}
"""Lies before the first round: the others refuse to begin, and name the liar."""
TO_ONE = {name for name in LIES if name.startswith("sum ")}
"""Lies that one neighbour alone hears, its parent in the tree: it has no majority then, and may have to leave."""
UNHEARD = {
    *("accuse 1", "accuse 2", "accuse both", "accuse nobody", "accuse negative", "accuse itself", "accuse late"),
    *("accuse text", "acknowledge", "bye", "hello"),
}
"""Lies that change nothing: the model is that of a run without them."""
DONE = (0, 5)
"""Exit codes of who has finished, with all agents or without some."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Model of the same run without a lie."""
    left = perform(tmp_path_factory.mktemp("honest"))
    assert [agent.code for agent in left] == [0] * 4, left
    return left[1].model


def is_clean(agent: Left, others: str = "123") -> None:
    """Whatever was said: a clear exit code, printable words, no internal error, a summary where it is 0, nobody blamed.

    ``others`` are those of whom nobody may say that they are lost.
    """
    assert agent.code in (*DONE, 2, 3, 4), agent
    said = agent.out + agent.err
    assert all(line.isprintable() for line in said.splitlines()), agent
    assert "internal error" not in said, agent
    assert "Traceback" not in said, agent
    assert not [line for line in said.splitlines() if line.startswith("admmnet: the run finished")], agent
    assert agent.summary.exists() == (agent.code in DONE), agent
    assert not agent.folder.exists() or agent.verified() == "", agent
    # nobody but the liar is blamed, and nobody speaks for another
    own = re.sub(r'agent [0-3] says: ".*?"', "", agent.err)
    assert not re.search(rf"agent [{others}] (is|was) lost", own), agent
    assert "gave up this process" not in own or "agent 0 says: " in agent.err, agent
    if agent.code not in DONE:
        assert re.search(r"agents? 0\b", agent.err), agent


def lost_at(agent: Left) -> dict[int, int]:
    rows = json.loads(agent.summary.read_text())["per_agent"]
    return {row["agent"]: row["lost_at"] for row in rows if row.get("lost_at") is not None}


def note(name: str, on_loss: str, left: list[Left], honest: dict[str, bytes]) -> None:
    if "ADMMNET_TRIED" not in os.environ:
        return
    others = [left[i] for i in HONEST]
    rounds = sorted({round for agent in others if agent.code in DONE for round in lost_at(agent).values()})
    row = {
        "name": name,
        "what": LIES[name].what,
        "on_loss": on_loss,
        "codes": [agent.code for agent in others],
        "lost": rounds,
        "same": all(agent.code in DONE and agent.model == honest for agent in others),
        "said": next((line for agent in others for line in agent.err.splitlines() if line.startswith("admmnet:")), ""),
    }
    with Path(os.environ["ADMMNET_TRIED"]).open("a") as file:
        file.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("name", TOLD)
def test_the_others_go_on(name: str, honest: dict[str, bytes], tmp_path: Path) -> None:
    left = perform(tmp_path, name, **LIES[name].settings)
    note(name, "continue", left, honest)
    for i in HONEST:
        witness = name in TO_ONE and left[1].code == 3
        is_clean(left[i], "23" if witness else "123")
        if name in REFUSED:
            assert left[i].code in (2, 3), left[i]
            continue
        if witness and i == 1:  # the others know nothing but that it has left
            continue
        assert left[i].code == (5 if lost_at(left[i]) else 0), left[i]
        assert lost_at(left[i]).keys() <= ({0, 1} if witness else {0}), left[i]
        if name in UNHEARD:
            assert left[i].model == honest
        if name == "accuse 1":  # which nobody believes, and everybody hears
            notes = json.loads(left[i].summary.read_text())["notes"]
            assert any(note.startswith('agent 0 says: "agent 1 fails since round') for note in notes)
    # nobody has been made to hold another model than the others
    assert len({str(left[i].model) for i in HONEST if left[i].code in DONE}) <= 1


@pytest.mark.parametrize("name", ["abort text", "accuse 1", "rows short", "hang nobody"])
def test_under_stop_all_end_and_name_it(name: str, honest: dict[str, bytes], tmp_path: Path) -> None:
    left = perform(tmp_path, name, on_loss="stop")
    note(name, "stop", left, honest)
    for i in HONEST:
        is_clean(left[i])
        assert left[i].code == 3


def test_two_vectors_of_one_round_convict_whoever_signed_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run nobody can see it; the neighbours' receipts together show it."""
    left = perform(tmp_path, "receipt twice")
    assert [left[i].code for i in HONEST] == [0] * 3
    folders = [str(left[i].folder) for i in HONEST]
    for folder in folders:
        assert run_command_line(["ledger", "verify", folder]) == 0
    assert run_command_line(["ledger", "verify", folders[0], "--against", folders[1]]) == 0  # 2 is no neighbour of 0
    assert run_command_line(["ledger", "verify", folders[0], "--against", folders[2]]) == 1
    assert "agent 0 has signed two different receipts of round 2, of different vectors" in capsys.readouterr().err
