"""One of four agents lies: the others go on as if nothing had been said, or end the start and name it.

`ADMMNET_LIES=all` tells all lies (launch/nightly.sh), else one of each kind. `ADMMNET_TRIED=FILE` appends what became
of them, for docs/hosts.md (tests/benchmarks/pages.py).
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
    *("abort 0", "abort text", "word failed", "word forged", "share as 2", "rows as 2", "rows nan", "vector nan"),
    *("receipt none", "receipt unsigned"),
    *("vector twice", "hang nobody", "hello junk", "again", "count capped"),
)
TOLD = list(LIES) if os.environ.get("ADMMNET_LIES") == "all" else FEW
REFUSED = {"count negative", "count text", "count of 2", "count capped", "share junk"}
"""Lies before the first round: the others refuse to begin, and name the liar."""
CODES = {"abort 2": 2, "abort 4": 4}
"""Exit codes with which a liar ends a run that does not go on."""
UNHEARD = {"acknowledge", "hello", "word heard"}
"""Lies that change nothing: the model is that of a run without them."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Model of the same run without a lie."""
    left = perform(tmp_path_factory.mktemp("honest"))
    assert [agent.code for agent in left] == [0] * 4, left
    return left[1].model


def is_clean(agent: Left) -> None:
    """Whatever was said: a clear exit code, printable words, a summary where it is 0, nobody else blamed."""
    assert agent.code in (0, 2, 3, 4), agent
    said = agent.out + agent.err
    assert all(line.isprintable() for line in said.splitlines()), agent
    assert "internal error" not in said, agent
    assert "Traceback" not in said, agent
    assert not [line for line in said.splitlines() if line.startswith("admmnet: the run finished")], agent
    assert agent.summary.exists() == (agent.code == 0), agent
    assert not agent.folder.exists() or agent.verified() == "", agent
    # nobody but the liar is blamed, and nobody speaks for another
    own = re.sub(r'agent [0-3] says: ".*?"', "", agent.err)
    own = re.sub(r"agent [0-3] is lost in round \d+: its host answers", "", own)  # who waits for whom strikes tell
    assert not re.search(r"agent [123] (is|was) lost", own), agent


def note(name: str, left: list[Left], honest: dict[str, bytes]) -> None:
    if "ADMMNET_TRIED" not in os.environ:
        return
    others = [left[i] for i in HONEST]
    row = {
        "name": name,
        "what": LIES[name].what,
        "codes": [agent.code for agent in others],
        "same": all(agent.code == 0 and agent.model == honest for agent in others),
        "said": next((line for agent in others for line in agent.err.splitlines() if line.startswith("admmnet:")), ""),
    }
    with Path(os.environ["ADMMNET_TRIED"]).open("a") as file:
        file.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("name", TOLD)
def test_the_others_go_on_or_name_it(name: str, honest: dict[str, bytes], tmp_path: Path) -> None:
    left = perform(tmp_path, name, **LIES[name].settings)
    note(name, left, honest)
    for i in HONEST:
        is_clean(left[i])
        assert left[i].code in ((2, 3) if name in REFUSED else (0, CODES.get(name, 3))), left[i]
        if name in UNHEARD:
            assert left[i].model == honest
    if any(left[i].code for i in HONEST):
        assert re.search(r"agents? 0\b", "".join(left[i].err for i in HONEST)), left
    # nobody has been made to hold another model than the others
    assert len({str(left[i].model) for i in HONEST if left[i].code == 0}) <= 1


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
