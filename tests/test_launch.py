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

from admmnet import read_run
from tests.processes.launch import Ended, start

ROOT = Path(__file__).resolve().parents[1]
RUN = ("--algorithm", "admm", "--rounds", "2", "--seed", "0", "--quiet")


STAMPED = ("pyproject.toml", "launch/constraints.txt", "launch/_env.sh")


class Site(NamedTuple):
    """A folder like the project's, whose .venv is this environment."""

    folder: Path
    bin: Path

    def run(self, script: str, *words: str) -> Ended:
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        return start("env", *[f"{k}={v}" for k, v in environment.items()], "bash", str(self.folder / script), *words)


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


@pytest.mark.parametrize(
    "script", sorted(path.name for path in (ROOT / "launch").iterdir() if path.suffix in (".sh", ".sbatch"))
)
def test_scripts_are_bash(script: str) -> None:
    assert start("bash", "-n", str(ROOT / "launch" / script)).err == ""


def test_another_python_than_that_of_the_environment_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    program(site.folder / "newer", '[ "$1" = --version ] && echo "Python 3.99.0"; exit 0')
    for python, code in ((sys.executable, 0), (str(site.folder / "newer"), 2)):
        monkeypatch.setenv("PYTHON", python)
        ended = site.run("launch/demo.sh", "--help")
        assert ended.code == code, ended.err
    assert re.search(r"\.venv has Python 3\.\d+\.\S+, PYTHON asks for Python 3\.99\.0: remove \S+ first\.$", ended.err)


@pytest.mark.processes
def test_the_slurm_job_with_a_stand_in_for_srun(site: Site, tmp_path: Path) -> None:
    # what Slurm's srun does with its own options and the tasks of the job, by mpirun
    program(site.bin / "srun", 'echo "$1 $2"; shift 2; exec mpirun -n 2 "$@"')
    os.environ["SLURM_SUBMIT_DIR"], os.environ["SLURM_JOB_ID"] = str(site.folder), "42"
    try:
        ended = site.run("launch/slurm.sbatch", *RUN)
        again = site.run("launch/slurm.sbatch", *RUN)  # queued again, though it has finished
    finally:
        del os.environ["SLURM_SUBMIT_DIR"], os.environ["SLURM_JOB_ID"]
    assert ended.code == 0, ended.err
    assert again.code == 0, again.err
    assert ended.out.splitlines() == again.out.splitlines() == ["--mpi=pmi2 --kill-on-bad-exit=1"]
    folder = read_run(site.folder / "runs" / "slurm-42")
    assert folder.summary is not None
    assert (folder.summary["agents"], folder.summary["transport"]) == (2, "mpi")


def test_the_slurm_job_outside_the_project(site: Site, tmp_path: Path) -> None:
    (site.bin / "python").unlink()
    ended = start("env", f"SLURM_SUBMIT_DIR={tmp_path}", "bash", str(site.folder / "launch" / "slurm.sbatch"))
    assert ended.code == 2
    assert "no .venv" in ended.err


def test_a_task_of_a_slurm_array_is_a_part_of_a_grid(site: Site) -> None:
    program(site.bin / "admmnet", 'echo "$@"')
    task = {"SUBMIT_DIR": site.folder, "ARRAY_TASK_ID": 3, "ARRAY_TASK_COUNT": 40, "CPUS_PER_TASK": 2}
    words = [f"SLURM_{name}={value}" for name, value in task.items()]
    ended = start("env", *words, "bash", str(site.folder / "launch" / "slurm-array.sbatch"), "grid.toml", "-o", "DIR")
    assert (ended.code, ended.out) == (0, "compare grid.toml -o DIR --jobs 2 --part 3/40\n"), ended.err


def test_the_slurm_job_asks_for_what_it_says() -> None:
    text = (ROOT / "launch" / "slurm.sbatch").read_text()
    asked = re.findall(r"^#SBATCH --([\w-]+)", text, re.MULTILINE)
    assert asked == ["job-name", "ntasks", "cpus-per-task", "mem-per-cpu", "time", "output", "requeue", "open-mode"]
    # Slurm reads them above the first command only
    assert text.index("set -euo") > text.rindex("#SBATCH")


