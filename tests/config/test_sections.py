"""The whole configuration is given to the entrance, and to those that tell other processes of it; and its stub."""

from __future__ import annotations

from pathlib import Path

from tests.config.keywords import STUB, stub

PACKAGE = Path(__file__).resolve().parents[2] / "admmnet"
OUTSIDE = {"auditing", "cli", "config", "estimators", "experiments", "predict", "library.py", "__init__.py"}
"""What makes configurations, or reads a finished run's."""


def test_it_is_handed_on_to_few() -> None:
    """No method, holder or loop of rounds sees more than a section: none of them names the class."""
    places = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if "RunConfig" in path.read_text()}
    told = {str(path) for path in places if path.parts[0] not in OUTSIDE}
    names = ("arguments", "entrance", "graphs", "loop", "plan", "resume", "spawn")
    assert told == {f"running/{name}.py" for name in names}


def test_the_stub_is_what_the_settings_say() -> None:
    """Renewed by ``python -m tests.config.keywords``."""
    assert STUB.read_text() == stub()
