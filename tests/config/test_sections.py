"""The whole configuration, and the plan, are handed to few functions; and the stub of settings.

``python -m tests.config.test_sections FILE OUT SETTINGS`` makes a run and prints them, a JSON list a rank.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.cli.run import Progress
from admmnet.library import run
from admmnet.running.plan import Plan
from tests.config.keywords import STUB, stub
from tests.people_runs import write_people
from tests.processes.launch import mpirun

PACKAGE = f"{Path(__file__).resolve().parents[2] / 'admmnet'}/"
FEWEST, MOST = 7, 12
MASKED = {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1, "no_test": True, "no_account": True, "rounds": 2}


def handed(data: str, out: str, **settings: Any) -> list[str]:
    """Functions that are handed one of them, whatever type a parameter states; methods of the two classes are none."""
    found: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            names = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} - {"self", "other"}
            if any(isinstance(frame.f_locals.get(name), RunConfig | Plan) for name in names):
                found.add(f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}")

    config, bar = RunConfig(data=data, out=out, **settings), Progress()
    sys.setprofile(look)
    try:
        run(config, on_start=bar.start, on_round=bar.round)
    finally:
        sys.setprofile(None)
    return sorted(found)


@pytest.mark.parametrize(
    "settings", [{"seed": 0, "rounds": 2}, {"algorithm": "sgd", "seed": 0}, {"simulate": True, "rounds": 2}, MASKED]
)
def test_few_see_more_than_sections(settings: dict[str, Any], tmp_path: Path) -> None:
    """No method, holder or loop of rounds does: a default run, a baseline, one with a journal, a private one."""
    found = handed(write_people(tmp_path / "people.npz"), str(tmp_path / "run"), **settings)
    assert FEWEST <= len(found) <= MOST, found
    assert {name.partition("/")[0] for name in found} <= {"library.py:run", "config", "running", "cli"}


def test_under_mpirun_as_well(tmp_path: Path) -> None:
    words = write_people(tmp_path / "people.npz"), str(tmp_path / "run"), json.dumps({"seed": 0, "rounds": 2})
    ended = mpirun(2, "-m", "tests.config.test_sections", *words)
    assert ended.code == 0, ended.err
    for line in ended.out.splitlines():
        assert FEWEST <= len(json.loads(line)) <= MOST, line


def test_the_stub_is_what_the_settings_say() -> None:
    """Renewed by ``python -m tests.config.keywords``."""
    assert STUB.read_text() == stub()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(handed(*sys.argv[1:3], **json.loads(sys.argv[3]))) + "\n")
