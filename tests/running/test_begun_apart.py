"""Hosts of which some have begun a run folder, and some have not: an earlier start died in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from admmnet.errors import RequestError, StartEnded
from admmnet.running.handshake import all_go_on
from admmnet.transport import World
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.relay import difference
from admmnet.transport.zmq.wire import Hello


class Others:
    """A world of two hosts of their own, of which the other one has begun, or not."""

    name, shared_folder, rank, size = "zmq", False, 0, 2

    def __init__(self, *own: bool, number: int = 0) -> None:
        self.start = Begun("a" * 64, number, (0, 1), ((0, 1),), begun=dict(enumerate(own)))


def fill(folder: Path) -> None:
    (folder / "ledger").mkdir()
    (folder / "config.toml").write_text("")
    (folder / "ledger" / "agent-000.jsonl").write_text('{"kind":"header"}\n')


def test_all_begin_where_one_has_no_folder(tmp_path: Path) -> None:
    fill(tmp_path)
    assert all_go_on(cast("World", Others(True, True)), tmp_path)
    assert not all_go_on(cast("World", Others(False, False)), None)
    assert not all_go_on(cast("World", Others(False, True)), None)
    assert list(tmp_path.iterdir())
    assert not all_go_on(cast("World", Others(True, False)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["checkpoint/000003/part-000000.state", "ledger/agent-000.jsonl"])
def test_what_was_begun_is_not_thrown_away(left: str, tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).write_text('{"kind":"header"}\n{"kind":"event"}\n')
    with pytest.raises(RequestError, match="agent 1 begins a run, and"):
        all_go_on(cast("World", Others(True, False)), tmp_path)
    with pytest.raises(StartEnded, match="agent 1 begins a run, and") as ended:  # the others go on without it
        all_go_on(cast("World", Others(True, False, number=4)), tmp_path)
    assert ended.value.process == 1
    assert (tmp_path / left).exists()


def test_settings_that_an_earlier_start_has_filled_in_are_no_difference() -> None:
    def differs(mine: Any, theirs: Any, *, begun: bool) -> bool:
        one, other = Hello(0, "", "", {"beta": mine}, begun), Hello(1, "", "", {"beta": theirs}, begun=False)
        return difference(one, other, "0", "1") is not None and difference(other, one, "1", "0") is not None

    assert not differs(1e-8, "auto", begun=True)
    assert differs(1e-8, 1e-7, begun=True)
    assert differs("auto", 1e-8, begun=True)
    assert differs(1e-8, "auto", begun=False)
