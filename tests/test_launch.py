"""The scripts in launch/, as far as one machine goes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.doc_pages import ROOT
from tests.people_runs import summary_of
from tests.processes.launch import Ended, start

RUN = ("--algorithm", "admm", "--rounds", "2", "--seed", "0", "--quiet")
STAMPED = ("pyproject.toml", "launch/constraints.txt", "launch/_env.sh")


class Site(NamedTuple):
    """A folder like the project's, whose .venv is this environment."""

    folder: Path
    bin: Path

    def run(self, script: str, *words: str, **more: object) -> Ended:
        more |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": ROOT}
        return start("env", *(f"{k}={v}" for k, v in more.items()), "bash", str(self.folder / script), *words)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder, beside = tmp_path / "project", Path(sys.executable).parent
    bin_ = folder / ".venv" / "bin"
    bin_.mkdir(parents=True)
    shutil.copytree(ROOT / "launch", folder / "launch")
    shutil.copy(ROOT / "pyproject.toml", folder)
    mpirun = shutil.which("mpirun", path=str(beside)) or shutil.which("mpirun")
    assert mpirun is not None
    program(bin_ / "python", f'exec {sys.executable} "$@"')
    program(bin_ / "mpirun", f'exec {mpirun} "$@"')
    wanted = b"".join((folder / name).read_bytes() for name in STAMPED)
    sums = subprocess.run(["cksum"], input=wanted, capture_output=True, timeout=20, check=True)
    for extras in ("mpich", "mpich,plot", "mpich,test"):
        (folder / ".venv" / f"stamp-{extras}").write_text(f"{extras} {sums.stdout.decode()}")  # installed already
    return Site(folder, bin_)


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_scripts_are_bash() -> None:
    for script in (*ROOT.glob("launch/*.sh"), *ROOT.glob("launch/*.sbatch")):
        assert start("bash", "-n", str(script)).err == ""


def test_another_python_than_that_of_the_environment_is_refused(site: Site) -> None:
    program(site.folder / "newer", '[ "$1" = --version ] && echo "Python 3.99.0"; exit 0')
    for python, code in ((sys.executable, 0), (site.folder / "newer", 2)):
        ended = site.run("launch/demo.sh", "--help", PYTHON=python)
        assert ended.code == code, ended.err
    assert re.search(r"\.venv has Python 3\.\d+\.\S+, PYTHON asks for Python 3\.99\.0: remove \S+ first\.$", ended.err)


@pytest.mark.processes
def test_the_slurm_job_with_a_stand_in_for_srun(site: Site) -> None:
    # what Slurm's srun does with its own options and the tasks of the job, by mpirun
    program(site.bin / "srun", 'echo "$1 $2"; shift 2; exec mpirun -n 2 "$@"')
    for _ in range(2):  # the second time queued again, though it has finished
        ended = site.run("launch/slurm.sbatch", *RUN, SLURM_SUBMIT_DIR=site.folder, SLURM_JOB_ID=42)
        assert ended.code == 0, ended.err
        assert ended.out.splitlines() == ["--mpi=pmi2 --kill-on-bad-exit=1"]
    summary = summary_of(site.folder / "runs" / "slurm-42")
    assert (summary["agents"], summary["transport"]) == (2, "mpi")


def test_a_task_of_a_slurm_array_is_a_part_of_a_grid(site: Site) -> None:
    program(site.bin / "admmnet", 'echo "$@"')
    task = {"SUBMIT_DIR": site.folder, "ARRAY_TASK_ID": 3, "ARRAY_TASK_COUNT": 40, "CPUS_PER_TASK": 2}
    words = {f"SLURM_{name}": value for name, value in task.items()}
    ended = site.run("launch/slurm-array.sbatch", "grid.toml", "-o", "DIR", **words)
    assert (ended.code, ended.out) == (0, "compare grid.toml -o DIR --jobs 2 --part 3/40\n"), ended.err


