"""Every command that the pages show is run, page by page, each page in a folder of its own, and ends as it should."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from admmnet.data.sets import census
from admmnet.forms import decode
from admmnet.record.file_forms import Finish
from admmnet.record.folder import sha256
from admmnet.record.journal import JOURNAL, Made, Run, record_bytes
from admmnet.running.closing import made_of
from tests.doc_pages import ROOT, blocks, name
from tests.real_sets import ENVIRONMENT, FOLDER, need
from tests.run_folders import made, unfinished

from .documented import CHANGES, GIVEN, NIGHTLY, PAGES, REAL, UNRUN, Step, changed, python_of, shell_steps, unrun
from .launch import Ended
from .proxy import free_ports

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
NEW_RELAY = RELAY.replace("runs/relay", "runs/new-relay")
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


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a process group of its own, all of which has ended afterwards."""
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    continue


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=DEADLINE)
    return Ended(process.returncode, out, err)


def run_words(folder: Path, *words: str) -> Ended:
    with started(folder, *words) as process:
        return ended(process)


def of_partner(command: str, name: str) -> str:
    """What a site beside the shown one types, in its own folder."""
    return f"cd {name}; {command.replace('south', name).replace('agent-001', f'agent-00{PARTNERS[name]}')}"


def with_partners(folder: Path, command: str) -> Ended:
    """Run the relay, the shown agent and its two neighbours, each with its own key and run folder."""
    for place in (folder, *(folder / site for site in PARTNERS)):
        shutil.copy(folder / "net" / "network.toml", place)
        for key in (folder / "net" / "keys").iterdir():
            shutil.copy(key, place)
    with (
        started(folder, "bash", "-c", RELAY) as relay,
        started(folder, "bash", "-c", of_partner(command, "north")) as one,
        started(folder, "bash", "-c", of_partner(command, "east")) as two,
        started(folder, "bash", "-c", command) as shown,
    ):
        result = ended(shown)
        assert [ended(each).code for each in (one, two, relay)] == [0, 0, 0]
    return result


def comes_late(folder: Path, command: str) -> None:
    """An agent that lacks the end takes it from a new relay, to whose folder the page has copied it."""
    late = folder / "east" / "runs" / "today"
    (ledger,) = (late / "ledger").iterdir()  # the journal of an agent that has not ended
    made = made_of(sha256(ledger), {"model.npz": (late / "model.npz").read_bytes()})
    finish = decode(Finish, (late / "finish.json").read_bytes(), indent=2)
    (late / JOURNAL).write_bytes(record_bytes(Run(finish.run, {}, bytes(32))) + record_bytes(Made(made)))
    for file in ("summary.json", "finish.json", "model.npz", "manifest.json"):
        (late / file).unlink()
    shutil.rmtree(late / "end")
    with (
        started(folder, "bash", "-c", NEW_RELAY) as relay,
        started(folder, "bash", "-c", of_partner(command, "east")) as agent,
    ):
        result = ended(agent)
        relay.terminate()  # it waits for the others
        ended(relay)
    assert (result.code, "has finished with the model that most agents have signed" in result.err) == (0, True)
    assert run_words(folder, "admmnet", "ledger", "verify", str(late)).code == 0


def carried_out(folder: Path, step: Step) -> Ended:
    command = changed(step)
    if command == RELAY:
        return Ended(0, "", "")  # it is started with the agents
    if "admmnet agent --id south " in command and "\n" not in command:
        return with_partners(folder, command)
    if "--resume runs/long" in command:
        (folder / "runs" / "long").rename(folder / "runs" / "whole")
        unfinished(folder / "runs" / "whole", folder / "runs" / "long", rounds=39, agents=5)
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
    steps = [step for step in shell_steps(path) if unrun(step) is None]
    for step in steps:
        succeeds(tmp_path, step)
    if page == "docs/hosts.md":
        root = tmp_path / "hosts" / "root"
        files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        own = {"network.toml", "settings.toml", "agent-south.secret.toml", "relay.secret.toml"}
        assert files == {
            *(f"etc/admmnet/{file}" for file in own),
            "etc/systemd/system/admmnet@.service",
            "etc/systemd/system/admmnet-relay.service",
            "var/lib/admmnet/own/patients.csv",
        }
        (agent,) = [changed(step) for step in steps if "admmnet agent" in step.text]
        comes_late(tmp_path, agent)
    script = python_of(path)
    if script is not None:
        (tmp_path / "page.py").write_text(script, encoding="utf-8")
        result = run_words(tmp_path, sys.executable, "-W", "error", "page.py")
        assert result.code == 0, f"{page}: its Python\n{result.out}\n{result.err}"


@pytest.mark.parametrize("step", [step for page in PAGES for step in shell_steps(page) if unrun(step) is REAL])
def test_a_command_on_real_targets(step: Step, tmp_path: Path) -> None:
    need("adult")
    succeeds(tmp_path, step)


def test_the_pages_install_nothing(tmp_path: Path) -> None:
    """A page's launch scripts take this environment as it is: an install would make it forget the package."""
    like_the_project(tmp_path)
    words = ("bash", "-c", ". launch/_env.sh; make_environment mpich")
    result = run_words(tmp_path, *words)
    assert (result.code, result.out + result.err) == (0, "")


def test_a_command_that_fails_is_seen(tmp_path: Path) -> None:
    for page, text, code in (
        ("docs/cli.md", "admmnet run --epsilom 1", 2),
        ("docs/ledger.md", "admmnet ledger verify RUN", 2),
    ):
        assert carried_out(tmp_path, Step(page, text)).code == code


def test_what_is_not_run_is_what_the_table_says() -> None:
    steps = [step for page in PAGES for step in shell_steps(page)]
    reasons = [unrun(step) for step in steps]
    assert sum(reason is None for reason in reasons) > 60
    for reason in UNRUN:
        assert reason in reasons, f"no page needs {reason.pattern}"
    used = {change.pattern for change in CHANGES for step in steps if re.search(change.pattern, step.text)}
    assert used == {change.pattern for change in CHANGES}


def test_extras_that_pages_install_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set()
    for page in PAGES:
        for extras in re.findall(r"pip\s+install[^\n]*?\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            named |= set(extras.split(","))
    assert {"plot"} <= named <= set(project["optional-dependencies"])


def test_benchmarks_that_pages_show_exist_and_know_their_flags() -> None:
    found = [step.text for page in PAGES for step in shell_steps(page)]
    shown = [(text, match) for text in found if (match := re.search(r"tests[./]benchmarks[./](\w+)", text))]
    assert shown
    for command, match in shown:
        text = (ROOT / "tests" / "benchmarks" / f"{match[1]}.py").read_text(encoding="utf-8")
        for flag in re.findall(r"\s(--?[a-z][\w-]*)", re.sub(r"\s+# .*", "", command).split("benchmarks", 1)[1]):
            assert f'"{flag}"' in text or f"{flag.strip('-').replace('-', '_')}=" in text, flag
        assert '__name__ == "__main__"' in text
