"""Methods side by side: a grid of seeded runs over methods, epsilons and seeds (docs/compare.md).

::

    from admmnet.experiments import Comparison, compare

    if __name__ == "__main__":  # the runs are spread over processes that import this file again
        wanted = Comparison(algorithms=("pp-admm", "ipp-admm:published"), epsilons=(0.5, 1.0), out="runs/two")
        print(compare(wanted).told["lines"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.experiments.driver import compare
    from admmnet.experiments.figures import CompareResult
    from admmnet.experiments.grid import Comparison

__all__ = ["CompareResult", "Comparison", "compare"]

_HOMES = {"CompareResult": "figures", "Comparison": "grid", "compare": "driver"}
__getattr__, __dir__ = lazily(__name__, _HOMES)
