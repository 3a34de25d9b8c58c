"""The methods: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admmnet.methods.settings import Given
from admmnet.registry import Registry

if TYPE_CHECKING:
    from admmnet.methods.base import Method


def _adapted(found: Any) -> type[Method]:
    from admmnet.methods.base import Method

    if not (isinstance(found, type) and issubclass(found, Method)):
        raise TypeError("it is no subclass of Method")
    return found


METHODS: Registry[type[Method]] = Registry(
    "algorithm",
    "admmnet.methods",
    {
        "admm": "admmnet.methods.admm:ADMM",
        "pp-admm": "admmnet.methods.pp_admm:PPADMM",
        "ipp-admm": "admmnet.methods.ipp_admm:IPPADMM",
        "dvp": "admmnet.methods.dvp:DVP",
        "m-admm": "admmnet.methods.m_admm:MADMM",
        "r-admm": "admmnet.methods.r_admm:RADMM",
        "sdca": "admmnet.methods.single_site.sdca:SDCA",
        "dp-scd": "admmnet.methods.single_site.dp_scd:DPSCD",
        "seq-dp-scd": "admmnet.methods.single_site.seq_dp_scd:SeqDPSCD",
        "primal-dp-scd": "admmnet.methods.single_site.primal_dp_scd:PrimalDPSCD",
        "sgd": "admmnet.methods.single_site.sgd:SGD",
        "dp-sgd": "admmnet.methods.single_site.dp_sgd:DPSGD",
        "song-sgd": "admmnet.methods.single_site.song_sgd:SongSGD",
        "banco": "admmnet.methods.single_site.banco:BANCO",
    },
    _adapted,
)
"""Methods of the network and of one site."""


def single_sites() -> list[str]:
    """Names of the methods of one holder: what ``admmnet baseline`` runs."""
    return [name for name, method in METHODS.sound() if method.verb == "none"]


def fixed(settings: Given) -> Given:
    """Replace every ``auto`` that depends on nothing but other settings."""
    return METHODS[settings.algorithm].fixed(settings)
