"""The whole configuration is given to the entrance, and to those that tell other processes of it; and its stub."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from admmnet import RunConfig, run
from tests.config.keywords import STUB, stub

PACKAGE = Path(__file__).resolve().parents[2] / "admmnet"
ALLOWED = (
    "config/",
    "library.py",
    *(f"running/{name}.py" for name in ("arguments", "entrance", "graphs", "loop", "plan", "spawn")),
)


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "ipp-admm", "seed": 0, "rounds": 2},
        {"algorithm": "noisy-gd", "no_test": True, "private": True, "trust": "masked", "colluders": 1},
        {"algorithm": "dp-sgd", "seed": 0, "epsilon": 8.0},
    ],
    ids=lambda given: given["algorithm"],
)
def test_it_is_handed_on_to_few(given: dict[str, Any], people: str, tmp_path: Path) -> None:
    """In a run, whatever a parameter is called: no method, holder or loop sees more than a section."""
    seen: set[str] = set()

    def entered(frame: FrameType, event: str, _: Any) -> None:
        code, local = frame.f_code, frame.f_locals
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(isinstance(local.get(name), RunConfig) for name in names):
                seen.add(f"{Path(code.co_filename).relative_to(PACKAGE)}: {code.co_qualname}")

    how = given | ({"account": str(tmp_path / "account")} if "private" in given else {})
    sys.setprofile(entered)
    try:
        run(RunConfig(**how, data=people, out=str(tmp_path / "run")), on_start=lambda plan: None)
    finally:
        sys.setprofile(None)
    assert {one for one in seen if not one.startswith(ALLOWED)} == set()
    assert any(one.startswith("running/entrance.py") for one in seen)


def test_the_stub_is_what_the_settings_say() -> None:
    """Renewed by ``python -m tests.config.keywords``."""
    assert STUB.read_text() == stub()
