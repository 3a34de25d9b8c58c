"""One record of raw columns, whatever it holds, through all stages: what it moves is booked, and nothing else shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.cli import run_command_line
from admmnet.data import DataSettings, Records
from admmnet.holder.measurements import ColumnCounts, GradientSum, SecondMoments
from admmnet.methods.encoding import Stage
from admmnet.methods.noisy_sums import NoisyGD
from admmnet.privacy.events import DiscreteGaussian
from admmnet.rng import AgentStreams
from admmnet.running import loop
from admmnet.types import Integers, Total
from tests.running.raw_runs import loader, raw_config

CANARIES = {"huge": 1e9, "missing": float("nan"), "infinite": float("inf"), "least": -1.7e308, "tiny": 5e-324}


def with_canary(value: float | None) -> Any:
    """Loader of the records, the first of agent 0 ordinary (None), or with one value in all its columns."""

    def load(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        found = loader(settings, agents, mine)
        raw: Any = found.shards[0][0]
        y = found.shards[0][1]
        numbers, codes, labels = raw.numbers.copy(), raw.codes.copy(), y.copy()
        numbers[0], codes[0], labels[0] = (1.0, -2.0, 0.5) if value is None else value, value is not None, 1.0
        return replace(found, shards={**found.shards, 0: (raw._replace(numbers=numbers, codes=codes), labels)})

    return load


Sums = list[tuple[Integers, float]]


def totals_of(folder: Path, value: float | None, given: Sequence[Integers], **others: Any) -> Sums:
    """Sums of a run, and their grids; where others are ``given``, the run goes on as if it had had those."""
    seen: Sums = []

    def watching(real: Any) -> Any:
        def receive(self: Any, agents: Any, total: Total) -> None:
            seen.append((total.value.copy(), self.grid))
            real(self, agents, total._replace(value=given[len(seen) - 1]) if given else total)

        return receive

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Stage, NoisyGD):
            patch.setattr(kind, "receive", watching(kind.receive))
        run(raw_config(folder, rounds=2, **others), loader=with_canary(value))
    return seen


@pytest.mark.parametrize("trust", [{}, {"trust": "masked", "colluders": 1}], ids=["plain", "masked"])
def test_a_canary_moves_every_sum_by_no_more_than_is_booked(tmp_path: Path, trust: dict[str, Any]) -> None:
    ordinary = totals_of(tmp_path / "ordinary", None, (), **trust)
    given = [value for value, _ in ordinary]
    (ledger, *_) = read_run(tmp_path / "ordinary").ledgers.values()
    booked = [event.sensitivity for _, event, _ in ledger.events if isinstance(event, DiscreteGaussian)]
    assert len(booked) == len(ordinary) == 5
    for name, value in CANARIES.items():
        moved = [
            float(np.linalg.norm((own - before) * grid))
            for (own, grid), before in zip(totals_of(tmp_path / name, value, given, **trust), given, strict=True)
        ]
        assert all(own <= most * (1.0 + 1e-12) for own, most in zip(moved, booked, strict=True)), name
        if name == "huge":
            assert moved[0] == pytest.approx(2.0), "two columns without bounds, sqrt(2 p) each: the test sees it"
            assert moved[1] > 0.9 * booked[1]
            assert moved[2] > 0.1 * booked[2]


@pytest.fixture
def _blind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sums say nothing of the records, and noise is the same in every run."""
    monkeypatch.chdir(tmp_path)
    for kind in (ColumnCounts, SecondMoments, GradientSum):
        monkeypatch.setattr(kind, "totals", lambda self, some, known: np.ones((len(some), self.dimension(known))))
    monkeypatch.setattr(loop, "AgentStreams", lambda agent, seed: AgentStreams(agent, 7))


def shown(cells: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    """All that a private run shows whose first record has these cells, but for times and keys."""
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.3f},{rng.integers(20, 90)},{'AB'[k % 2]},{'ny'[k % 3 == 0]}" for k in range(60)]
    Path("mine.csv").write_text("\n".join(["pay,age,ward,sick", f"{cells},n", *rows]) + "\n")
    schema = {"label": "sick", "labels": ["n", "y"], "numeric": ["pay", "age"], "categorical": ["ward"]}
    Path("schema.json").write_text(json.dumps(schema))
    words = (
        "run --data mine.csv --schema schema.json --algorithm noisy-gd --agents 2 --rounds 2 --epsilon 2 --delta 1e-4"
    )
    more = "--no-test --no-account --encode private --whiten on --quiet --out"
    code = run_command_line([*words.split(), *more.split(), "one"])
    said = capsys.readouterr()
    files: dict[str, Any] = {}
    for path in sorted(Path("one").rglob("*")):
        name = str(path)
        if path.is_file() and not any(word in name for word in ("manifest", "part-", "outbox", "lock")):
            files[name] = path.read_bytes()
    summary = json.loads(files.pop("one/summary.json"))
    del summary["seconds"], summary["manifest"]
    Path("one").rename(f"before-{len(list(Path().glob('before-*')))}")
    return code, said.out, said.err, summary, files


@pytest.mark.usefixtures("_blind")
def test_nothing_but_sums_depends_on_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    ordinary = shown("1.5,40,A", capsys)
    assert ordinary[0] == 0
    assert {"one/encoding.json", "one/whitening.npy", "one/model.npz", "one/metrics.csv"} <= ordinary[-1].keys()
    for cells in ("1e9,1e9,1e9", "nan,NaN,nan", "inf,-inf,inf", "?,,?", "1e400,x,a word", "-1e308,5e-324,\x7f"):
        assert shown(cells, capsys) == ordinary, cells
