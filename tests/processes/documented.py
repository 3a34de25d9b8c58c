"""The commands that the pages show, made ready to be run: what is put in place of what, and why.

A step is a line of a ```bash block, or the whole block where a line goes on in the next one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.doc_pages import ROOT, blocks, fenced, name, prose, text
from tests.real_sets import FOLDER, held

NIGHTLY = ("docs/compare.md", "docs/network-ledger.md", "docs/reproduction.md", "docs/simulate.md")
"""Pages of grids, large networks and many like runs: tried where ADMMNET_PAGES=all, as launch/nightly.sh has it."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "topologies" / "README.md"]


class Step(NamedTuple):
    """A command of a page, as it stands there."""

    page: str
    text: str


class Unrun(NamedTuple):
    """A command that is not run, and why."""

    pattern: str
    why: str


class Change(NamedTuple):
    """What a command is run with instead, and why; ``page`` is empty for all pages."""

    page: str
    pattern: str
    change: Callable[[re.Match[str]], str]
    why: str


REAL = Unrun(r".*--data adult:age\b", "no built-in set stands in for it: a test of its own reads the real one")
UNRUN = (
    Unrun(r"(ADMMNET_DATA=DIR )?launch/test\.sh|ruff check|mypy$|python -m pytest", "they run this test, among all"),
    Unrun(r"\. \.venv/bin/activate$", "changes the shell that it is typed into, and nothing else"),
    Unrun(r"(python -m )?pip install", "needs a network; the extras it names are checked"),
    Unrun(r"(OPENBLAS_NUM_THREADS=1 )?python (-m )?tests.benchmarks", "minutes each; their flags are checked"),
    Unrun(r"ADMMNET_DATA=DIR launch/nightly\.sh", "half an hour; tests/test_launch.py runs it with stand-ins"),
    Unrun(r"admmnet compare docs/\w+.toml", "many minutes; tests/experiments/test_words.py reads such files"),
    Unrun(r"admmnet audit\b", "minutes each; tests/cli/test_audit_command.py runs small ones"),
    Unrun(r"admmnet reproduce\b", "minutes each; its flags are checked in tests/docs/test_docs_commands.py"),
    REAL,
)


def _to(text: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(text)


def _adult(match: re.Match[str]) -> str:
    return match[0] if held("adult") else "--data census"


def _digits(match: re.Match[str]) -> str:
    return f"{match[0]} --rounds 2" if held("mnist") else f"--data census{match[1]}"


def _folder(match: re.Match[str]) -> str:
    return f"--data-dir {shlex.quote(str(FOLDER))}" if FOLDER else ""


def _first_two(match: re.Match[str]) -> str:
    return "=" + ":".join(match[0].removeprefix("=").split(":")[:2])


GIVEN = {
    "docs/data.md": ("runs/two",),
    "docs/results.md": ("runs/again", "runs/a", "runs/b", "runs/c", "made-A", "made-B", "made-C"),
}
"""Run folders that a page takes from another one."""
CHANGES = (
    Change("", r"\bRUN(-[A-Z])?\b", _to(r"made\1"), "a run folder that was made before"),
    Change("", r"mpirun -n 5\b", _to("mpirun -n 2"), "two ranks do what five do"),
    Change("", r"--algorithms ([^, ]+,[^, ]+),\S+ (?!.*--tune)", _to(r"--algorithms \1 "), "two methods of many"),
    Change("", r"--data NAME\|FILE", _to("--data census"), "a data set that is always there"),
    Change("", r"--data adult\b(?!:)", _adult, "the real set where there is one, else one that is built in"),
    Change("", r"--data mnist\b(?!:)(.*)", _digits, "two rounds of the real set where there is one"),
    Change("", r"--data-dir DIR", _folder, "the folder of the real sets, where one is named"),
    Change(
        "", r"\brun (?=-)(?!.*(--rounds|--resume|--offline|runs/long))", _to("run --rounds 3 "), "few rounds of many"
    ),
    Change("docs/hosts.md", r"relay\.example:7000", _to('"$(cat relay.txt)"'), "a free port of this machine"),
    Change(
        "",
        r"(admmnet compare .*)",
        _to(r"\1 --seeds 0:1 --epsilons 1 --jobs 1"),
        "a grid of hours, at its first point, in one process",
    ),
    Change("docs/reproduction.md", r"(?<=,)([\w.-]+=[\w.-]+)(:[\w.-]+)+", _to(r"\1"), "one value of all but the first"),
    Change("", r"=[\w.-]+(:[\w.-]+){2,}(?=[, ])", _first_two, "two values of what is tuned"),
    Change("docs/compare.md", r"(--tune .*)$", _to(r"\1 --tune-seeds 1"), "one trial of each"),
    Change("docs/reproduction.md", r"(--tune .*)$", _to(r"\1 --tune-seeds 1"), "one trial of each"),
    Change("docs/simulate.md", r"(.* --agents 1000 .*)$", _to(r"\1 --rounds 1"), "a large network, one round"),
    Change(
        "docs/contributing.md",
        r"-f \.mkdocs/mkdocs\.yml",
        _to(rf'-f "{ROOT}/.mkdocs/mkdocs.yml" -d "$PWD/site"'),
        "a folder of its own to write to",
    ),
)


def shell_steps(path: Path) -> Iterator[Step]:
    """Commands of a page, in order."""
    for block in blocks(path, "bash"):
        whole = re.search(r"^for ", block, re.MULTILINE)
        lines = [block] if whole else [line.strip() for line in block.splitlines()]
        yield from (Step(name(path), line) for line in lines if line and not line.startswith("#"))
    for line in prose(path).splitlines():
        if re.match(r" {4}(admmnet|mpirun|python) ", line):
            yield Step(name(path), line.strip())


def unrun(step: Step) -> Unrun | None:
    """Return why a step is not run, None if it is."""
    return next((reason for reason in UNRUN if re.match(reason.pattern, step.text)), None)


def changed(step: Step) -> str:
    """Return what is run in place of a step."""
    lines = step.text.splitlines() if "\n" in step.text else [re.sub(r"\s+# .*$", "", step.text)]
    return "\n".join(_changed(step.page, line) for line in lines)


def _changed(page: str, line: str) -> str:
    for change in CHANGES:
        if change.page in ("", page):
            line = re.sub(change.pattern, change.change, line)
    return line


def tracked(path: Path) -> str:
    return text(path).partition("\n## Track a run\n")[2]


def python_of(path: Path) -> str | None:
    """Return the Python of a page as one script, what is long made short; None if it has none."""
    # tests/docs/test_worked_example.py and test_library_page.py run those of contributing.md and of the last section
    found = [block for block in blocks(path, "python") if block not in fenced(tracked(path), "python")]
    if not found or path.name == "contributing.md":
        return None
    script = "\n".join(found).replace("range(5)", "range(1)")
    return script if held("adult") else script.replace('"adult"', '"census"')