def test_nightly_makes_all_papers_audits_and_kills_runs(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program(site.bin / "admmnet", 'for last; do :; done; mkdir -p "$last"; echo "$@" > "$last/words"')
    program(
        site.bin / "python",
        'all="$ADMMNET_CHECKS$ADMMNET_PAGES"; echo "$ADMMNET_AUDITS $all $ADMMNET_KILLS $ADMMNET_EDITS: $@"',
    )
    os.environ["OUT"] = str(out)
    try:
        ended = site.run("launch/nightly.sh", "--jobs", "1")
        again = site.run("launch/nightly.sh")
    finally:
        del os.environ["OUT"]
    assert ended.code == 0, ended.err
    papers = ["ding2020", "damaskinos2021", "song2013", "banco"]
    for paper in papers:
        words = f"reproduce {paper} --quick --jobs 1 -o {out / paper}"
        assert (out / paper / "words").read_text().strip() == words
    *times, audited, tables, large, long, lied, soaked, checked, shown, edited, mutated, killed = ended.out.splitlines()
    assert times == (out / "times.txt").read_text().splitlines()
    assert [line.split()[0] for line in times] == papers
    attacks = " ".join(f"tests/attacks/test_{name}.py" for name in ("certificate", "messages"))
    assert audited == f"10   : -m pytest tests/auditing {attacks}"
    assert tables == f"   : -m tests.benchmarks.audit -o {out / 'audits'} --confidence 0.999999 --times 0.2"
    assert large.startswith("   : -m pytest tests/privacy/")
    assert long == "   : -m pytest tests -m nightly"
    assert lied == "   : -m pytest tests/attacks/test_liars.py"
    assert soaked == "   : -m tests.benchmarks.relay soak 1800"
    assert checked == " all  : -m pytest tests/estimators/test_estimators.py"
    assert shown == " all  : -m pytest tests/processes/test_documented_commands.py"
    assert edited == "   5000: -m pytest tests/record/test_manifest.py"
    assert mutated.startswith("   : -m tests.mutate --jobs ")
    kills = "tests/processes/test_resume.py"
    assert killed == f"  200 : -m pytest {kills}"
    assert again.code == 2
    assert "is there already" in again.err


def test_nightly_fails_with_a_paper(site: Site, tmp_path: Path) -> None:
    program(site.bin / "admmnet", "exit 3")
    assert site.run("launch/nightly.sh", "-o", str(tmp_path)).code == 3


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 0), (0, 4)])
def test_continuous_integration_ends_with_a_clone_without_real_sets(first: int, second: int, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for folder in (".ci", "launch", ".venv/bin", "tests/data"):
        (project / folder).mkdir(parents=True)
    for script in (".ci/run", "launch/_env.sh"):
        shutil.copy(ROOT / script, project / script)
    (project / ".gitignore").write_text(".venv\n")
    for name, text in (("real_sets", "from tests.real_sets import need\n"), ("show", "import json\n")):
        (project / f"tests/data/test_{name}.py").write_text(text)
    program(project / "launch/test.sh", f"echo $ADMMNET_DATA; exit {first}")
    built = """case $2 in
        pip) [ "$CC" = false ] && exec mkdir "$9" ;;
        admmnet) mkdir run && exec echo '"kernel": "numpy"' > run/summary.json ;;
    esac"""
    told = 'echo "$PWD $PYTHONPATH ${ADMMNET_DATA-none} $@"; ls'
    program(project / ".venv/bin/python", f"{built}\n{told}; exit {second}")
    (beside,) = re.findall(r"-d (\.\./\S+)", (ROOT / ".ci" / "run").read_text())
    (project / beside).mkdir(parents=True)
    git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in ("init -q", "add .", "commit -qm all"):
        assert start(*git, *words.split()).code == 0
    (project / "new").write_text("not committed")
    ended = start("bash", str(project / ".ci/run"))
    assert ended.code == (first or second), ended.err
    named, *later = ended.out.splitlines()
    assert named == str((project / beside).resolve())
    assert bool(later) == (first == 0)
    if later:
        place, package, data, *command = later[0].split()
        assert place == package != str(project)
        assert data == "none"
        assert command[:2] == ["-m", "pytest"]
        tests = [word for word in command if word.startswith("tests/")]
        assert all((ROOT / word).exists() for word in tests)
        assert [word for word in tests if "/data/" in word] == ["tests/data/test_real_sets.py"]
        assert later[1:] == ["launch", "tests"]  # what is committed
        assert not Path(place).parent.exists()


def test_what_is_installed_has_been_tested() -> None:
    """Every dependency has a newest version, and both commands of the README install nothing newer."""
    lines = (ROOT / "launch/constraints.txt").read_text().splitlines()
    bounds = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+<=[\w.]+", line) for line in bounds)
    bounded = {re.split("<=", line)[0].lower().replace("_", "-") for line in bounds}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {re.split(r"[\[<>=]", name)[0].lower() for name in wanted}
    assert names - bounded == {"setuptools"}  # which builds, and comes with Python
    text = (ROOT / "launch/_env.sh").read_text()
    assert '--constraint "$root/launch/constraints.txt"' in text


def test_the_package_is_compiled_where_python_writes_no_byte_code(tmp_path: Path) -> None:
    """Else every rank compiles it anew: the environment of this machine's tests stands in for the installed one."""
    module = tmp_path / "admmnet" / "one.py"
    module.parent.mkdir()
    module.write_text("x = 1\n")
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch/_env.sh").write_text((ROOT / "launch/_env.sh").read_text())
    for name in ("pyproject.toml", "launch/constraints.txt"):
        (tmp_path / name).write_text("")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    subprocess.run(
        ["bash", "-c", ". launch/_env.sh; make_environment mpich"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHON": sys.executable},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert list((module.parent / "__pycache__").glob("one.*.pyc"))
