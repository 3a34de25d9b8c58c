"""Who is given the whole configuration: the entrance, and who tells other processes of it; all others take sections."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.run_config import own_settings
from admmnet.settings import settings_in
from tests.config.keywords import STUB, stub

PACKAGE = Path(__file__).resolve().parents[2] / "admmnet"
ALLOWED = (
    "config/",
    "library.py",
    *(f"running/{name}.py" for name in ("entrance", "graphs", "handshake", "loop", "plan", "spawn")),
)
HOLDERS = ("auditing/", "cli/", "estimators/", "experiments/", "papers/", "predict/")
"""Packages that make configurations, or read those of folders, and ask the entrance to run them."""
MOST = 16
X = np.random.default_rng(0).standard_normal((60, 3))
y = np.where(X[:, 0] > 0.0, 1, -1)


def names_config(note: ast.expr | None) -> bool:
    """Whether an annotation speaks of the whole configuration: also in a list, a dict, or as text."""
    if note is None:
        return False
    nodes = list(ast.walk(note))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return bool(words & {"RunConfig", "Sections"}) or any("RunConfig" in text for text in texts)


def takers(path: Path) -> Iterator[str]:
    """Functions with a parameter, and classes with a field, that is or holds the whole configuration.

    A plan has it for ``on_start``, and for nobody who is given a plan in a run.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            given = node.args
            notes = [own.annotation for own in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            if any(map(names_config, notes)):
                yield getattr(node, "name", "lambda")
        elif isinstance(node, ast.ClassDef):
            if any(isinstance(field, ast.AnnAssign) and names_config(field.annotation) for field in node.body):
                yield node.name
        elif isinstance(node, ast.Attribute) and ast.unparse(node).endswith("plan.config"):
            yield "plan.config"
        elif isinstance(node, ast.Assign) and names_config(node.value) and isinstance(node.value, ast.Subscript):
            yield ast.unparse(node.targets[0])  # an alias of a type


def test_few_functions_are_given_everything() -> None:
    found = {str(path.relative_to(PACKAGE)): list(takers(path)) for path in PACKAGE.rglob("*.py")}
    elsewhere = {name: own for name, own in found.items() if own and not name.startswith((*ALLOWED, *HOLDERS))}
    assert elsewhere == {}
    inside = [f"{name}: {one}" for name, own in found.items() for one in own if name.startswith(ALLOWED)]
    assert 8 <= len(inside) <= MOST, inside


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(config: RunConfig): pass", ["f"]),
        ("def f(*, configs: Sequence[RunConfig] | None): pass", ["f"]),
        ("def f(given: dict[str, 'RunConfig']): pass", ["f"]),
        ("class A:\n    config: RunConfig", ["A"]),
        ("def f(plan: Plan): return self._plan.config.seed", ["plan.config"]),
        ("Read = tuple[RunConfig, int]", ["Read"]),
        ("def f(config: MethodSettings) -> RunConfig: pass", []),
    ],
)
def test_the_check_sees_them(code: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(code)
    assert list(takers(tmp_path / "one.py")) == found


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "ipp-admm", "seed": 0, "rounds": 2},
        {"algorithm": "noisy-gd", "no_test": True, "private": True, "trust": "masked", "colluders": 1},
        {"algorithm": "dp-sgd", "seed": 0, "epsilon": 8.0},
    ],
    ids=lambda given: given["algorithm"],
)
def test_none_is_handed_on_as_something_else(given: dict[str, Any], tmp_path: Path) -> None:
    """In a run, whatever a parameter is called: no method, holder or loop sees more than a section."""
    seen: set[str] = set()

    def entered(frame: FrameType, event: str, _: Any) -> None:
        code: CodeType = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if any(isinstance(value, RunConfig) for value in values):
            seen.add(f"{Path(code.co_filename).relative_to(PACKAGE)}: {code.co_qualname}")

    if "private" in given:
        given = given | {"account": tmp_path / "account"}
    sys.setprofile(entered)
    try:
        run(RunConfig(**given, out=str(tmp_path / "run")), X=X, y=y, on_start=lambda plan: None)
    finally:
        sys.setprofile(None)
    assert {one for one in seen if not one.startswith(ALLOWED)} == set()
    assert any(one.startswith("running/entrance.py") for one in seen)


def test_a_run_takes_the_configuration_as_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(seed=0, rounds=1, data="census", out=str(tmp_path / "run"))
    monkeypatch.delattr(RunConfig, "__init__")
    assert run(config).summary["rounds"] == 1


def test_sections_have_every_setting_once() -> None:
    config = RunConfig(algorithm="m-admm", growth=1.1, data="adult", drop=0.1, seed=2)
    found = [name for section in config.sections for name in settings_in(type(section))]
    assert sorted(found) == sorted(config.known)
    assert config.sections.method.growth == 1.1
    assert set(own_settings("m-admm")) <= set(settings_in(type(config.sections.method)))
    assert config.request.data_dependent  # the records of a simulation may show


def test_the_stub_is_what_the_settings_say() -> None:
    """Renewed by ``python -m tests.config.keywords``."""
    assert STUB.read_text() == stub()
