"""The boundary around records, over the syntax trees of the whole package (docs/proofs.md, sec. 1).

Each rule finds breaches in one module, and is shown to notice a planted one. What may be done where is listed here;
an entry that nobody needs any more is an error, too.
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
SECRETS = {("admmnet/running/node.py", "closing")}
"""Functions that may look behind a door, which opens in simulations alone."""
SIMULATED = {
    # a run's mode decides
    ("admmnet/running/loading.py", "held"),
    # simulations alone
    ("admmnet/running/references.py", "_of_hinge"),
    ("admmnet/papers/passes.py", "_made"),
}
"""Where records are declared to be a simulation's, once in each."""
GROUND = (
    "errors",
    "form_errors",
    "forms",
    "gone",
    "identity",
    "masking",
    "privacy",
    "registry",
    "rng",
    "settings",
    "solvers",
    "types",
)
MAY_IMPORT = {
    "admmnet/holder/": ("holder", *GROUND),
    "admmnet/methods/": (
        *("methods", "holder.answers", "holder.encoding", "holder.known", "holder.measurements", "holder.series"),
        *("holder.problem.SINGLE_SITE_LOSSES", "errors"),
        *(
            "graph.simple",
            "masking.Attempt",
            "masking.partners",
            "privacy",
            "registry",
            "settings",
            "solvers.losses",
            "solvers.radius",
            "types",
        ),
    ),
}
"""What the two packages import at run time; of the holder, methods see questions and answers alone."""
NOT_FOR_METHODS = tuple(f"holder.answers.{name}" for name in ("measurement", "KINDS", "same_fields", "Known", "Secret"))
"""What makes a measurement one that the door answers, and what is behind it."""


class Breach(NamedTuple):
    path: str
    function: str
    """The outermost function around it, "" for none."""
    what: str


Rule = Callable[[str, ast.Module], Iterator[Breach]]


