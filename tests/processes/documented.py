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


REAL = r".*--data adult:age\b"  # no built-in set stands in for it: a test of its own reads the real one
UNRUN = (
    r"(ADMMNET_DATA=DIR )?launch/test\.sh|ruff check|mypy$|python -m pytest",  # they run this test, among all
    r"\. \.venv/bin/activate$",  # changes the shell that it is typed into, and nothing else
    r"(python -m )?pip install",  # needs a network
    r"(OPENBLAS_NUM_THREADS=1 )?python (-m )?tests.benchmarks",  # minutes each
    r"ADMMNET_DATA=DIR launch/nightly\.sh",  # hours; tests/test_launch.py runs it with stand-ins
    r"admmnet compare docs/\w+.toml",  # many minutes; tests/experiments/test_words.py reads such files
    r"admmnet audit\b",  # minutes each; tests/cli/test_audit_command.py runs small ones
    r"admmnet reproduce\b",  # minutes each
    REAL,
)
"""Commands that are not run."""


def _digits(match: re.Match[str]) -> str:
    return f"{match[0]} --rounds 2" if held("mnist") else f"--data census{match[1]}"


def _first_two(match: re.Match[str]) -> str:
    return "=" + ":".join(match[0].removeprefix("=").split(":")[:2])


GIVEN = {
    "docs/data.md": ("runs/two",),
    "docs/results.md": ("runs/again", "runs/a", "runs/b", "runs/c", "made-A", "made-B", "made-C"),
}
"""Run folders that a page takes from another one."""
CHANGES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\bRUN(-[A-Z])?\b", r"made\1"),  # a run folder that was made before
    (r"mpirun -n 5\b", "mpirun -n 2"),
    (r"--algorithms ([^, ]+,[^, ]+),\S+ (?!.*--tune)", r"--algorithms \1 "),  # two methods of many
    (r"--data NAME\|FILE", "--data census"),
    (r"--data adult\b(?!:)", lambda match: match[0] if held("adult") else "--data census"),
    (r"--data mnist\b(?!:)(.*)", _digits),
    (r"--data-dir DIR", lambda match: f"--data-dir {shlex.quote(str(FOLDER))}" if FOLDER else ""),
    (r"\brun (?=-)(?!.*(--rounds|--resume|--offline|runs/long))", "run --rounds 3 "),
    (r"relay\.example:7000", '"$(cat relay.txt)"'),  # a free port of this machine
    (r"(admmnet compare .*)", r"\1 --seeds 0:1 --epsilons 1 --jobs 1"),  # a grid of hours, at its first point
    (r"=[\w.-]+(:[\w.-]+){2,}(?=[, ])", _first_two),  # two values of what is tuned
    (r"(--tune .*)$", r"\1 --tune-seeds 1"),
    (r"(.* --agents 1000 .*)$", r"\1 --rounds 1"),
    (r"-f \.mkdocs/mkdocs\.yml", lambda match: f'-f "{ROOT}/.mkdocs/mkdocs.yml" -d "$PWD/site"'),
)
"""What a command is run with instead."""


def shell_steps(path: Path) -> Iterator[Step]:
    """Commands of a page, in order."""
    for block in blocks(path, "bash"):
        whole = re.search(r"^for ", block, re.MULTILINE)
        lines = [block] if whole else [line.strip() for line in block.splitlines()]
        yield from (Step(name(path), line) for line in lines if line and not line.startswith("#"))
    for line in prose(path).splitlines():
        if re.match(r" {4}(admmnet|mpirun|python) ", line):
            yield Step(name(path), line.strip())


def unrun(step: Step) -> bool:
    """Whether a step is not run."""
    return any(re.match(pattern, step.text) for pattern in UNRUN)


def changed(step: Step) -> str:
    """Return what is run in place of a step."""
    lines = step.text.splitlines() if "\n" in step.text else [re.sub(r"\s+# .*$", "", step.text)]
    for pattern, change in CHANGES:
        lines = [re.sub(pattern, change, line) for line in lines]
    return "\n".join(lines)


def python_of(path: Path) -> str | None:
    """Return the Python of a page as one script, what is long made short; None if it has none."""
    # tests/docs/test_worked_example.py and test_track_page.py run those of contributing.md and of the last section
    tracked = text(path).partition("\n## Track a run\n")[2]
    found = [block for block in blocks(path, "python") if block not in fenced(tracked, "python")]
    if not found or path.name == "contributing.md":
        return None
    script = "\n".join(found).replace("range(5)", "range(1)")
    return script if held("adult") else script.replace('"adult"', '"census"')
