"""BANCO: parameter-free SGD from locally private subgradients, Jun, Orabona 2019: docs/methods.md (57)-(59)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from admmnet.errors import RequestError
from admmnet.holder.series.banco import OnlineSteps
from admmnet.holder.series.base import Series
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite
from admmnet.settings import in_baseline


@dataclass(frozen=True, kw_only=True)
class BANCOSettings(MethodSettings):
    """Settings of its own."""

    noise: str = in_baseline("auto", "auto: laplace", choices=("auto", "laplace", "gaussian"), chosen=True)


class BANCO(SingleSite):
    """Every record adds noise to its own subgradient, in one pass."""

    name = "banco"
    Settings = BANCOSettings
    lacks = frozenset({"regularisation"})
    tasks = frozenset({"binary"})
    one_pass = True

    def defaults(self) -> dict[str, Any]:
        """Noise K(epsilon/2), and no regulariser."""
        return {"noise": "laplace", "regularisation": "auto"}

    @property
    def calibrates(self) -> Literal["pure", "sigma"]:
        """Noise K(epsilon/2), or Gaussian."""
        return "sigma" if self.settings.noise == "gaussian" else "pure"

    def series(self, noise: float) -> Series:
        """Eqs. (57), (58)."""
        if self.calibrates == "pure":
            return OnlineSteps(epsilon=noise)
        if self.published:
            raise RequestError(
                "banco with noise = 'gaussian' goes with --method proven: its source gives no accounting for it"
            )
        return OnlineSteps(sigma=noise)
