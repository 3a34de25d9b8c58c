"""The boundary around records, over the syntax trees of the whole package (docs/proofs.md, sec. 1).

Each rule is shown to notice planted breaches. What may be done where is listed here; an
entry that nobody needs any more is an error, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

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
    ("admmnet/running/loading.py", "shared"),
    ("admmnet/running/loading.py", "_write"),
    # simulations alone: yardsticks take the run's encoding
    ("admmnet/running/prologue.py", "run_prologue"),
    # simulations alone: grids and figures on public data
    ("admmnet/experiments/tasks.py", "hold_out"),
    ("admmnet/experiments/tasks.py", "loaded"),
    ("admmnet/papers/ding2020.py", "_train_error"),
    ("admmnet/papers/sources.py", "load"),
    ("admmnet/papers/sources.py", "rows"),
    ("admmnet/running/references.py", "pooled_figure"),
}
"""Functions outside of ``admmnet/data`` that may touch ``Records.shards``."""
SECRETS = {("admmnet/running/party.py", "closing")}
"""Functions that may look behind a door, which opens in simulations alone."""
SIMULATED = {
    # a run's mode decides
    ("admmnet/running/loading.py", "held"),
    # simulations alone
    ("admmnet/running/references.py", "_of_hinge"),
    ("admmnet/papers/sources.py", "_made"),
}
"""Where records are declared to be a simulation's, once in each."""
GROUND = "errors form_errors forms gone identity masking privacy registry rng settings solvers types"
QUESTIONS = "holder.answers holder.encoding holder.measurements holder.problem.SINGLE_SITE_LOSSES"
USED = "graph.simple masking.Attempt masking.check_participants privacy registry settings solvers.losses solvers.radius"
MAY_IMPORT = {
    "admmnet/holder/": f"holder {GROUND}".split(),
    "admmnet/methods/": f"methods {QUESTIONS} holder.series errors {USED} types".split(),
}
"""What the two packages import at run time; of the holder, methods see questions and answers alone."""
NOT_FOR_METHODS = tuple(f"holder.answers.{name}" for name in ("measurement", "KINDS", "Secret"))
"""What makes a measurement one that the door answers, and what is behind it."""