class Code:
    """Nodes of a module with the functions around them, and what only type checkers read."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes: list[tuple[ast.AST, str]] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self._walk(tree, "")

    def _walk(self, node: ast.AST, function: str) -> None:
        self.nodes.append((node, function))
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            own = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                own = function or child.name
            self._walk(child, own)

    def for_checkers_only(self, node: ast.AST) -> bool:
        """Whether it stands under ``if TYPE_CHECKING``, or in an annotation."""
        while node in self.parents:
            child, node = node, self.parents[node]
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return child in node.body
            if child in (getattr(node, "annotation", None), getattr(node, "returns", None)):
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


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def private_names() -> frozenset[str]:
    """Private attributes and methods of the classes of ``admmnet/holder`` that hold records."""
    found: set[str] = set()
    for path in ("admmnet/holder/holder.py", "admmnet/holder/door.py", "admmnet/holder/secrets.py"):
        for kind in (node for node in parsed(path).body if isinstance(node, ast.ClassDef)):
            for node in ast.walk(kind):
                if isinstance(node, ast.FunctionDef):
                    found.add(node.name)
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    found.add(node.attr)
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__"))


# the rules

BEHIND = tuple(f"admmnet.holder.{name}" for name in ("secrets", "answers.measurement", "answers.KINDS"))


def private_attributes(path: str, tree: ast.Module) -> Iterator[Breach]:
    """Nobody outside reaches into a holder or a door; classes may have private attributes of the same names."""
    if path.startswith("admmnet/holder/"):
        return
    code = Code(tree)
    for node, function in code.nodes:
        name = reached(node)
        if name not in private_names():
            continue
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            called = isinstance(parent := code.parents.get(node), ast.Call) and parent.func is node
            if own or (name == "_solver" and not called):  # a query of a ball has one
                continue
        yield Breach(path, function, f"reaches for {name}")


def secrets(path: str, tree: ast.Module) -> Iterator[Breach]:
    """``door.secret``, and the classes behind it."""
    if path.startswith("admmnet/holder/"):
        return
    code = Code(tree)
    for node, function in code.nodes:
        if reached(node) == "secret" and "door" in ast.dump(node):
            yield Breach(path, function, "looks behind a door")
        if isinstance(node, ast.ImportFrom | ast.Import) and not code.for_checkers_only(node):
            for module in modules_of(node):
                if module.startswith(BEHIND):
                    yield Breach(path, function, f"imports {module}")


def shards(path: str, tree: ast.Module) -> Iterator[Breach]:
    """``Records.shards``."""
    if path.startswith(("admmnet/data/", "admmnet/holder/")):
        return
    for node, function in Code(tree).nodes:
        if reached(node) == "shards":
            yield Breach(path, function, "touches shards")


def simulated(path: str, tree: ast.Module) -> Iterator[Breach]:
    """``SimulatedHolder`` as a value: not in an annotation, an import or ``isinstance``."""
    code = Code(tree)
    for node, function in code.nodes:
        named = isinstance(node, ast.Name) and node.id == "SimulatedHolder"
        if not (named or reached(node) == "SimulatedHolder") or code.for_checkers_only(node):
            continue
        call = code.parents[node]
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance" and call.args[1] is node:
            continue
        yield Breach(path, function, "uses SimulatedHolder")


def imports(path: str, tree: ast.Module) -> Iterator[Breach]:
    """What ``admmnet/holder`` and ``admmnet/methods`` import at run time."""
    allowed = next((names for folder, names in MAY_IMPORT.items() if path.startswith(folder)), None)
    if allowed is None:
        return
    code = Code(tree)
    for node, function in code.nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield Breach(path, function, "imports relatively")
        elif isinstance(node, ast.ImportFrom | ast.Import) and not code.for_checkers_only(node):
            for module in modules_of(node):
                top, _, inside = module.partition(".")
                ours = any(f"{inside}.".startswith(f"{name}.") for name in allowed)
                direct = path.startswith("admmnet/methods/") and inside.startswith(NOT_FOR_METHODS)
                odd = path.startswith("admmnet/methods/") and top in ("importlib", "gc", "inspect", "sys")
                if (top == "admmnet" and (not ours or direct)) or odd:
                    yield Breach(path, function, f"imports {module}")
        elif isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec"):
            yield Breach(path, function, f"calls {node.id}")


def modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Full names of what is imported."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


RULES: dict[str, tuple[Rule, set[tuple[str, str]]]] = {
    "private attributes": (private_attributes, set()),
    "secrets": (secrets, SECRETS),
    "shards": (shards, SHARDS),
    "simulated": (simulated, SIMULATED),
    "imports": (imports, set()),
}


# the package


@pytest.mark.parametrize("name", RULES)
def test_the_package_keeps_the_rule(name: str) -> None:
    rule, allowed = RULES[name]
    assert len(MODULES) > 100
    found = [breach for path in MODULES for breach in rule(path, parsed(path))]
    assert [breach for breach in found if breach[:2] not in allowed] == []
    assert allowed - {breach[:2] for breach in found} == set(), "no longer needed: take it from the list"


def test_each_place_declares_a_simulation_once() -> None:
    found = [breach[:2] for path in MODULES for breach in simulated(path, parsed(path))]
    assert sorted(found) == sorted(SIMULATED)


def test_private_names_are_those_of_the_classes() -> None:
    wanted = "_shards _solvers _solver _make_solvers _take _secret _known _ledger _told"
    assert private_names() >= set(wanted.split())


def test_nothing_above_is_loaded_with_holder_and_methods() -> None:
    """Also not through others; settings, transports and the loop are not even there."""
    modules = "sys, admmnet.holder.measurements, admmnet.methods, admmnet.solvers.blocks.solve"
    script = f"import {modules}\nprint(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    loaded = {word.split(".")[1] for word in ended.stdout.split() if word.startswith("admmnet.")}
    assert loaded >= {"holder", "methods", "privacy"}
    assert loaded <= {"holder", "methods", *GROUND}


# planted breaches

METHOD, ABOVE = "admmnet/methods/new.py", "admmnet/running/observer.py"
PLANTED: list[tuple[str, str, str]] = [
    ("private attributes", ABOVE, "def f(holder): return holder._shards[0]"),
    ("private attributes", ABOVE, "def f(holder, loss): return holder._solver(0, loss).X"),
    ("private attributes", ABOVE, "def f(holder): return holder._solvers"),
    ("private attributes", ABOVE, "def f(node): return node.door._secret.solver"),
    ("private attributes", ABOVE, "def f(door): door._told = True"),
    ("private attributes", ABOVE, "def f(door): door._ledger = None"),
    ("private attributes", METHOD, "def f(door): return getattr(door, '_secret')"),
    ("private attributes", METHOD, "import operator\nf = operator.attrgetter('_shards')"),
    ("private attributes", METHOD, "f = lambda holder: holder._make_solvers(None)"),
    ("secrets", ABOVE, "def f(node): return node.door.secret.solver.X"),
    ("secrets", "admmnet/running/journal.py", "def other(door): return door.secret"),
    ("secrets", METHOD, "from admmnet.holder.secrets import Secret"),
    ("secrets", METHOD, "import admmnet.holder.secrets"),
    ("secrets", METHOD, "from admmnet.holder.answers import measurement"),
    ("secrets", ABOVE, "def f():\n    from admmnet.holder.answers import KINDS"),
    ("shards", "admmnet/running/loop.py", "def f(plan): return plan.data.shards[0]"),
    ("shards", "admmnet/running/plan.py", "def _notes(data): return data.shards"),
    ("shards", "admmnet/running/plan.py", "def _notes(data): return getattr(data, 'shards')"),
    ("shards", "admmnet/running/loop.py", "def run(data): return data.shards[0]"),
    ("shards", "admmnet/experiments/grid.py", "def f(records): return records.shards"),
    ("simulated", ABOVE, "def f(X, y): return SimulatedHolder(X, y)"),
    ("simulated", ABOVE, "def f(found): return SimulatedHolder.of(found)"),
    ("simulated", "admmnet/running/plan.py", "def _load(found): return SimulatedHolder.of(found)"),
    ("simulated", "admmnet/holder/door.py", "kind = SimulatedHolder"),
    ("simulated", ABOVE, "import admmnet.holder as h\ndef f(X, y): return h.SimulatedHolder(X, y)"),
    ("simulated", ABOVE, "def f(a, kind=SimulatedHolder): return kind(a)"),
    ("simulated", ABOVE, "def f(holder): holder.__class__ = SimulatedHolder"),
    ("imports", METHOD, "from admmnet.config.run_config import RunConfig"),
    ("imports", METHOD, "def f():\n    import admmnet.running.loop"),
    ("imports", METHOD, "from admmnet.holder import Door"),
    ("imports", METHOD, "from admmnet.holder.door import Door"),
    ("imports", METHOD, "from admmnet.holder.answers import Known"),
    ("imports", METHOD, "from admmnet import holder"),
    ("imports", METHOD, "import admmnet"),
    ("imports", METHOD, "from admmnet.transport import World"),
    ("imports", METHOD, "from . import base"),
    ("imports", METHOD, "import gc"),
    ("imports", METHOD, "from importlib import import_module"),
    ("imports", METHOD, "if TYPE_CHECKING:\n    pass\nelse:\n    from admmnet.data import Records"),
    ("imports", "admmnet/holder/door.py", "from admmnet.methods import Agent"),
    ("imports", "admmnet/holder/holder.py", "from admmnet.data import Records"),
    ("imports", "admmnet/holder/holder.py", "from admmnet.running.plan import Plan"),
]
FINE: list[tuple[str, str, str]] = [
    ("private attributes", ABOVE, "class A:\n    def f(self): return self._ledger, self._shards"),
    ("private attributes", ABOVE, "def f(query): return query._solver"),
    ("private attributes", "admmnet/holder/door.py", "def f(holder): return holder._shards"),
    ("secrets", ABOVE, "def f(keys): return keys.secret"),
    ("secrets", ABOVE, "if TYPE_CHECKING:\n    from admmnet.holder.secrets import Secret"),
    ("shards", "admmnet/data/rows.py", "def f(records): return records.shards"),
    ("shards", ABOVE, "def f(records): return replace(records, shards={})"),
    ("simulated", ABOVE, "from admmnet.holder import SimulatedHolder\nassert isinstance(a, SimulatedHolder)"),
    ("simulated", ABOVE, "def f(a: SimulatedHolder) -> SimulatedHolder: return a"),
    ("imports", METHOD, "if TYPE_CHECKING:\n    from admmnet.config.run_config import RunConfig"),
    ("imports", METHOD, "import math\nfrom admmnet.holder.measurements import HeldFall"),
    ("imports", METHOD, "from admmnet.methods.base import Agent"),
    ("imports", "admmnet/holder/door.py", "from admmnet.solvers.blocks.solve import BlockSolver"),
    ("imports", ABOVE, "from admmnet.config.run_config import RunConfig"),
]


def breaches(name: str, path: str, text: str) -> list[Breach]:
    rule, allowed = RULES[name]
    return [breach for breach in rule(path, ast.parse(text)) if breach[:2] not in allowed]


@pytest.mark.parametrize(("name", "path", "text"), PLANTED)
def test_a_planted_breach_is_noticed(name: str, path: str, text: str) -> None:
    assert len(breaches(name, path, text)) == 1


@pytest.mark.parametrize(("name", "path", "text"), FINE)
def test_what_is_allowed_is_no_breach(name: str, path: str, text: str) -> None:
    assert breaches(name, path, text) == []
