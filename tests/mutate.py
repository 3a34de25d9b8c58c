"""Which mistakes the tests see: a mutant is one edit of the package, and tests that still pass with it let it survive.

python -m tests.mutate [--jobs N]                                       each tests/FOLDER/mutants.py with tests/FOLDER
python -m tests.mutate [--jobs N] tests/FOLDER/mutants.py TESTS...      these mutants with these tests
python -m tests.mutate [--jobs N] --random N --seed S PACKAGE TESTS...  N random edits of admmnet/PACKAGE

A file of mutants holds MUTANTS = {"name": ("graph/simple.py", "old text", "new text"), ...}: paths below admmnet/, and
texts that are once in their files. Random edits are drawn by the text of their lines: code that stays gives the same
ones. Each mutant has a line with the first test that fails. Exit 1 if a mutant survives or cannot be made, or if the
tests fail without one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SWAPS = {"<": "<=", ">": ">=", "==": "!=", "+": "-", "*": "/", "and": "or"}
SWAPS |= {new: old for old, new in SWAPS.items()} | {"in": "not in", "is": "is not", "//": "/", "%": "*", "**": "*"}
OPERATOR = re.compile(r"(?<![\w<>=!*/])(<=|>=|==|!=|//|\*\*|[-+*/%<>]|\b(?:and|or|in|is)\b)(?![=<>*/])")
SECONDS = 1500
"""After which tests that have not ended count as failed."""
GROUPS: set[int] = set()
"""Groups of processes in which tests run now."""


class Mutant(NamedTuple):
    """A file below the package and its whole text after the edit."""

    name: str
    path: str
    text: str


def hand_made(file: Path) -> Iterator[Mutant]:
    """Mutants of a file; each can be made."""
    for name, (path, old, new) in runpy.run_path(str(file))["MUTANTS"].items():
        text = (ROOT / "admmnet" / path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise SystemExit(f"{file}: {name}: its old text is {text.count(old)} times in {path}, not once")
        changed = text.replace(old, new)
        ast.parse(changed)
        yield Mutant(name, path, changed)


def edits(text: str) -> Iterator[tuple[int, int, str]]:
    """Where operators and constants of a module begin and end, and what each becomes."""
    lines = text.splitlines(keepends=True)

    def place(line: int | None, column: int | None) -> int:
        assert line is not None
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    for node in ast.walk(ast.parse(text)):
        operands: list[ast.expr] = []
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
            case ast.BinOp():
                operands = [node.left, node.right]
            case ast.BoolOp():
                operands = node.values
            case ast.Constant(value=bool() | int() | float() as value):
                begin, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
                if text[begin:end][:1] in "0123456789.TF":  # within texts with values, older versions miscount
                    new = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else None
                    yield begin, end, repr((value * 1.25 or 1.0) if new is None else new)
        for left, right in pairwise(operands):
            begin, end = place(left.end_lineno, left.end_col_offset), place(right.lineno, right.col_offset)
            found = OPERATOR.search(text[begin:end])
            if found and "not" not in text[begin:end]:
                yield begin + found.start(), begin + found.end(), SWAPS[found[1]]


def random_ones(package: str, number: int, seed: int) -> list[Mutant]:
    """Edits of a package, drawn by the text of their lines."""
    drawn = []
    for file in sorted((ROOT / "admmnet" / package).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for begin, end, new in edits(text):
            line = text[text.rfind("\n", 0, begin) + 1 : text.find("\n", end)].strip()
            edit = f"{text[begin:end]} -> {new} in {line[:70]}"
            rank = hashlib.sha256(f"{seed} {file.name} {edit}".encode()).digest()
            name = f"{file.name}:{text.count(chr(10), 0, begin) + 1} {edit}"
            path = file.relative_to(ROOT / "admmnet").as_posix()
            drawn.append((rank, Mutant(name, path, text[:begin] + new + text[end:])))
    return [mutant for _, mutant in sorted(drawn, key=lambda one: one[0])[:number]]


def kill(group: int) -> None:
    """End a process and all that it has started."""
    GROUPS.discard(group)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def first_failure(checkout: Path, tests: list[str]) -> str | None:
    """Name of the first test that fails in a checkout; nothing that the tests started outlives the call."""
    alone = {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = ["-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-o", "timeout=60"]
    with tempfile.TemporaryFile("w+") as printed:
        tested = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words, *tests],
            cwd=checkout,
            env={**os.environ, **alone, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        GROUPS.add(tested.pid)
        try:
            code = tested.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s"
        finally:
            kill(tested.pid)
        printed.seek(0)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed.read(), re.MULTILINE)
    return None if code == 0 else failed[1] if failed else f"exit {code} of pytest"


def survivors(suites: list[tuple[list[str], list[Mutant]]], jobs: int, folder: Path) -> int:
    """Try the mutants of all suites, some at once, each in a checkout of its own; say how each ends."""
    checkouts: SimpleQueue[Path] = SimpleQueue()
    unlike = shutil.ignore_patterns(".venv", ".git", "runs", "site", "__pycache__", ".*_cache")
    for job in range(jobs):
        checkouts.put(shutil.copytree(ROOT, folder / str(job), ignore=unlike))

    def attempt(tests: list[str], mutant: Mutant | None = None) -> str | None:
        checkout = checkouts.get()
        try:
            if mutant is not None:
                (checkout / "admmnet" / mutant.path).write_text(mutant.text, encoding="utf-8")
            return first_failure(checkout, tests)
        finally:
            if mutant is not None:
                shutil.copy(ROOT / "admmnet" / mutant.path, checkout / "admmnet" / mutant.path)
            checkouts.put(checkout)

    pool, left = ThreadPoolExecutor(jobs), 0
    try:
        tried = [
            (tests, mutants, pool.submit(attempt, tests), [pool.submit(attempt, tests, one) for one in mutants])
            for tests, mutants in suites
        ]
        for tests, mutants, whole, ends in tried:
            if failed := whole.result():
                print(f"{' '.join(tests)}: fail without a mutant: {failed}", flush=True)
            for mutant, end in zip(mutants, ends, strict=True):
                print(f"{mutant.path}: {mutant.name}: {end.result() or 'SURVIVES'}", flush=True)
            alive = sum(end.result() is None for end in ends)
            print(f"{' '.join(tests)}: {len(ends) - alive} of {len(ends)} killed", flush=True)
            left += alive + (failed is not None)
        return left
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for group in [*GROUPS]:
            kill(group)
        pool.shutdown()


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants that are tried at once")
    parser.add_argument("--random", type=int, metavar="N", help="try so many random edits of a package")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="draws the random edits")
    parser.add_argument("what", nargs="?", metavar="MUTANTS.py|PACKAGE")
    parser.add_argument("tests", nargs="*", metavar="TESTS")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # as an interrupt: no test goes on
    if (asked.what is None) == bool(asked.tests) or (asked.random and not asked.tests):
        parser.error("name the mutants or the package, and the tests; or nothing, for all tests/*/mutants.py")
    if asked.random:
        suites = [(asked.tests, random_ones(asked.what, asked.random, asked.seed))]
    else:
        files = [Path(asked.what)] if asked.tests else sorted((ROOT / "tests").glob("*/mutants.py"))
        suites = [(asked.tests or [f"tests/{file.parent.name}"], list(hand_made(file))) for file in files]
    with tempfile.TemporaryDirectory() as folder:
        return int(survivors(suites, asked.jobs, Path(folder)) > 0)


if __name__ == "__main__":
    sys.exit(main())
