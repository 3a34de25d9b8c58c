"""What `kernel` means for a run: its name in the folder, what a resumed run may have, ranks that have other ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.config.toml import settings_digest
from admmnet.errors import RequestError
from admmnet.running.handshake import public_settings
from admmnet.solvers import kernel as kernels
from tests.command_runs import Admmnet
from tests.interrupted_runs import Place
from tests.people_runs import summary_of
from tests.processes.launch import ROOT, mpirun

BUILT = kernels._compiled is not None
built = pytest.mark.skipif(not BUILT, reason="the compiled kernel is not built here")
UNBUILT = "import sys; sys.modules['admmnet.solvers._kernel'] = None\n"
OLDER = UNBUILT.replace("None", "type('Older', (), {'NAME': 'c0'})")
OTHER = "import admmnet.solvers.kernel as own; own.NAMES['c'] = 'c2'\n"


def told(folder: Path) -> tuple[str, str]:
    """Kernel in the settings and in the summary."""
    saved = (folder / "config.toml").read_text(encoding="utf-8")
    (line,) = (line for line in saved.splitlines() if line.startswith("kernel"))
    return line.partition(" = ")[2].strip('"'), summary_of(folder)["versions"]["kernel"]


def theta(folder: Path) -> bytes:
    with np.load(folder / "model.npz") as model:
        return bytes(model["theta"].tobytes())


def test_a_seeded_run_says_which_and_an_unseeded_one_leaves_it_open(place: Place) -> None:
    here = "c" if BUILT else "numpy"
    assert told(place.whole("seeded")) == (here, kernels.NAMES[kernels.chosen("auto")])
    assert told(place.whole("numpy", kernel="numpy")) == ("numpy", "numpy")
    assert told(place.whole("secret", seed=None)) == ("auto", kernels.NAMES[kernels.chosen("auto")])


def test_without_a_compiler_numpy_serves(place: Place, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = theta(place.whole("numpy", kernel="numpy", answer="last"))
    monkeypatch.setattr(kernels, "_compiled", None)
    bare = place.whole("bare", answer="last")
    assert (told(bare), theta(bare)) == (("numpy", "numpy"), expected)
    refusal = admmnet.refused("run", "--kernel", "c", "-o", place.folder / "refused")
    assert "kernel = 'c' is not built here" in refusal
    assert "--kernel numpy" in refusal
    assert not (place.folder / "refused").exists()


def test_a_seeded_run_goes_on_with_its_kernel_alone(place: Place) -> None:
    whole = place.whole("whole", kernel="numpy", answer="last")
    folder = place.interrupted("cut", 4, kernel="numpy", answer="last")
    with pytest.raises(RequestError, match="kernel = 'c' differs from the interrupted run's 'numpy'"):
        place.resume(folder, kernel="c")
    assert theta(place.resume(folder)) == theta(whole)
    assert told(folder) == ("numpy", "numpy")


@built
def test_an_unseeded_run_goes_on_with_any(place: Place) -> None:
    folder = place.interrupted("cut", 4, kernel="c", seed=None, account="account")
    assert told(place.resume(folder, kernel="numpy"))[1] == "numpy"


def test_hosts_need_not_have_the_same() -> None:
    one, other = (RunConfig(private=True, kernel=name) for name in ("c", "numpy"))
    assert public_settings(one) == public_settings(other)
    assert settings_digest(one) == settings_digest(other)
    seeded = [RunConfig(seed=1, kernel=name) for name in ("c", "numpy")]
    assert settings_digest(seeded[0]) != settings_digest(seeded[1])


@built
@pytest.mark.processes
def test_bits_are_the_same_on_any_number_of_ranks(place: Place) -> None:
    settings: dict[str, Any] = {"topology": "ring:5", "kernel": "c", "answer": "last", "rounds": 3}
    expected = theta(place.whole("alone", **settings))
    words = ["--algorithm", "pp-admm", "--topology", "ring:5", "--rounds", "3", "--seed", "3", "--epsilon", "5"]
    words += ["--delta", "1e-4", "--answer", "last", "--kernel", "c", "--data", str(place.data), "--quiet"]
    for ranks in (2, 3, 5):
        out = place.folder / f"{ranks}"
        ended = mpirun(ranks, "-m", "admmnet", "run", *words, "--out", str(out))
        assert ended.code == 0, ended.err
        assert theta(out) == expected


@built
@pytest.mark.processes
@pytest.mark.parametrize("another", [UNBUILT, OTHER])
def test_ranks_of_a_seeded_run_agree_on_what_all_have(another: str, place: Place) -> None:
    expected = theta(place.whole("alone", kernel="numpy", answer="last", rounds=3))
    out, config = place.folder / "two", place.config("two", answer="last", rounds=3)
    program = place.folder / "program.py"
    first = f"from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 1:\n    {another}"
    values = {"algorithm", "topology", "rounds", "seed", "epsilon", "delta", "out", "data", "answer"}
    given = {name: getattr(config, name) for name in values}
    program.write_text(f"{first}from admmnet import RunConfig, run\nrun(RunConfig(**{given!r}))\n", encoding="utf-8")
    ended = mpirun(2, str(program))
    assert ended.code == 0, ended.err
    assert (told(out), theta(out)) == (("numpy", "numpy"), expected)


@pytest.mark.parametrize("missing", [UNBUILT, OLDER])
def test_a_bare_checkout_and_an_older_build_import(missing: str) -> None:
    program = missing + "from admmnet.solvers.kernel import chosen; print(chosen('auto'))"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.check_output([sys.executable, "-c", program], text=True, env=env) == "numpy\n"


def test_the_name_is_that_of_the_source() -> None:
    assert f'"NAME", "{kernels.NAMES["c"]}"' in (ROOT / "admmnet/solvers/_kernel.c").read_text(encoding="utf-8")
