"""What is heavy is imported where it is used: the command line answers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("scipy", "matplotlib", "mpi4py", "dp_accounting", "randomgen", "zmq", "pandas", "sklearn", "torch", "networkx")

ELSEWHERE = ("ssl", "numba", "email", "html", "logging", "multiprocessing")
"""What a plain run does without, besides."""


def loaded_by(code: str, **environment: str) -> set[str]:
    """Top-level modules that are loaded after some code ran in a fresh interpreter."""
    script = f"import sys\n{code}\nsys.stderr.write(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


HELP = "from admmnet.cli import run_command_line\nassert run_command_line(['{}', '--help'][{}:]) == 0"


@pytest.mark.parametrize(
    "code",
    ["import admmnet", HELP.format("", 1), HELP.format("run", 0), HELP.format("baseline", 0)],
    ids=["package", "help", "run-help", "baseline-help"],
)
def test_nothing_heavy(code: str) -> None:
    found = loaded_by(code)
    assert "admmnet" in found
    assert found & {*HEAVY, "numpy", *(["rich", "click"] if code == "import admmnet" else [])} == set()


def test_a_seeded_local_run_needs_nothing_heavy(tmp_path: Path) -> None:
    words = ["run", "--algorithm", "admm", "--rounds", "1", "--seed", "0", "--quiet", "-o", str(tmp_path / "run")]
    code = f"from admmnet.cli import run_command_line\nassert run_command_line({words!r}) == 0"
    # notes go to standard error too, so ask for single words only
    assert loaded_by(code) & {*HEAVY, *ELSEWHERE} == set()


def test_garbage_is_collected_once_imports_are_done(tmp_path: Path) -> None:
    words = ["admmnet", "run", "--rounds", "1", "--seed", "0", "--quiet", "-o", str(tmp_path / "made.json")]
    code = (
        f"import gc\nfrom admmnet.__main__ import main\nsys.argv = {words!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert gc.isenabled() and gc.get_freeze_count() > 1000"
    )
    assert "admmnet" in loaded_by(code)


def test_names_are_sorted_and_there() -> None:
    import admmnet

    assert sorted(admmnet.__all__) == admmnet.__all__
    assert all(getattr(admmnet, name) is not None for name in admmnet.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        admmnet.no_such_name  # noqa: B018


@pytest.mark.parametrize("agents", [5, 70])
def test_libraries_have_one_thread_while_rounds_go_on(agents: int, tmp_path: Path) -> None:
    """Also in a library's run: blocks load scipy, with a BLAS of its own, when the run has begun."""
    words = {"algorithm": "admm", "agents": agents, "topology": f"ring:{agents}", "rounds": 1, "seed": 0}
    code = (
        "import os\nfrom threadpoolctl import threadpool_info\nfrom admmnet import run\ntold = []\n"
        "def heard(event): told.extend(library['num_threads'] for library in threadpool_info())\n"
        f"run(**{words!r}, out={str(tmp_path / 'run')!r}, on_round=heard)\n"
        "assert set(told) == {1}, told"
    )
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "4")
    assert ("scipy" in loaded_by(code, **threads)) == (agents == 70)
