"""Results: kept at once, refusals among them; failures are tried again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import BudgetError, RunError
from admmnet.experiments.pool import Pool
from admmnet.papers.store import Job, Lab


@dataclass(frozen=True)
class Odd(Job):
    """A job that fails, or is refused."""

    how: str

    @property
    def words(self) -> str:
        return self.how

    def __call__(self, shelf: Any) -> dict[str, Any]:
        if self.how == "refused":
            raise BudgetError("epsilon is too small")
        if self.how == "broken":
            raise ZeroDivisionError("oh")
        return {"fine": True}


def test_refusals_are_results_and_failures_are_tried_again(tmp_path: Path) -> None:
    with Pool(1) as pool:
        lab = Lab(tmp_path, pool)
        jobs = [Odd("refused"), Odd("fine")]
        assert [*lab.measure("odd", jobs).values()] == [{"refused": "epsilon is too small"}, {"fine": True}]
        assert lab.made == 2
        for _ in range(2):
            with pytest.raises(RunError, match=r"odd: 1 failed, first broken: .*oh"):
                lab.measure("odd", [Odd("broken"), *jobs])
        assert lab.made == 2
        again = Lab(tmp_path, pool)
        assert [*again.measure("odd", jobs).values()] == [{"refused": "epsilon is too small"}, {"fine": True}]
        assert again.made == 0
