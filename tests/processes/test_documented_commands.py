"""Every command that the pages show is run, page by page, each page in a folder of its own, and ends as it should.

A step is a line of a ```bash block, or the whole block where a line goes on in the next one.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data.sets import census
from tests.doc_pages import PAGES, ROOT, blocks, fenced, name, prose, text
from tests.real_sets import ENVIRONMENT, FOLDER, held, need
from tests.run_folders import made, unfinished

from .launch import Ended
from .proxy import free_port
from .warm import SIMPLE, Warm

pytestmark = pytest.mark.processes
NIGHTLY = ("docs/compare.md", "docs/network-ledger.md", "docs/reproduction.md", "docs/simulate.md")
"""Pages of grids, large networks and many like runs: tried where ADMMNET_PAGES=all, as launch/nightly.sh has it."""
DEADLINE = 240.0
"""Seconds that a command may take; most take two."""
BIN = Path(sys.executable).parent
REAL = r".*--data adult:age\b"  # no built-in set stands in for it: a test of its own reads the real one
UNRUN = (
    r"(ADMMNET_DATA=DIR )?launch/test\.sh|ruff check|mypy$|python -m pytest",  # they run this test, among all
    r"\. \.venv/bin/activate$",  # changes the shell that it is typed into, and nothing else
    r"(python -m )?pip install",  # needs a network
    r"ADMMNET_DATA=DIR launch/nightly\.sh",  # hours; tests/test_launch.py runs it with stand-ins
    r"(OPENBLAS_NUM_THREADS=1 )?python (-m )?tests.benchmarks|admmnet (audit|reproduce)\b",  # minutes each
    r"admmnet compare\b",  # many minutes; tests/experiments runs small ones, and reads such files
    REAL,
)
"""Commands that are not run."""


def _digits(match: re.Match[str]) -> str:
    return f"{match[0]} --rounds 2" if held("mnist") else f"--data census{match[1]}"


GIVEN = {
    "docs/data.md": ("runs/two",),
    "docs/results.md": ("runs/again", "runs/a", "runs/b", "runs/c", "made-A", "made-B", "made-C"),
}
"""Run folders that a page takes from another one."""
CHANGES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\bRUN(-[A-Z])?\b", r"made\1"),  # a run folder that was made before
    (r"mpirun -n 5\b", "mpirun -n 2"),
    (r"--data NAME\|FILE", "--data census"),
    (r"--data adult\b(?!:)", lambda match: match[0] if held("adult") else "--data census"),
    (r"--data mnist\b(?!:)(.*)", _digits),
    (r"--data-dir DIR", lambda match: f"--data-dir {shlex.quote(str(FOLDER))}" if FOLDER else ""),
    (r"\brun (?=-)(?!.*(--rounds|--resume|--offline|runs/long))", "run --rounds 3 "),
    (r"relay\.example:7000", '"$(cat relay.txt)"'),  # a free port of this machine
    (r"(.* --agents 1000 .*)$", r"\1 --rounds 1"),
    (r"-f \.mkdocs/mkdocs\.yml", lambda match: f'-f "{ROOT}/.mkdocs/mkdocs.yml" -d "$PWD/site"'),
)
"""What a command is run with instead."""


SETTINGS = '[algorithm]\nalgorithm = "pp-admm"\nrounds = 2\n\n[run]\nseed = 0\n'
# a folder stands for the machine: files go there, and its users and services are left as they are
SUDO = """\
#!/bin/bash
set -e
mkdir -p "$HOSTS/root/etc/systemd/system"
words=()
for word; do case $word in
    /etc/*|/var/*|/opt/*) words+=("$HOSTS/root$word");;
    -o|admmnet) ;;
    *) words+=("$word");;
esac; done
case $1 in
    install) exec "${words[@]}";;
    useradd|systemctl|iptables|python3|*/.venv/bin/pip) ;;
    *) exit 9;;
