"""The methods of one holder: one file each."""

from __future__ import annotations

from collections.abc import Mapping

from admmnet.methods.single_site.banco import BANCO
from admmnet.methods.single_site.base import BaselineSettings, SingleSite
from admmnet.methods.single_site.dp_scd import DPSCD
from admmnet.methods.single_site.dp_sgd import DPSGD
from admmnet.methods.single_site.primal_dp_scd import PrimalDPSCD
from admmnet.methods.single_site.sdca import SDCA
from admmnet.methods.single_site.seq_dp_scd import SeqDPSCD
from admmnet.methods.single_site.sgd import SGD
from admmnet.methods.single_site.song_sgd import SongSGD

SINGLE_SITE: Mapping[str, type[SingleSite]] = {
    method.name: method for method in (SDCA, DPSCD, SeqDPSCD, PrimalDPSCD, SGD, DPSGD, SongSGD, BANCO)
}
"""By name."""

__all__ = ["SINGLE_SITE", "BaselineSettings", "SingleSite"]
