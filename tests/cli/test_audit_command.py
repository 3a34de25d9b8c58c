"""admmnet audit: bounds, files, resumption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admmnet.auditing.audit import World
from admmnet.auditing.methods import Canary, MethodTrials
from admmnet.errors import Terminated
from admmnet.experiments.audits import run_audit, runs_of, trials_of
from admmnet.experiments.pool import Pool
from admmnet.methods.base import Method
from tests.auditing.planted import halved_noise
from tests.command_runs import Admmnet


class Epochs(Method):
    """A method of one site from outside, whose epochs the auditor knows nothing of."""

    name = "epochs"
    verb = "none"


SMALL = ("--rounds", "2", "--release", "output", "--records", "40", "--epsilon", "4", "--jobs", "1", "--quiet")


def words(folder: Path, *more: str, name: str = "pp-admm", trials: int = 60) -> tuple[str, ...]:
    return "audit", name, "--trials", str(trials), "-o", str(folder), *SMALL, *more


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "audit.json").read_text())["result"]
    return found


def test_a_sound_method_passes_and_half_its_noise_does_not(tmp_path: Path, admmnet: Admmnet) -> None:
    told = json.loads(
        admmnet.ok("audit", "pp-admm", *SMALL[:-1], "--trials", "150", "--json", "-o", tmp_path / "a").out
    )
    assert told == result(tmp_path / "a")
    assert told["holds"]
    assert told["proven"] == pytest.approx(4.0)
    assert 1.0 < told["lower_gaussian"] < 4.0
    assert (told["canary"], told["adjacency"], told["published"]) == ("mirror", "replace-one", None)
    with halved_noise():
        printed = admmnet(*words(tmp_path / "b", trials=150))
    assert (printed.code, result(tmp_path / "b")["holds"]) == (1, False)
    assert "is proven: the program violates its proof" in printed.err


def test_an_ended_audit_goes_on_and_processes_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet
) -> None:
    monkeypatch.setattr("admmnet.experiments.audits.PART", 20)
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    admmnet.ok(*words(whole, "--jobs", "2"))
    run = Pool.run

    def killed(pool: Pool, *given: Any) -> Iterator[tuple[int, Any]]:
        for number, answer in enumerate(run(pool, *given)):
            if number == 2:
                raise Terminated
            yield answer

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "run", killed)
        code, _, err = admmnet(*words(ended))
    told = "\nadmmnet: ended by SIGTERM; finished trials are kept, and the same call goes on with the others\n"
    assert (code, err) == (3, told)
    assert json.loads((ended / "audit.json").read_text())["result"] is None
    there = {path: path.stat().st_mtime_ns for path in (ended / "trials").iterdir()}
    assert len(there) == 2
    (ended / "trials/0-40-20.json").write_text('{"scores": [')  # as a torn file would be
    admmnet.ok(*words(ended))
    assert {path: path.stat().st_mtime_ns for path in there} == there  # nothing is drawn twice
    assert len(list((ended / "trials").iterdir())) == 6
    assert result(ended) == result(whole)
    admmnet.ok(*words(ended, trials=80))  # more trials go on with it, other settings do not
    assert result(ended)["trials"] == 80
    error = admmnet.refused(*words(ended, "--canary", "zeros"))
    assert f'{ended} was made with other settings: canary was null, this call has "zeros"' in error
    assert "name another folder with -o" in error


@pytest.mark.parametrize(("name", "reading"), [("r-admm-gaussian", "scores"), ("r-admm", "none"), ("ipp-admm", "none")])
def test_scores_are_read_as_normal_where_all_noise_is(name: str, reading: str) -> None:
    """A round that r-admm computes from released vectors alone adds none."""
    assert MethodTrials(name, (("epsilon", 4.0), ("rounds", 4))).reading == reading


def test_the_canary_may_leave_instead(tmp_path: Path) -> None:
    canaries: tuple[Canary, Canary] = ("mirror", "zeros")
    found = [
        run_audit("ssp", str(tmp_path / word), {"epsilon": 4.0}, trials=250, canary=word, records=40, jobs=1)
        for word in canaries
    ]
    assert 0.0 < found[1]["lower_gaussian"] < 0.7 * found[0]["lower_gaussian"]


def test_help_lists_what_can_be_audited_alone(admmnet: Admmnet) -> None:
    general, own = (admmnet.ok("audit", *words, "--help").out for words in ((), ("noisy-gd",)))
    methods = {word.rstrip(",.") for word in general.partition("The methods: ")[2].replace("-\n", "-").split()}
    assert {"pp-admm", "ssp", "banco"} <= methods
    assert not {"admm", "sdca", "sgd", "primal-dp-scd"} & methods
    assert "--step-size" in own
    assert not any(flag in general + own for flag in ("--schema", "--answer", "--data", "--trust", "--colluders"))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("admm", "admm has no proven privacy"),
        ("ppadmm", "NAME 'ppadmm' is not allowed: algorithm = 'ppadmm' is not allowed: did you mean pp-admm?"),
        ("pp-admm:foo", "NAME 'pp-admm:foo' is not allowed: 'foo' must be proven or published"),
        ("tests.cli.test_audit_command:Epochs", "the auditor cannot read the epochs of"),
        ("pp-admm --data census", "--data does not go with audit"),
        ("pp-admm --trials 3", "trials = 3 is too few: at least 20"),
        ("pp-admm --confidence 1", "confidence = 1.0 is not allowed"),
        ("pp-admm --records 3", "records = 3 is not allowed: it must lie in [20, 1e+06]"),
        ("pp-admm --delta auto", "delta = 'auto' does not go with audit"),
        ("dp-sgd --canary mirror", "take --canary zeros"),
        ("noisy-gd --trust masked --colluders 1", "trust = 'masked' is not audited here"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    asked: str, named: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    assert named in admmnet.refused("audit", *asked.split(), "-o", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_numbers_that_overflow_are_a_failure_and_no_finding(tmp_path: Path, admmnet: Admmnet) -> None:
    rates = ("--learning-rate", "1e9", "--regularisation", "1", "--batch", "20", "--epochs", "40", "--records", "20")
    words = ("audit", "dp-sgd", "--trials", "60", "-o", tmp_path / "a", *rates, "--epsilon", "4")
    _, _, error = printed = admmnet(*words)
    assert printed.code == 3
    assert "have no score, the first is nan: its numbers overflowed" in error
    assert error.count("\n") == 1


def test_a_part_depends_on_its_place_alone() -> None:
    subject = runs_of("ssp", {"epsilon": 1.0}, None, 40)
    worlds: tuple[World, World] = (0, 1)
    for world in worlds:
        whole, first, rest, other = (
            trials_of(subject, seed, world, *places)["scores"]
            for seed, places in ((7, (0, 6)), (7, (0, 2)), (7, (2, 4)), (8, (0, 6)))
        )
        assert whole == first + rest != other
    assert whole != trials_of(subject, 7, 0, 0, 6)["scores"]
