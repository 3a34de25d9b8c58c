"""SDCA: dual coordinate ascent without privacy, down to a duality gap: docs/methods.md, "Coordinate methods"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.holder.series.base import Series
from admmnet.holder.series.sdca import ExactPasses
from admmnet.methods.base import Agent, Closing
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Passing

GAP = 1e-6
"""Duality gap at which it stops."""
MOST_PASSES = 1000
"""Work, in passes over all records, at which it stops short of the gap."""
MEASURED = 100
"""Passes from which only every so many are measured: at its end they are short, and very many."""


class SDCA(SingleSite):
    """Every pass solves for one dual variable after the other, exactly."""

    name = "sdca"
    Settings = Passing
    compiled = True
    forms = ("published",)
    private = False

    def defaults(self) -> dict[str, Any]:
        """It stops at the gap."""
        return {"epochs": MOST_PASSES}

    def series(self, noise: float) -> Series:
        """Eqs. (43) to (45)."""
        return ExactPasses(self.weight, int(self.settings.epochs), GAP)

    def measured(self, round: int) -> bool:
        """The first passes, and some of those that follow."""
        return round < MEASURED or round % MEASURED == 0

    def closing(self, agent: Agent, kept: Mapping[str, Any] | None) -> Closing:
        """Also say that it stopped before the gap."""
        found = super().closing(agent, kept)
        gap = found.facts["baseline"].get("diagnostics", {}).get("duality_gap", 0.0)
        if gap <= GAP:
            return found
        words = f"sdca stopped at a duality gap of {gap:.3g}, above {GAP:g}: raise --epochs or --regularisation"
        return found._replace(notes=(words,))
