"""The methods: one file each, found by name in ``METHODS``."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from admmnet.config.run_config import RunConfig
    from admmnet.methods.base import Method

_PLACES = {
    "admm": "admm:ADMM",
    "pp-admm": "pp_admm:PPADMM",
    "ipp-admm": "ipp_admm:IPPADMM",
    "dvp": "dvp:DVP",
    "m-admm": "m_admm:MADMM",
    "r-admm": "r_admm:RADMM",
    "sdca": "single_site.sdca:SDCA",
    "dp-scd": "single_site.dp_scd:DPSCD",
    "seq-dp-scd": "single_site.seq_dp_scd:SeqDPSCD",
    "primal-dp-scd": "single_site.primal_dp_scd:PrimalDPSCD",
    "sgd": "single_site.sgd:SGD",
    "dp-sgd": "single_site.dp_sgd:DPSGD",
    "song-sgd": "single_site.song_sgd:SongSGD",
    "banco": "single_site.banco:BANCO",
}


class _Registry(MutableMapping[str, "type[Method]"]):
    """Methods by name; a module is imported when its method is asked for, so that names alone cost nothing."""

    def __init__(self) -> None:
        self._found: dict[str, type[Method] | str] = dict(_PLACES)

    def __getitem__(self, name: str) -> type[Method]:
        found = self._found[name]
        if isinstance(found, str):
            from importlib import import_module

            module, _, own = found.partition(":")
            found = self._found[name] = getattr(import_module(f"{__name__}.{module}"), own)
        return found

    def __setitem__(self, name: str, method: type[Method]) -> None:
        self._found[name] = method

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


METHODS: MutableMapping[str, type[Method]] = _Registry()
"""Methods of the network and of one site, by name."""


def fixed(settings: RunConfig) -> RunConfig:
    """Replace every ``auto`` that depends on nothing but other settings."""
    return METHODS[settings.algorithm].fixed(settings)