esac
"""
RELAY = "admmnet relay --network network.toml --secret relay.secret.toml --out runs/relay"
PARTNERS = {"north": 0, "east": 2}
"""Agents beside the one whose commands docs/hosts.md shows, each in a folder of its own."""
DOCKER = '#!/bin/sh\n[ "$1 $2" = "compose -f" ] && [ -f "$3" ]\n'


# what a page shows


def shell_steps(path: Path) -> Iterator[str]:
    """Commands of a page, in order."""
    for block in blocks(path, "bash"):
        whole = re.search(r"^for ", block, re.MULTILINE)
        lines = [block] if whole else [line.strip() for line in block.splitlines()]
        yield from (line for line in lines if line and not line.startswith("#"))
    for line in prose(path).splitlines():
        if re.match(r" {4}(admmnet|mpirun|python) ", line):
            yield line.strip()


def unrun(step: str) -> bool:
    """Whether a step is not run."""
    return any(re.match(pattern, step) for pattern in UNRUN)


def changed(step: str) -> str:
    """Return what is run in place of a step."""
    lines = step.splitlines() if "\n" in step else [re.sub(r"\s+# .*$", "", step)]
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


# what it takes for granted


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made") / "run", rounds=3)


def people(path: Path, seed: int, rows: int = 60) -> None:
    generator = np.random.default_rng(seed)
    ages = generator.integers(20, 90, rows)
    lines = [f"{age},{'ab'[k % 2]},{'yes' if age > 55 else 'no'}" for k, age in enumerate(ages)]
    path.write_text("\n".join(["age,ward,sick", *lines]) + "\n", encoding="utf-8")


def sites(folder: Path) -> None:
    """Records and settings of three sites; the shown one has this folder."""
    (settings,) = blocks(ROOT / "docs" / "hosts.md", "toml")
    for agent, site in enumerate((folder / "north", folder, folder / "east")):
        (site / "own").mkdir(parents=True)
        people(site / "own" / "patients.csv", agent)
        (site / "settings.toml").write_text(settings, encoding="utf-8")


def census_rows(path: Path, rows: int = 50) -> None:
    """Write people of the built-in set as the csv that a user would have."""
    table, schema = census.read_census(), census.SCHEMA
    names = [*(column.get("column", key) for key, column in schema["columns"].items()), schema["label"]]
    columns = [table.column(each) for each in dict.fromkeys(names)]
    people = [[column.levels[column.codes[row]] for column in columns] for row in range(rows)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*dict.fromkeys(names)], *people])


def program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body, encoding="utf-8")
    path.chmod(0o755)


def like_the_project(folder: Path) -> None:
    """Launch scripts beside a .venv that is this environment, installed already."""
    shutil.copytree(ROOT / "launch", folder / "launch")
    shutil.copytree(ROOT / "topologies", folder / "topologies")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for word in ("python", "mpirun", "admmnet"):
        target = shutil.which(word, path=f"{BIN}:{os.environ['PATH']}")
        assert target is not None
        program(folder / ".venv" / "bin" / word, f'#!/bin/sh\nexec {target} "$@"\n')
    files = ("pyproject.toml", "launch/constraints.txt", "launch/_env.sh")
    pinned = b"".join((ROOT / file).read_bytes() for file in files)
    sums = subprocess.run(["cksum"], input=pinned, capture_output=True, timeout=20, check=True)
    for extras in ("mpich", "mpich,plot"):
        (folder / ".venv" / f"stamp-{extras}").write_text(f"{extras} {sums.stdout.decode()}", encoding="utf-8")


def prepare(folder: Path, page: str, run_folder: Path) -> None:
    """Put what a page takes for granted into its folder."""
    like_the_project(folder)
    shutil.copytree(run_folder, folder / "made")
    (folder / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    for given in GIVEN.get(page, ()):
        shutil.copytree(run_folder, folder / given)
    if page == "docs/data.md":
        for given in ("new.csv", "sample.csv", "mine.csv"):
            census_rows(folder / given)
    if page == "docs/quickstart.md":
        for given in ("sample.csv", "mine.csv"):
            people(folder / given, 4, rows=400)
    if page == "docs/hosts.md":
        (folder / "relay.txt").write_text(f"127.0.0.1:{free_port()}", encoding="utf-8")
        sites(folder)
        for word, body in (("sudo", SUDO), ("docker", DOCKER)):
            program(folder / "bin" / word, body)


# how it is run


def environment(folder: Path) -> dict[str, str]:
    own = {"RANKS": "2", "PATH": f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    own |= {"HOSTS": str(folder / "hosts"), "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    own |= {"MPLBACKEND": "agg", **({ENVIRONMENT: str(FOLDER)} if FOLDER else {})}
    return {name: value for name, value in os.environ.items() if name != "PYTHON"} | own


def run_words(folder: Path, *words: str) -> Ended:
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": DEADLINE}
    done = subprocess.run(words, cwd=folder, env=environment(folder), check=False, **how)
    return Ended(done.returncode, done.stdout, done.stderr)


def begun(folder: Path, line: str) -> Warm:
    return Warm("admmnet", *shlex.split(line)[1:], env=environment(folder), cwd=folder)


def run_command(folder: Path, command: str) -> Ended:
    """Run a command of bash, or one of ours that needs no shell."""
    if not SIMPLE.fullmatch(command):
        return run_words(folder, "bash", "-euo", "pipefail", "-c", command)
    told = (process := begun(folder, command)).communicate(DEADLINE)
    return Ended(process.wait(), *told)


def with_partners(folder: Path, command: str) -> Ended:
    """Run the relay, the shown agent and its two neighbours, each with its own key and run folder."""
    started = {"relay": begun(folder, RELAY)}
    for site, agent in (PARTNERS | {"south": 1}).items():
        place = folder / ("" if site == "south" else site)
        for file in (folder / "net" / "network.toml", *(folder / "net" / "keys").iterdir()):
            shutil.copy(file, place)
        started[site] = begun(place, command.replace("south", site).replace("agent-001", f"agent-00{agent}"))
    told = {site: process.communicate(DEADLINE) for site, process in started.items()}
    assert {process.wait() for process in started.values()} == {0}, told
    return Ended(0, *told["south"])


def carried_out(folder: Path, step: str) -> Ended:
    command = changed(step)
    if command == RELAY:
        return Ended(0, "", "")  # it is started with the agents
    if "admmnet agent --id south " in command and "\n" not in command:
        return with_partners(folder, command)
    if "--resume runs/long" in command:
        (folder / "runs" / "long").rename(folder / "runs" / "whole")
        unfinished(folder / "runs" / "whole", folder / "runs" / "long", rounds=39, agents=5)
    return run_command(folder, command)


def succeeds(folder: Path, step: str) -> None:
    result = carried_out(folder, step)
    told = f"{step}\nrun as: {changed(step)}\n{result.out}\n{result.err}"
    assert result.code == 0, told
    assert "Traceback" not in result.err, told


def runnable() -> list[Path]:
    late = () if os.environ.get("ADMMNET_PAGES") == "all" else NIGHTLY
    shown = [page for page in PAGES if name(page) not in late]
    return [page for page in shown if python_of(page) or not all(map(unrun, shell_steps(page)))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", runnable(), ids=name)
def test_the_commands_of_a_page(path: Path, run_folder: Path, tmp_path: Path) -> None:
    prepare(tmp_path, name(path), run_folder)
    for step in shell_steps(path):
        if not unrun(step):
            succeeds(tmp_path, step)
    if (script := python_of(path)) is not None:
        (tmp_path / "page.py").write_text(script, encoding="utf-8")
        result = run_words(tmp_path, sys.executable, "-W", "error", "page.py")
        assert result.code == 0, f"its Python\n{result.out}\n{result.err}"


@pytest.mark.parametrize("step", [step for page in PAGES for step in shell_steps(page) if re.match(REAL, step)])
def test_a_command_on_real_targets(step: str, tmp_path: Path) -> None:
    need("adult")
    succeeds(tmp_path, step)
