"""Settings of single-site methods, table [baseline]; a method lacks those that it does not name."""

from __future__ import annotations

from typing import Annotated, ClassVar

from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, about, settings_in


class SiteSettings(MethodSettings, frozen=True, kw_only=True):
    """All that any of them has."""

    table: ClassVar[str] = "baseline"
    logistic_margin: Annotated[float, about(gt=0, lt=0.5)] | Auto = "auto"
    """distance from 0 and 1 that a logistic step keeps; auto: 0.01, 1e-4 if published"""
    sampling: Annotated[str, about(choices=("auto", "poisson", "fixed", "shuffled"))] = "auto"
    """how batches arise; auto: by the method"""
    accounting: Annotated[str, about(choices=("auto", "pld", "rdp", "moments"))] = "auto"
    """accountant of sampled steps; auto: pld, moments if accountant = published"""
    learning_rate: Annotated[float, about(gt=0, le=1e9)] | Auto = "auto"
    """step size of gradient descent"""
    clip: Annotated[float, about(gt=0, le=1e6)] | Auto = "auto"
    """most that a record moves a step"""
    epochs: Annotated[int, about(ge=1, le=1_000_000)] | Auto = "auto"
    """passes over the records"""
    batch: Annotated[int, about(ge=1, le=1_000_000_000)] | Auto = "auto"
    """nominal records (primal-dp-scd: features) of a step"""
    dual_noise: bool | Auto = "auto"
    """noise on the dual variables, too, as in the paper"""
    schedule: Annotated[str, about(choices=("auto", "constant", "sqrt", "inverse"))] = "auto"
    """step size from learning rate c: c, c/sqrt(t), or c/(regularisation t)"""
    noise: Annotated[str, about(choices=("auto", "laplace", "gaussian"))] = "auto"
    """auto: laplace"""

    def check(self) -> None:
        """The moments accountant is the published arithmetic, and no other is."""
        wanted = "published" if self.accounting == "moments" else "proven"
        if self.accounting != "auto" and self.accountant != wanted:
            raise RequestError(
                f"accounting = {self.accounting!r} goes with accountant = {wanted!r}: give that, or leave accounting "
                "at auto"
            )


def all_but(*names: str) -> frozenset[str]:
    """Settings of single-site methods that a method with these lacks."""
    return frozenset(settings_in(SiteSettings)) - frozenset(settings_in(MethodSettings)) - set(names)