def test_nightly_makes_all_papers_audits_mutants_and_kills_runs(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program(site.bin / "admmnet", 'for last; do :; done; mkdir -p "$last"; echo "$@" > "$last/words"')
    told = " ".join(f"${{ADMMNET_{name}:-}}" for name in ("AUDITS", "KILLS", "EDITS", "CHECKS", "PAGES", "LIES"))
    program(site.bin / "python", f'echo {told} "$@"')
    ended = site.run("launch/nightly.sh", "--jobs", "1", OUT=out)
    assert ended.code == 0, ended.err
    papers = ["ding2020", "damaskinos2021", "song2013", "banco"]
    for paper in papers:
        words = f"reproduce {paper} --quick --jobs 1 -o {out / paper}"
        assert (out / paper / "words").read_text().strip() == words
    lines = ended.out.splitlines()
    assert lines[: len(papers)] == (out / "times.txt").read_text().splitlines()
    begun = [
        *("10 -m pytest tests/auditing", "-m tests.benchmarks.audit -o", "-m pytest tests/privacy/"),
        *("-m pytest tests -m nightly", "all -m pytest tests/attacks", "-m tests.benchmarks.relay soak"),
        *("all -m pytest tests/estimators", "all -m pytest tests/processes/test_documented_commands.py"),
        *("5000 -m pytest tests/record", "-m tests.mutate --jobs ", "200 -m pytest tests/processes/test_resume.py"),
    ]
    for line, first in zip(lines[len(papers) :], begun, strict=True):
        assert line.startswith(first)
        assert [word for word in line.split() if word.startswith("tests/") and not (ROOT / word).exists()] == []
    again = site.run("launch/nightly.sh", OUT=out)
    assert (again.code, "is there already" in again.err) == (2, True)
    program(site.bin / "admmnet", "exit 3")
    assert site.run("launch/nightly.sh", OUT=tmp_path / "other").code == 3


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 0), (0, 4)])
def test_continuous_integration_ends_with_a_clone_without_real_sets(first: int, second: int, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for folder in (".ci", "launch", ".venv/bin", "tests/data"):
        (project / folder).mkdir(parents=True)
    for script in (".ci/run", "launch/_env.sh"):
        shutil.copy(ROOT / script, project / script)
    (project / ".gitignore").write_text(".venv\n")
    (project / "tests/data/test_real_sets.py").write_text("from tests.real_sets import need\n")
    (project / "tests/data/test_transform.py").write_text("import json\n")
    program(project / "launch/test.sh", f"echo $ADMMNET_DATA; exit {first}")
    built = """case $2 in
        pip) [ "$CC" = false ] && exec mkdir "$9" ;;
        admmnet) mkdir run && exec echo '"kernel": "numpy"' > run/summary.json ;;
    esac"""
    told = 'echo "$PWD $PYTHONPATH ${ADMMNET_DATA-none} $@"; ls'
    program(project / ".venv/bin/python", f"{built}\n{told}; exit {second}")
    (beside,) = re.findall(r"-d (\.\./\S+)", (ROOT / ".ci/run").read_text())
    (project / beside).mkdir(parents=True)
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b.example commit -qm all"):
        assert start("git", "-C", str(project), *words.split()).code == 0
    (project / "new").write_text("not committed")
    ended = start("bash", str(project / ".ci/run"))
    assert ended.code == (first or second), ended.err
    named, *later = ended.out.splitlines()
    assert (named, bool(later)) == (str((project / beside).resolve()), first == 0)
    if later:
        place, package, data, *command = later[0].split()
        assert place == package != str(project)
        assert (data, command[:2]) == ("none", ["-m", "pytest"])
        tests = [word for word in command if word.startswith("tests/")]
        assert all((ROOT / word).exists() for word in tests)
        assert [word for word in tests if "/data/" in word] == ["tests/data/test_real_sets.py"]
        assert later[1:] == ["launch", "tests"]  # what is committed
        assert not Path(place).parent.exists()


def test_what_is_installed_has_been_tested() -> None:
    """Every dependency has a newest version, and both commands of the README install nothing newer."""
    lines = (ROOT / "launch/constraints.txt").read_text().splitlines()
    bounds = [re.fullmatch(r"([\w.-]+)<=[\w.]+", line) for line in lines if not line.startswith("#")]
    bounded = {match and match[1].lower().replace("_", "-") for match in bounds}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = sum(project["optional-dependencies"].values(), project["dependencies"])
    assert {re.split(r"[\[<>=]", name)[0].lower() for name in wanted} - bounded == {"setuptools"}  # it builds
    assert None not in bounded
    assert '--constraint "$root/launch/constraints.txt"' in (ROOT / "launch/_env.sh").read_text()
