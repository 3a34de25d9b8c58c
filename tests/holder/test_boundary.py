"""The boundary around records, over the syntax trees of the whole package (docs/proofs.md, sec. 1).

Each rule finds breaches in one module, and is shown to notice planted ones. What may be done where is listed here; an
entry that nobody needs any more is an error, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "admmnet").rglob("*.py"))

SHARDS = {
    # put them behind holders
    ("admmnet/running/loading.py", "held"),
    # let go of them once they are behind holders
    ("admmnet/running/entrance.py", "prepare"),
    # an argument of `run`, before anything is read of it
    ("admmnet/running/arguments.py", "taken"),
    # simulations alone: the first rank reads for all of its machine
    ("admmnet/running/sharing.py", "shared"),
    ("admmnet/running/sharing.py", "_write"),
    # simulations alone: yardsticks take the run's encoding
    ("admmnet/running/prologue.py", "run_prologue"),
    # simulations alone: grids and figures on public data
    ("admmnet/experiments/holdout.py", "hold_out"),
    ("admmnet/experiments/holdout.py", "_load"),
    ("admmnet/papers/ding2020.py", "_train_error"),
    ("admmnet/papers/sources.py", "_load"),
    ("admmnet/papers/sources.py", "rows"),
    ("admmnet/running/references.py", "_pooled"),
}
"""Functions outside of ``admmnet/data`` that may touch ``Records.shards``."""
SECRETS = {("admmnet/running/party.py", "closing")}
"""Functions that may look behind a door, which opens in simulations alone."""
SIMULATED = {
    # a run's mode decides
    ("admmnet/running/loading.py", "held"),
    # simulations alone
    ("admmnet/running/references.py", "_of_hinge"),
    ("admmnet/papers/passes.py", "_made"),
}
"""Where records are declared to be a simulation's, once in each."""
GROUND = "errors form_errors forms gone identity masking privacy registry rng settings solvers types"
QUESTIONS = "holder.answers holder.encoding holder.known holder.measurements holder.problem.SINGLE_SITE_LOSSES"
USED = "graph.simple masking.Attempt masking.partners privacy registry settings solvers.losses solvers.radius types"
MAY_IMPORT = {
    "admmnet/holder/": f"holder {GROUND}".split(),
    "admmnet/methods/": f"methods {QUESTIONS} holder.series errors {USED}".split(),
}
"""What the two packages import at run time; of the holder, methods see questions and answers alone."""
NOT_FOR_METHODS = tuple(f"holder.answers.{name}" for name in ("measurement", "KINDS", "same_fields", "Known", "Secret"))
"""What makes a measurement one that the door answers, and what is behind it."""


class Breach(NamedTuple):
    path: str
    function: str
    """The outermost function around it, "" for none."""
    what: str


class Code:
    """Nodes of a module with the functions around them, and what only type checkers read."""

    def __init__(self, text: str) -> None:
        self.nodes: list[tuple[ast.AST, str]] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self._walk(ast.parse(text), "")

    def _walk(self, node: ast.AST, function: str) -> None:
        self.nodes.append((node, function))
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            within = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name
            self._walk(child, function or within or "")

    def for_checkers_only(self, node: ast.AST) -> bool:
        """Whether it stands under ``if TYPE_CHECKING``, or in an annotation."""
        while node in self.parents:
            child, node = node, self.parents[node]
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return child in node.body
            if child in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                return True
        return False

    def imports(self) -> Iterator[tuple[str, str]]:
        """Full name of what is imported at run time, and the function that does so."""
        for node, function in self.nodes:
            if isinstance(node, ast.ImportFrom | ast.Import) and not self.for_checkers_only(node):
                place = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                yield from ((place + alias.name, function) for alias in node.names)


REACHERS = {"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller", "__getattribute__"}


