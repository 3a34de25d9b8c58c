"""What every method is asked: section [algorithm] of a run's settings, beside the problem and the promise.

A method's own settings are the fields of its ``Settings``, a frozen dataclass that extends ``MethodSettings``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from admmnet.errors import RequestError
from admmnet.privacy.settings import PrivacySettings
from admmnet.settings import Auto, in_algorithm, in_privacy
from admmnet.solvers.settings import ProblemSettings

Given = TypeVar("Given", bound="MethodSettings")
"""Settings of whatever class a caller has."""


@dataclass(frozen=True, kw_only=True)
class MethodSettings(ProblemSettings, PrivacySettings):
    """Method, form, rounds, answer."""

    chosen_method: Any = field(default=None, repr=False)
    """The method's class, which is no setting."""

    algorithm: str = in_algorithm("ipp-admm", "method", metavar="NAME|MODULE:CLASS", everyday=1)
    method: str | None = in_algorithm(
        None,
        "the corrected form, or the paper's to the letter (default: proven)",
        choices=("proven", "published"),
        everyday=2,
    )
    rounds: int | Auto = in_algorithm(
        "auto",
        "rounds T; auto: by the rule of docs/methods.md, 30 if published, 100 for admm",
        within="[1, 1e+06]",
        scope="network",
        everyday=13,
        tunable=True,
    )
    answer: str = in_algorithm(
        "average",
        "final model: average of last vectors; own last vector; or its mean over the last half (tail)",
        choices=("average", "last", "tail"),
        scope="network",
        tunable=True,
    )

    @property
    def baseline(self) -> bool:
        """Whether one holder has all records."""
        return bool(self.chosen_method.verb == "none")

    @property
    def budgeted(self) -> bool:
        """Whether the method has a privacy budget."""
        return bool(self.chosen_method.private)

    def __getattr__(self, name: str) -> Any:
        """Say so where the chosen method has no such setting; those that it declares itself are attributes, too."""
        raise AttributeError(f"algorithm = {self.algorithm!r} has no setting {name!r}")

    def check(self) -> None:
        """Fill in form and accountant, and check them."""
        if self.method is None:
            object.__setattr__(self, "method", "proven" if self.budgeted else "published")
        if self.accountant is None:
            object.__setattr__(self, "accountant", self.method)
        published = self.method == "published"
        if not self.budgeted and not published:
            raise RequestError(f"algorithm {self.algorithm} has no privacy, and so no proven form: drop method")
        if self.method not in self.chosen_method.forms:
            raise RequestError(
                f"method = {self.method!r} is not allowed with algorithm = {self.algorithm!r}: it has the form "
                f"{' and '.join(self.chosen_method.forms)} alone"
            )
        if not published and self.accountant == "published":
            raise RequestError(
                "accountant = 'published' goes with method = 'published': a proven method has no published arithmetic"
            )
        if self.account is not None and published:
            raise RequestError("account goes with method = 'proven': it adds up proven costs")
        if self.account is not None and not self.chosen_method.covered:
            raise RequestError(
                f"account does not go with algorithm = {self.algorithm!r}, which reads records outside of any "
                "proof: no account can add that up"
            )
        if self.trust == "masked" and not self.chosen_method.maskable:
            raise RequestError(
                f"trust = 'masked' does not go with algorithm = {self.algorithm!r}, which asks more than sums: take "
                "noisy-gd or ssp, or leave it out"
            )
        self.chosen_method.check_problem(self)


@dataclass(frozen=True, kw_only=True)
class StepSettings(MethodSettings):
    """What methods have that take gradient steps in a network."""

    step_size: float | Auto = in_algorithm(
        "auto", "auto: 1 over the bound on the loss's curvature", within="(0, 1e+09]", tunable=True
    )


@dataclass(frozen=True, kw_only=True)
class ConsensusSettings(MethodSettings):
    """What methods have whose agents agree through duals."""

    eta: float | Auto = in_algorithm(
        "auto", "ADMM penalty; auto: by the rule, 0.5 if published, 0.001 for admm", within="(0, 1e+09]"
    )
    proximal: float | Auto = in_algorithm(
        "auto", "weight of a self-term; auto: by the rule, 0 if published", within="[0, 1e+09]"
    )
    beta: float | Auto = in_algorithm(
        "auto", "gradient norm at which a local solve ends; auto: 1e-8, 10^-3.5 if published", within="(0, 1]"
    )


@dataclass(frozen=True, kw_only=True)
class NoisySettings(ConsensusSettings):
    """What those of them have that add noise."""

    inexact_share: float | Auto = in_privacy(
        "auto", "share of a release's budget that hides an inexact solve; auto: 0.001", within="(0, 1)"
    )
