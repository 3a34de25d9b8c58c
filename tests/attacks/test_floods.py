"""A neighbour with a right key that sends more than it should: it is cut off and named, and memory stays bounded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.test_strangers import memory
from tests.processes.zmq_crew import Crew, path

pytestmark = pytest.mark.processes
UNREAD = 2**24
"""Bytes that a neighbour may send while nothing is read, an eighth of the program's."""
LOOK = 0.025
"""Seconds between two looks at the lines, an eighth of the program's: a fast machine brings 10 MB meanwhile."""


@pytest.mark.parametrize("how", ["frames", "one message"])
def test_who_floods_a_process_that_computes(how: str, tmp_path: Path) -> None:
    """Nothing is read meanwhile: the door cuts the line, and the process says so when it looks again."""
    own: dict[int, dict[str, Any]] = {
        0: {"acts": {"2": [["flood", how, 8 * UNREAD], ["wait"]]}},
        1: {"acts": {"2": [["wait"]]}},
    }
    with Crew(tmp_path, path(2), 2, curve=True, own=own, unread=UNREAD, look=LOOK) as crew:
        crew.start().said(1, "waiting")
        before = memory(crew, 1)
        crew.said(0, "waiting")
        crew.members[1].tell()
        assert crew.finish(1) == {1: 3}
        # by the door's count of bytes, or by the count of frames that bring nothing, whichever comes first
        assert re.search(r"agent 0 is lost in round 2: it (sent|floods this process)", crew.error(1))
        (most,) = crew.members[1].said("peak")
        assert most < before + 3 * UNREAD
