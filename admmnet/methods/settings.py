"""What every method is asked: section [algorithm] of a run's settings, beside the problem and the promise.

A method's own settings are the fields of its ``Settings``, which extends ``MethodSettings``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import structs

from admmnet.errors import RequestError
from admmnet.privacy.settings import PrivacySettings
from admmnet.settings import Auto, about

DEFAULT = "ipp-admm"
"""Method where none is named."""
Given = TypeVar("Given", bound="MethodSettings")
"""Settings of whatever class a caller has."""


class ProblemSettings(PrivacySettings, frozen=True, kw_only=True):
    """Loss and regulariser."""

    table: ClassVar[str] = "problem"
    loss: Annotated[str, about(metavar="auto|logistic|smoothed-hinge|huber|squared|NAME")] = "auto"
    """loss function; auto: by the method (docs/methods.md)"""
    loss_width: Annotated[float, about(ge=1e-6, le=1e6, scope="network")] | Auto = "auto"
    """half-width of the quadratic part; auto: 1, or 0.5 where --loss smoothed-hinge is given"""
    regularisation: Annotated[float, about(ge=0, le=1e12, tunable=True)] | Auto = "auto"
    """weight lambda; auto: the least that is needed, 1e-4 for admm and in one place, there 1e-5 for hinge"""


class MethodSettings(ProblemSettings, frozen=True, kw_only=True):
    """Method, form, rounds, answer."""

    table: ClassVar[str] = "algorithm"
    chosen_method: Any = None
    """The method's class, which is no setting."""

    algorithm: Annotated[str, about(metavar="NAME|MODULE:CLASS", everyday=1)] = DEFAULT
    """method"""
    method: Annotated[str, about(choices=("proven", "published"), everyday=2)] | None = None
    """the corrected form, or the paper's to the letter (default: proven)"""
    rounds: Annotated[int, about(ge=1, le=1_000_000, scope="network", everyday=13, tunable=True)] | Auto = "auto"
    """rounds T; auto: by the rule of docs/methods.md, 30 if published, 100 for admm"""
    answer: Annotated[str, about(choices=("average", "last", "tail"), scope="network", tunable=True)] = "average"
    """final model: average of last vectors; own last vector; or its mean over the last half (tail)"""

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
            structs.force_setattr(self, "method", "proven" if self.budgeted else "published")
        if self.accountant is None:
            structs.force_setattr(self, "accountant", self.method)
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


class StepSettings(MethodSettings, frozen=True, kw_only=True):
    """What methods have that take gradient steps in a network."""

    step_size: Annotated[float, about(gt=0, le=1e9, tunable=True)] | Auto = "auto"
    """auto: 1 over the bound on the loss's curvature"""


class ConsensusSettings(MethodSettings, frozen=True, kw_only=True):
    """What methods have whose agents agree through duals."""

    eta: Annotated[float, about(gt=0, le=1e9)] | Auto = "auto"
    """ADMM penalty; auto: by the rule, 0.5 if published, 0.001 for admm"""
    proximal: Annotated[float, about(ge=0, le=1e9)] | Auto = "auto"
    """weight of a self-term; auto: by the rule, 0 if published"""
    beta: Annotated[float, about(gt=0, le=1)] | Auto = "auto"
    """gradient norm at which a local solve ends; auto: 1e-8, 10^-3.5 if published"""


class NoisySettings(ConsensusSettings, frozen=True, kw_only=True):
    """What those of them have that add noise."""

    inexact_share: Annotated[float, about(table="privacy", gt=0, lt=1)] | Auto = "auto"
    """share of a release's budget that hides an inexact solve; auto: 0.001"""
