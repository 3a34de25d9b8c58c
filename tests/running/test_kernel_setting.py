"""What `kernel` means for a run: its name in the folder, what a resumed run may have, machines that have other ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
from tests.processes.launch import ROOT

BUILT = kernels._compiled is not None


def told(folder: Path) -> tuple[str, str]:
    """Kernel in the settings and in the summary."""
    saved = (folder / "config.toml").read_text(encoding="utf-8")
    (line,) = (line for line in saved.splitlines() if line.startswith("kernel"))
    return line.partition(" = ")[2].strip('"'), summary_of(folder)["versions"]["kernel"]


def theta(folder: Path) -> bytes:
    with np.load(folder / "model.npz") as model:
        return bytes(model["theta"].tobytes())


def test_without_a_compiler_numpy_serves(place: Place, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch) -> None:
    """And every folder says which kernel it was: of an unseeded run it stays open."""
    here, name = "c" if BUILT else "numpy", kernels.NAMES[kernels.chosen("auto")]
    assert told(place.whole("seeded")) == (here, name)
    assert told(place.whole("secret", seed=None)) == ("auto", name)
    expected = theta(place.whole("numpy", kernel="numpy", answer="last"))
    monkeypatch.setattr(kernels, "_compiled", None)
    bare = place.whole("bare", answer="last")
    assert (told(bare), theta(bare)) == (("numpy", "numpy"), expected)
    refusal = admmnet.refused("run", "--kernel", "c", "-o", place.folder / "refused")
    assert "kernel = 'c' is not built here" in refusal
    assert "--kernel numpy" in refusal
    assert not (place.folder / "refused").exists()


def test_a_seeded_run_goes_on_with_its_kernel_alone_and_an_unseeded_one_with_any(place: Place) -> None:
    whole = place.whole("whole", kernel="numpy", answer="last")
    folder = place.interrupted("cut", 4, kernel="numpy", answer="last")
    with pytest.raises(RequestError, match="kernel = 'c' differs from the interrupted run's 'numpy'"):
        place.resume(folder, kernel="c")
    assert theta(place.resume(folder)) == theta(whole)
    assert told(folder) == ("numpy", "numpy")
    secret = place.interrupted("secret", 4, kernel="auto", seed=None, account="account")
    assert told(place.resume(secret, kernel="numpy"))[1] == "numpy"


def test_hosts_need_not_have_the_same() -> None:
    one, other = (RunConfig(private=True, kernel=name) for name in ("c", "numpy"))
    assert public_settings(one) == public_settings(other)
    assert settings_digest(one) == settings_digest(other)
    seeded = [RunConfig(seed=1, kernel=name) for name in ("c", "numpy")]
    assert settings_digest(seeded[0]) != settings_digest(seeded[1])


@pytest.mark.parametrize("missing", ["None", "type('Older', (), {'NAME': 'c0'})"])
def test_a_bare_checkout_and_an_older_build_import(missing: str) -> None:
    program = f"import sys; sys.modules['admmnet.solvers._kernel'] = {missing}\n"
    program += "from admmnet.solvers.kernel import chosen; print(chosen('auto'))"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.check_output([sys.executable, "-c", program], text=True, env=env) == "numpy\n"
    assert f'"NAME", "{kernels.NAMES["c"]}"' in (ROOT / "admmnet/solvers/_kernel.c").read_text(encoding="utf-8")