def reached(node: ast.AST) -> str | None:
    """Name of the attribute that a node reads or writes, also by a word: ``x.name``, ``getattr(x, "name")``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        words = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if called in REACHERS and words:
            return words[0]
    return None


@cache
def code_of(path: str) -> Code:
    return Code((ROOT / path).read_text(encoding="utf-8"))


@cache
def private_names() -> frozenset[str]:
    """Private attributes and methods of the classes of ``admmnet/holder`` that hold records."""
    found: set[str] = set()
    for path in ("admmnet/holder/holder.py", "admmnet/holder/door.py", "admmnet/holder/secrets.py"):
        for node in code_of(path).parents:
            inside: ast.AST | None = node
            while inside is not None and not isinstance(inside, ast.ClassDef):
                inside = code_of(path).parents.get(inside)
            if inside is not None and isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif inside is not None and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__"))


# the rules

BEHIND = tuple(f"admmnet.holder.{name}" for name in ("secrets", "answers.measurement", "answers.KINDS"))


def private_attributes(path: str, code: Code) -> Iterator[Breach]:
    """Nobody outside reaches into a holder or a door; classes may have private attributes of the same names."""
    if path.startswith("admmnet/holder/"):
        return
    for node, function in code.nodes:
        name = reached(node)
        if name not in private_names():
            continue
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if own:
                continue
        yield Breach(path, function, f"reaches for {name}")


def secrets(path: str, code: Code) -> Iterator[Breach]:
    """``door.secret``, and the classes behind it."""
    if path.startswith("admmnet/holder/"):
        return
    for node, function in code.nodes:
        if reached(node) == "secret" and "door" in ast.dump(node):
            yield Breach(path, function, "looks behind a door")
    for module, function in code.imports():
        if module.startswith(BEHIND):
            yield Breach(path, function, f"imports {module}")


def shards(path: str, code: Code) -> Iterator[Breach]:
    """``Records.shards``."""
    if path.startswith(("admmnet/data/", "admmnet/holder/")):
        return
    for node, function in code.nodes:
        if reached(node) == "shards":
            yield Breach(path, function, "touches shards")


def simulated(path: str, code: Code) -> Iterator[Breach]:
    """``SimulatedHolder`` as a value: not in an annotation, an import or ``isinstance``."""
    for node, function in code.nodes:
        named = isinstance(node, ast.Name) and node.id == "SimulatedHolder"
        if not (named or reached(node) == "SimulatedHolder") or code.for_checkers_only(node):
            continue
        call = code.parents[node]
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance" and call.args[1] is node:
            continue
        yield Breach(path, function, "uses SimulatedHolder")


def imports(path: str, code: Code) -> Iterator[Breach]:
    """What ``admmnet/holder`` and ``admmnet/methods`` import at run time."""
    allowed = next((names for folder, names in MAY_IMPORT.items() if path.startswith(folder)), None)
    if allowed is None:
        return
    method = path.startswith("admmnet/methods/")
    for module, function in code.imports():
        top, _, inside = module.partition(".")
        ours = any(f"{inside}.".startswith(f"{name}.") for name in allowed)
        direct = method and inside.startswith(NOT_FOR_METHODS)
        odd = method and top in ("importlib", "gc", "inspect", "sys")
        if (top == "admmnet" and (not ours or direct)) or top == "None" or odd:
            yield Breach(path, function, f"imports {module}")
    for node, function in code.nodes:
        if isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec"):
            yield Breach(path, function, f"calls {node.id}")


Rule = Callable[[str, Code], Iterator[Breach]]
RULES: dict[str, tuple[Rule, set[tuple[str, str]]]] = {
    "private attributes": (private_attributes, set()),
    "secrets": (secrets, SECRETS),
    "shards": (shards, SHARDS),
    "simulated": (simulated, SIMULATED),
    "imports": (imports, set()),
}


@pytest.mark.parametrize("name", RULES)
def test_the_package_keeps_the_rule(name: str) -> None:
    rule, allowed = RULES[name]
    assert len(MODULES) > 100
    found = [breach[:2] for path in MODULES for breach in rule(path, code_of(path))]
    assert [place for place in found if place not in allowed] == []
    assert allowed - set(found) == set(), "no longer needed: take it from the list"
    assert name != "simulated" or len(found) == len(allowed), "each place declares a simulation once"


def test_nothing_above_is_loaded_with_holder_and_methods() -> None:
    """Also not through others; settings, transports and the loop are not even there."""
    modules = "sys, admmnet.holder.measurements, admmnet.methods, admmnet.solvers.blocks.solve"
    command = [sys.executable, "-c", f"import {modules}\nprint(*sys.modules)"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    loaded = {word.split(".")[1] for word in ended.stdout.split() if word.startswith("admmnet.")}
    assert {"holder", "methods", "privacy"} <= loaded <= {"holder", "methods", *GROUND.split()}


METHOD, ABOVE = "admmnet/methods/new.py", "admmnet/running/observer.py"
PLANTED = [
    ("private attributes", ABOVE, "def f(holder, loss): return holder._solver(0, loss).X"),
    ("private attributes", ABOVE, "def f(door): door._told = True"),
    ("private attributes", METHOD, "import operator\nf = operator.attrgetter('_make_solvers')"),
    ("secrets", ABOVE, "def f(node): return node.door.secret.solver.X"),
    ("secrets", ABOVE, "def f():\n    from admmnet.holder.answers import KINDS"),
    ("shards", "admmnet/running/plan.py", "def _notes(data): return getattr(data, 'shards')"),
    ("simulated", ABOVE, "import admmnet.holder as h\ndef f(X, y): return h.SimulatedHolder.of(X, y)"),
    ("simulated", "admmnet/holder/door.py", "def f(holder): holder.__class__ = SimulatedHolder"),
    ("imports", METHOD, "def f():\n    from admmnet.holder import Door"),
    ("imports", METHOD, "from . import base"),
    ("imports", METHOD, "if TYPE_CHECKING:\n    pass\nelse:\n    from admmnet.data import Records"),
    ("imports", "admmnet/holder/holder.py", "from admmnet.running.plan import Plan"),
]


@pytest.mark.parametrize(("name", "path", "text"), PLANTED)
def test_a_planted_breach_is_noticed(name: str, path: str, text: str) -> None:
    rule, allowed = RULES[name]
    assert len([breach for breach in rule(path, Code(text)) if breach[:2] not in allowed]) == 1
