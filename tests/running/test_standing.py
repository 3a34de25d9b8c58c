"""Eq. (100): who stands far from the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.report.tables import run_text
from admmnet.running.observer import JUDGED, far, standing
from admmnet.running.party import Party
from tests.people_runs import write_people
from tests.report_pages import words_of

LIAR = 3


@pytest.mark.parametrize(("k", "width"), [(4, 10), (5, 4), (20, 30)])
def test_noise_alone_stands_far_once_in_ten_thousand_times(k: int, width: int) -> None:
    """Of 2,000 draws 0.2 are expected; two or more: a chance of 2 %, at this seed not."""
    stream = np.random.default_rng(7)
    looks = [(standing(stream.standard_normal((k, width))) > far(width)).any() for _ in range(2000)]
    assert sum(looks) <= 1
    wrong = stream.standard_normal((500, k, width))
    wrong[:, 0] *= 2.0 * far(width)  # the power: one whose noise is that much larger
    assert np.mean([standing(rows)[0] > far(width) for rows in wrong]) > 0.5
    assert far(105) == 2.0


def test_who_has_said_nothing_is_not_judged() -> None:
    rows = np.random.default_rng(1).standard_normal((JUDGED + 1, 3))
    rows[0] = 0.0
    rows[1] *= 1e6
    assert standing(rows)[0] == 0.0
    assert standing(rows)[1] > 1e4
    rows[2] = 0.0
    assert not standing(rows).any()  # of three nobody knows who is far from whom


@pytest.mark.parametrize("k", [4, 5, 8])
def test_standing_is_the_distance_from_the_median(k: int) -> None:
    rows = np.random.default_rng(k).standard_normal((k, 5))
    away = rows - np.median(rows, axis=0)
    usual = 1.4826 * np.linalg.norm(np.median(np.abs(away), axis=0))
    np.testing.assert_allclose(standing(rows), np.linalg.norm(away, axis=1) / usual, rtol=1e-12)


def test_of_equal_rows_another_one_stands_at_infinity() -> None:
    rows = np.ones((5, 3))
    assert not standing(rows).any()
    rows[3] = 2.0
    assert standing(rows).tolist() == [0, 0, 0, np.inf, 0]


def test_who_stands_far_is_named_in_summary_table_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One says ten thousand everywhere, whatever it found; sums show no agent's own vector."""
    propose = Party.propose

    def lying(self: Party, round: int, taking: Any) -> None:
        propose(self, round, taking)
        assert self.outgoing is not None
        self.outgoing.value[LIAR] = 1e4

    common: dict[str, Any] = {"algorithm": "pp-admm", "topology": "complete:6", "epsilon": 20.0, "seed": 3}
    common |= {"data": write_people(tmp_path / "people.npz"), "rounds": 4}
    honest = run(**common, out=str(tmp_path / "honest"))
    assert honest.summary["far_from_others"] == {}
    monkeypatch.setattr(Party, "propose", lying)
    found = run(**common, out=str(tmp_path / "lied"))
    assert list(found.summary["far_from_others"]) == [str(LIAR)]
    (note,) = (note for note in found.summary["notes"] if "as far from the middle" in note)
    assert note.startswith(f"agent {LIAR}: its vectors stand ")
    assert "(far off)" in run_text(found.summary, tmp_path / "lied")
    assert f"Far from the others: agent {LIAR}." in words_of(tmp_path / "lied")
    noisy = run(**common | {"algorithm": "noisy-gd"}, out=str(tmp_path / "sums"))
    assert noisy.summary["far_from_others"] == {}
