"""Every command that the pages show is run, page by page, each page in a folder of its own, and ends as it should."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data.sets import census
from tests.doc_pages import ROOT, blocks, name
from tests.real_sets import ENVIRONMENT, FOLDER, need
from tests.run_folders import made, unfinished

from .documented import GIVEN, NIGHTLY, PAGES, REAL, Step, changed, python_of, shell_steps, unrun
from .launch import Ended
from .proxy import free_ports
from .warm import SIMPLE, Warm, run_line

pytestmark = pytest.mark.processes
DEADLINE = 240.0
"""Seconds that a command may take; most take two."""
BIN = Path(sys.executable).parent
SETTINGS = """\
[algorithm]
algorithm = "pp-admm"
rounds = 2

[run]
seed = 0
"""
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
DOCKER = """\
#!/bin/sh
[ "$1 $2" = "compose -f" ] && [ -f "$3" ]
"""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made") / "run", rounds=3)


def people(path: Path, seed: int, rows: int = 60) -> None:
    generator = np.random.default_rng(seed)
    ages = generator.integers(20, 90, rows)
    lines = [f"{age},{'ab'[k % 2]},{'yes' if age > 55 else 'no'}" for k, age in enumerate(ages)]
    path.write_text("\n".join(["age,ward,sick", *lines]) + "\n", encoding="utf-8")


def table(path: Path, rows: int = 400) -> None:
    """Numbers with a label, as the csv of a user who declares nothing."""
    stream = np.random.default_rng(4)
    lines = [f"{a:.3f},{b:.3f},{int(a + b > 0)}" for a, b in stream.standard_normal((rows, 2))]
    path.write_text("\n".join(["a,b,sick", *lines]) + "\n", encoding="utf-8")


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
            table(folder / given)
    if page == "docs/hosts.md":
        (folder / "relay.txt").write_text(f"127.0.0.1:{free_ports(1)[0]}", encoding="utf-8")
        sites(folder)
        for word, body in (("sudo", SUDO), ("docker", DOCKER)):
            program(folder / "bin" / word, body)


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "RANKS")}
    return {
        **kept,
        "RANKS": "2",
        "PATH": f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOSTS": str(folder / "hosts"),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "default",
        "MPLBACKEND": "agg",
        **({ENVIRONMENT: str(FOLDER)} if FOLDER else {}),
    }


def run_words(folder: Path, *words: str) -> Ended:
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": DEADLINE}
    done = subprocess.run(words, cwd=folder, env=environment(folder), check=False, **how)
    return Ended(done.returncode, done.stdout, done.stderr)


def with_partners(folder: Path, command: str) -> Ended:
    """Run the relay, the shown agent and its two neighbours, each with its own key and run folder."""
    places = {name: folder / name for name in PARTNERS} | {"south": folder}
    for place in places.values():
        shutil.copy(folder / "net" / "network.toml", place)
        for key in (folder / "net" / "keys").iterdir():
            shutil.copy(key, place)
    env, commands = environment(folder), {"relay": (folder, RELAY)}
    for site, place in places.items():
        agent = f"agent-00{PARTNERS.get(site, 1)}"
        commands[site] = place, command.replace("south", site).replace("agent-001", agent)
    started = {
        site: Warm("admmnet", *shlex.split(line)[1:], env=env, text=True, cwd=place)
        for site, (place, line) in commands.items()
    }
    told = {site: process.communicate(DEADLINE) for site, process in started.items()}
    assert {process.wait() for process in started.values()} == {0}, told
    return Ended(0, *told["south"])


def carried_out(folder: Path, step: Step) -> Ended:
    command = changed(step)
    if command == RELAY:
        return Ended(0, "", "")  # it is started with the agents
    if "admmnet agent --id south " in command and "\n" not in command:
        return with_partners(folder, command)
    if "--resume runs/long" in command:
        (folder / "runs" / "long").rename(folder / "runs" / "whole")
        unfinished(folder / "runs" / "whole", folder / "runs" / "long", rounds=39, agents=5)
    if SIMPLE.fullmatch(command):
        return Ended(*run_line(command, environment(folder), folder, DEADLINE))
    return run_words(folder, "bash", "-euo", "pipefail", "-c", command)


def succeeds(folder: Path, step: Step) -> None:
    result = carried_out(folder, step)
    told = f"{step.page}: {step.text}\nrun as: {changed(step)}\n{result.out}\n{result.err}"
    assert result.code == 0, told
    assert "Traceback" not in result.err, told


def runnable() -> list[Path]:
    late = () if os.environ.get("ADMMNET_PAGES") == "all" else NIGHTLY
    shown = [page for page in PAGES if name(page) not in late]
    return [page for page in shown if python_of(page) or not all(map(unrun, shell_steps(page)))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", runnable(), ids=name)
def test_the_commands_of_a_page(path: Path, run_folder: Path, tmp_path: Path) -> None:
    page = name(path)
    prepare(tmp_path, page, run_folder)
    for step in shell_steps(path):
        if not unrun(step):
            succeeds(tmp_path, step)
    script = python_of(path)
    if script is not None:
        (tmp_path / "page.py").write_text(script, encoding="utf-8")
        result = run_words(tmp_path, sys.executable, "-W", "error", "page.py")
        assert result.code == 0, f"{page}: its Python\n{result.out}\n{result.err}"


@pytest.mark.parametrize("step", [step for page in PAGES for step in shell_steps(page) if re.match(REAL, step.text)])
def test_a_command_on_real_targets(step: Step, tmp_path: Path) -> None:
    need("adult")
    succeeds(tmp_path, step)
