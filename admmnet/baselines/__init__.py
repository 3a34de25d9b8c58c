"""Single-node baselines: coordinate descent and gradient descent, private and not (docs/baselines.md).

Pure functions: a `Problem`, generators and calibrated noise in, a small result out. What a run costs is
booked elsewhere; nothing here reads files, prints or accounts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admmnet.baselines.banco import BancoResult, magnitude, run_banco, sub_exponential
    from admmnet.baselines.batches import draw_batches, steps_per_epoch
    from admmnet.baselines.dp_scd import ScdResult, run_dp_scd
    from admmnet.baselines.objective import Problem, duality_gap, make_problem
    from admmnet.baselines.primal_dp_scd import run_primal_dp_scd
    from admmnet.baselines.sdca import SdcaResult, run_sdca
    from admmnet.baselines.seq_dp_scd import run_seq_dp_scd
    from admmnet.baselines.sgd import SgdResult, run_dp_sgd, run_sgd
    from admmnet.baselines.song_sgd import SongResult, run_song_sgd

__all__ = [
    "BancoResult",
    "Problem",
    "ScdResult",
    "SdcaResult",
    "SgdResult",
    "SongResult",
    "draw_batches",
    "duality_gap",
    "magnitude",
    "make_problem",
    "run_banco",
    "run_dp_scd",
    "run_dp_sgd",
    "run_primal_dp_scd",
    "run_sdca",
    "run_seq_dp_scd",
    "run_sgd",
    "run_song_sgd",
    "steps_per_epoch",
    "sub_exponential",
]

_HOMES = {
    "banco": ("BancoResult", "magnitude", "run_banco", "sub_exponential"),
    "batches": ("draw_batches", "steps_per_epoch"),
    "dp_scd": ("ScdResult", "run_dp_scd"),
    "objective": ("Problem", "duality_gap", "make_problem"),
    "primal_dp_scd": ("run_primal_dp_scd",),
    "sdca": ("SdcaResult", "run_sdca"),
    "seq_dp_scd": ("run_seq_dp_scd",),
    "sgd": ("SgdResult", "run_dp_sgd", "run_sgd"),
    "song_sgd": ("SongResult", "run_song_sgd"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'admmnet.baselines' has no attribute {name!r}")
    return getattr(import_module(f"admmnet.baselines.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
