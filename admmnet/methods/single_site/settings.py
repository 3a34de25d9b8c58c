"""Settings of single-site methods, table [baseline]; a method names those that it has."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, in_baseline


@dataclass(frozen=True, kw_only=True)
class SiteSettings(MethodSettings):
    """All that any of them has."""

    logistic_margin: float | Auto = in_baseline(
        "auto", "distance from 0 and 1 that a logistic step keeps; auto: 0.01, 1e-4 if published", within="(0, 0.5)"
    )
    sampling: str = in_baseline(
        "auto", "how batches arise; auto: by the method", choices=("auto", "poisson", "fixed", "shuffled")
    )
    accounting: str = in_baseline(
        "auto",
        "accountant of sampled steps; auto: pld, moments if accountant = published",
        choices=("auto", "pld", "rdp", "moments"),
    )
    learning_rate: float | Auto = in_baseline("auto", "step size of gradient descent", within="(0, 1e+09]")
    clip: float | Auto = in_baseline("auto", "most that a record moves a step", within="(0, 1e+06]")
    epochs: int | Auto = in_baseline("auto", "passes over the records", within="[1, 1e+06]")
    batch: int | Auto = in_baseline("auto", "nominal records (primal-dp-scd: features) of a step", within="[1, 1e+09]")
    dual_noise: bool | Auto = in_baseline("auto", "noise on the dual variables, too, as in the paper")
    schedule: str = in_baseline(
        "auto",
        "step size from learning rate c: c, c/sqrt(t), or c/(regularisation t)",
        choices=("auto", "constant", "sqrt", "inverse"),
    )
    noise: str = in_baseline("auto", "auto: laplace", choices=("auto", "laplace", "gaussian"))

    def check(self) -> None:
        """The moments accountant is the published arithmetic, and no other is."""
        accounting = getattr(self, "accounting", "auto")
        wanted = "published" if accounting == "moments" else "proven"
        if accounting != "auto" and self.accountant != wanted:
            raise RequestError(
                f"accounting = {accounting!r} goes with accountant = {wanted!r}: give that, or leave accounting at auto"
            )


def naming(*names: str) -> type[MethodSettings]:
    """Settings of a method that has these of ``SiteSettings``, besides those of every method."""
    own = {one.name: field(default="auto", metadata=one.metadata) for one in fields(SiteSettings) if one.name in names}
    kinds = {name: SiteSettings.__annotations__[name] for name in own}
    found = type("Settings", (MethodSettings,), {"__annotations__": kinds, "check": SiteSettings.check, **own})
    return dataclass(frozen=True, kw_only=True)(found)
