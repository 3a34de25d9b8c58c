"""What is heavy is imported where it is used: the command line answers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import admmnet
from tests.doc_pages import ROOT

HEAVY = {"scipy", "matplotlib", "mpi4py", "dp_accounting", "randomgen", "zmq", "pandas", "sklearn", "torch", "networkx"}
ELSEWHERE = {"ssl", "numba", "email", "html", "logging", "multiprocessing"}
"""What a plain run does without, besides."""


def loaded_by(code: str, **environment: str) -> set[str]:
    """Top-level modules that are loaded after some code ran in a fresh interpreter."""
    script = f"import sys\n{code}\nsys.stderr.write(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, **environment}, **how)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())  # of notes there come words, too


COMMAND = "from admmnet.cli import run_command_line\nassert run_command_line({!r}) == 0"
RUN = ("run", "--algorithm", "admm", "--rounds", "1", "--seed", "0", "--quiet", "-o")


@pytest.mark.parametrize("words", [(), ("run",), ("baseline",)])
def test_help_needs_nothing_heavy(words: tuple[str, ...]) -> None:
    found = loaded_by(COMMAND.format((*words, "--help")))
    assert found & {*HEAVY, "numpy", "admmnet", "msgspec"} == {"admmnet", *["msgspec"] * bool(words)}


def test_neither_does_the_package_or_a_seeded_local_run(tmp_path: Path) -> None:
    assert loaded_by("import admmnet") & {*HEAVY, "numpy", "rich", "click", "admmnet"} == {"admmnet"}
    assert loaded_by(COMMAND.format((*RUN, str(tmp_path / "run")))) & {*HEAVY, *ELSEWHERE} == set()


def test_garbage_is_collected_once_imports_are_done(tmp_path: Path) -> None:
    code = (
        f"import gc\nfrom admmnet.__main__ import main\nsys.argv = {['admmnet', *RUN, str(tmp_path / 'run')]!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert gc.isenabled() and gc.get_freeze_count() > 1000"
    )
    assert "admmnet" in loaded_by(code)


def test_names_are_sorted_and_there() -> None:
    assert sorted(admmnet.__all__) == admmnet.__all__
    assert all(getattr(admmnet, name) is not None for name in admmnet.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        admmnet.no_such_name  # noqa: B018


@pytest.mark.parametrize("agents", [5, 70])
def test_libraries_have_one_thread_while_rounds_go_on(agents: int, tmp_path: Path) -> None:
    """Also in a library's run: blocks load scipy, with a BLAS of its own, when the run has begun."""
    words = {"algorithm": "admm", "agents": agents, "topology": f"ring:{agents}", "rounds": 1, "seed": 0}
    code = (
        "from threadpoolctl import threadpool_info\nfrom admmnet import run\ntold = []\n"
        "def heard(event): told.extend(library['num_threads'] for library in threadpool_info())\n"
        f"run(**{words!r}, out={str(tmp_path / 'run')!r}, on_round=heard)\nassert set(told) == {{1}}, told"
    )
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "4")
    assert ("scipy" in loaded_by(code, **threads)) == (agents == 70)