class Code:
    """Nodes of a module, what is around each, and what only type checkers read."""

    def __init__(self, text: str) -> None:
        self.nodes = list(ast.walk(ast.parse(text)))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def around(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Every node around one, from inside out, with what of it leads there."""
        while node in self.parents:
            child, node = node, self.parents[node]
            yield child, node

    def function(self, node: ast.AST) -> str:
        """The outermost function around it, "" for none."""
        functions = [one for _, one in self.around(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        return functions[-1].name if functions else ""

    def for_checkers_only(self, node: ast.AST) -> bool:
        """Whether it stands under ``if TYPE_CHECKING``, or in an annotation."""
        for child, one in self.around(node):
            if isinstance(one, ast.If) and getattr(one.test, "id", "") == "TYPE_CHECKING":
                return child in one.body
            if child in (getattr(one, "annotation", None), getattr(one, "returns", None)):
                return True
        return False


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


def imported(node: ast.AST) -> list[str]:
    """Full names of what a node imports."""
    place = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [place + alias.name for alias in node.names] if isinstance(node, ast.ImportFrom | ast.Import) else []


@cache
def code_of(path: str) -> Code:
    return Code((ROOT / path).read_text(encoding="utf-8"))


@cache
def private_names() -> frozenset[str]:
    """Private attributes and methods of the classes of ``admmnet/holder`` that hold records."""
    found: set[str] = set()
    for path in ("admmnet/holder/holder.py", "admmnet/holder/door.py"):
        for node in code_of(path).nodes:
            if any(isinstance(one, ast.ClassDef) for _, one in code_of(path).around(node)):
                stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr
                found.add(node.name if isinstance(node, ast.FunctionDef) else stored or "")
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__"))


# rules: whether a node that is there at run time is a breach

BEHIND = tuple(f"admmnet.holder.{name}" for name in ("holder.Secret", "answers.measurement", "answers.KINDS"))


def private_attributes(path: str, code: Code, node: ast.AST) -> bool:
    """Nobody outside reaches into a holder or a door; classes may have private attributes of the same names."""
    own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("self", "cls")
    return not own and not path.startswith("admmnet/holder/") and reached(node) in private_names()


def secrets(path: str, code: Code, node: ast.AST) -> bool:
    """``door.secret``, and the classes behind it."""
    behind = reached(node) == "secret" and "door" in ast.dump(node)
    return not path.startswith("admmnet/holder/") and (behind or any(one.startswith(BEHIND) for one in imported(node)))


def shards(path: str, code: Code, node: ast.AST) -> bool:
    """``Records.shards``."""
    return not path.startswith(("admmnet/data/", "admmnet/holder/")) and reached(node) == "shards"


def simulated(path: str, code: Code, node: ast.AST) -> bool:
    """``SimulatedHolder`` as a value: not in an annotation, an import or ``isinstance``."""
    call: Any = code.parents.get(node)
    asked = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance" and call.args[1] is node
    return not asked and "SimulatedHolder" in (getattr(node, "id", ""), reached(node))


def imports(path: str, code: Code, node: ast.AST) -> bool:
    """What ``admmnet/holder`` and ``admmnet/methods`` import at run time."""
    allowed = next((names for folder, names in MAY_IMPORT.items() if path.startswith(folder)), None)
    if allowed is None:
        return False
    method = path.startswith("admmnet/methods/")
    for module in imported(node):
        top, _, inside = module.partition(".")
        ours = any(f"{inside}.".startswith(f"{name}.") for name in allowed)
        direct = method and inside.startswith(NOT_FOR_METHODS)
        odd = method and top in ("importlib", "gc", "inspect", "sys")
        if (top == "admmnet" and (not ours or direct)) or top == "None" or odd:
            return True
    return isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec")


Rule = Callable[[str, Code, ast.AST], bool]
RULES: dict[str, tuple[Rule, set[tuple[str, str]]]] = {
    "private attributes": (private_attributes, set()),
    "secrets": (secrets, SECRETS),
    "shards": (shards, SHARDS),
    "simulated": (simulated, SIMULATED),
    "imports": (imports, set()),
}


def breaches(rule: Rule, path: str, code: Code) -> list[tuple[str, str]]:
    """Module and function of each."""
    found = [node for node in code.nodes if rule(path, code, node)]
    return [(path, code.function(node)) for node in found if not code.for_checkers_only(node)]


@pytest.mark.parametrize("name", RULES)
def test_the_package_keeps_the_rule(name: str) -> None:
    rule, allowed = RULES[name]
    assert len(MODULES) > 100
    found = [place for path in MODULES for place in breaches(rule, path, code_of(path))]
    assert [place for place in found if place not in allowed] == []
    assert allowed - set(found) == set(), "no longer needed: take it from the list"
    assert name != "simulated" or len(found) == len(allowed), "each place declares a simulation once"


def test_nothing_above_is_loaded_with_holder_and_methods() -> None:
    """Also not through others; settings, transports and the loop are not even there."""
    modules = "sys, admmnet.holder.measurements, admmnet.methods, admmnet.solvers.blocks.group"
    command = [sys.executable, "-c", f"import {modules}\nprint(*sys.modules)"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    loaded = {word.split(".")[1] for word in ended.stdout.split() if word.startswith("admmnet.")}
    assert {"holder", "methods", "privacy"} <= loaded <= {"holder", "methods", *GROUND.split()}


METHOD, ABOVE = "admmnet/methods/new.py", "admmnet/running/observer.py"
PLANTED = [
    ("private attributes", ABOVE, "def f(door): door._known = None"),
    ("private attributes", METHOD, "import operator\nf = operator.attrgetter('_make_solvers')"),
    ("secrets", ABOVE, "def f(node): return node.door.secret.solver.X"),
    ("secrets", ABOVE, "def f():\n    from admmnet.holder.answers import KINDS"),
    ("shards", "admmnet/running/plan.py", "def _notes(data): return getattr(data, 'shards')"),
    ("simulated", ABOVE, "import admmnet.holder as h\ndef f(X, y): return h.SimulatedHolder.of(X, y)"),
    ("imports", METHOD, "def f():\n    from admmnet.holder import Door"),
    ("imports", METHOD, "if TYPE_CHECKING:\n    pass\nelse:\n    from admmnet.data import Records"),
    ("imports", "admmnet/holder/holder.py", "from admmnet.running.plan import Plan"),
]


@pytest.mark.parametrize(("name", "path", "text"), PLANTED)
def test_a_planted_breach_is_noticed(name: str, path: str, text: str) -> None:
    rule, allowed = RULES[name]
    assert len([place for place in breaches(rule, path, Code(text)) if place not in allowed]) == 1
