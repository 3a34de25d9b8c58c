"""The last files that an agent gives in a start in which nothing is left but the end: others than it can have."""

from __future__ import annotations

import base64
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet.errors import CheckFailed, StartEnded
from admmnet.forms import decode, encode
from admmnet.record.file_forms import Finish
from admmnet.record.finish import away_of, keep_drafts, model_of, read_end
from admmnet.record.folder import model_bytes
from admmnet.record.forms import StartEntry, Summary
from admmnet.running.ending import LONGEST, PIECE, finish
from admmnet.transport.begun import Begun
from tests.run_folders import made
from tests.wrong_models import SHORTEST, WRONG


class World:
    """Agent 0 of two; agent 1 says these words, one after the other."""

    rank, size = 0, 2
    start = Begun("a" * 64, 3, (0, 1), ((0, 1),), "finish", "d" * 64)

    def __init__(self, *words: Any) -> None:
        self.words = list(words)

    def gather(self, value: Any) -> list[Any]:
        return [value, self.words.pop(0)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((None,), "no agent that is there has"),
        ((True, None), "does not say how long"),
        ((True, {"summary.json": "1"}), "does not say how long"),
        ((True, {"summary.json": LONGEST, "model.npz": 1}), f"at most {LONGEST} bytes together"),
        ((True, {"summary.json": 1, "a": 1, 7: 1}), "gives a file 'a', which is"),
        ((True, {"summary.json": 1, "ledger/agent-000.jsonl": 1}), "gives a file 'ledger/agent-000.jsonl', which is"),
        ((True, {"summary.json": 1}, base64.b64encode(b"x").decode()), "gives other last files than those"),
        ((True, {"summary.json": 1}, 7), "gives a piece of summary.json that is not as long"),
        ((True, {"summary.json": 9 * PIECE}, base64.b64encode(b"xy").decode()), "gives a piece of summary.json that"),
        ((True, {"summary.json": 1}, base64.b64encode(b"xy").decode()), "gives a piece of summary.json that is not"),
    ],
)
def test_what_an_agent_gives_as_the_last_files_is_looked_at(words: Any, told: str, tmp_path: Path) -> None:
    world: Any = World(*words)
    with pytest.raises(StartEnded, match=told) as caught:
        finish(world, tmp_path)
    assert caught.value.process == (1 if words[0] else None)
    assert not world.words


def test_a_liar_says_any_number_of_rounds() -> None:
    spans = [(0, [0, 1]), (3, [0]), (7, [0]), (5, [0]), (9, [0, 1]), (11, [0])]
    starts = [StartEntry(number=k, members=who, round=at, rule="go on", cause="") for k, (at, who) in enumerate(spans)]
    assert away_of(starts, 2**53, 2) == {"1": ["3-8", f"11-{2**53 - 1}"]}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return (made(tmp_path_factory.mktemp("ending") / "run", rounds=2) / "summary.json").read_bytes()


def test_others_are_told_no_account_of_this_host(summary: bytes, tmp_path: Path) -> None:
    said = decode(Summary, summary, "summary.json", indent=2)
    privacy = structs.replace(said.privacy, account="DIR", account_epsilon_spent=0.1234567)
    own = structs.replace(said, notes=["of DIR"], privacy=privacy)
    files = {"summary.json": encode(own, indent=2), "model.npz": model_bytes(np.zeros((2, 3)), ["a", "b", "c"])}
    keep_drafts(tmp_path, files)

    class Told(World):
        start = Begun("a" * 64, 3, (0, 1), ((0, 1),), "finish", read_end(files)[1])

        def gather(self, value: Any) -> list[Any]:
            self.words.append(value)
            return [value, False]

    world: Any = Told()
    with pytest.raises(StartEnded, match="do not match the ledger of this agent"):
        finish(world, tmp_path)
    told = b"".join(base64.b64decode(word) for word in world.words if isinstance(word, str))
    assert b'"rounds"' in told
    assert b"DIR" not in told
    assert b"0.1234567" not in told


@pytest.mark.parametrize("name", WRONG)
def test_models_that_are_none_are_refused_in_one_way(name: str, summary: bytes, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"^somewhere/model.npz"):
        model_of({"model.npz": WRONG[name]}, "somewhere")
    files = {"summary.json": summary, "model.npz": WRONG[name]}
    pieces = [base64.b64encode(content).decode() for content in files.values() if content]
    world: Any = World(True, {name: len(content) for name, content in files.items()}, *pieces)
    with pytest.raises(StartEnded, match="gives other last files") as caught:
        finish(world, tmp_path)
    assert caught.value.process == 1


def test_a_model_takes_no_more_room_than_its_file() -> None:
    for name in ("packed", "longer than its data", "many members"):
        tracemalloc.start()
        with pytest.raises(CheckFailed):
            model_of({"model.npz": WRONG[name]}, "somewhere")
        assert tracemalloc.get_traced_memory()[1] < SHORTEST // 2
        tracemalloc.stop()


def test_an_agent_has_one_key() -> None:
    signature = "0" * 128
    for key in ("0\n", "00", "1" * 17):
        with pytest.raises(CheckFailed, match=r"matching regex|at most 16"):
            decode(Finish, encode(Finish(run="a" * 64, network="", number=1, digest="b" * 64, staged={key: signature})))


@pytest.mark.parametrize("screened", [False, True])
def test_the_average_beside_the_models_is_theirs(screened: bool) -> None:
    """The agents sign the models alone, and predictions are made with the average."""
    theta = np.random.default_rng(0).standard_normal((6, 30))
    theta[5] += 1e3
    data = model_bytes(theta, ["x"] * 30, aggregate="screened" if screened else "mean")
    assert model_of({"model.npz": data}, "somewhere")["theta"].tobytes() == theta.tobytes()
