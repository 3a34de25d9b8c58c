"""admmnet audit: bounds, files, resumption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.auditing.evidence import World
from admmnet.auditing.methods import Canary, MethodTrials
from admmnet.cli import run_command_line
from admmnet.errors import Terminated
from admmnet.experiments.audits import run_audit, subject_of, trials_of
from admmnet.experiments.pool import Pool
from admmnet.methods.base import Method
from admmnet.privacy.conversion import gaussian_epsilon
from tests.auditing.planted import halved_noise
from tests.command_runs import Admmnet


class Epochs(Method):
    """A method of one site from outside, whose epochs the auditor knows nothing of."""

    name = "epochs"
    verb = "none"


SMALL = ("--rounds", "2", "--release", "output", "--records", "40", "--epsilon", "4")


def audited(folder: Path, *words: str, name: str = "pp-admm", trials: int = 60) -> int:
    return run_command_line(["audit", name, "--trials", str(trials), "-o", str(folder), *words])


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "audit.json").read_text())["result"]
    return found


def test_a_sound_method_passes_and_half_its_noise_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audited(tmp_path / "a", *SMALL, "--jobs", "1", "--json", trials=150) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == result(tmp_path / "a")
    assert told["holds"]
    assert told["proven"] == pytest.approx(4.0)
    assert 1.0 < told["lower_gaussian"] < 4.0
    assert told["lower_gaussian"] < gaussian_epsilon(10.0, 1e-5)
    assert (told["canary"], told["adjacency"], told["published"]) == ("mirror", "replace-one", None)
    with halved_noise():
        assert audited(tmp_path / "b", *SMALL, "--jobs", "1", trials=150) == 1
    assert not result(tmp_path / "b")["holds"]
    error = capsys.readouterr().err
    assert "is proven: the program violates its proof" in error


def test_an_ended_audit_goes_on_and_processes_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("admmnet.experiments.audits.PART", 20)
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    assert audited(whole, *SMALL, "--jobs", "2", "--quiet") == 0
    capsys.readouterr()
    run = Pool.run

    def killed(pool: Pool, *words: Any) -> Iterator[tuple[int, Any]]:
        for number, answer in enumerate(run(pool, *words)):
            if number == 2:
                raise Terminated
            yield answer

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "run", killed)
        assert audited(ended, *SMALL, "--jobs", "1", "--quiet") == 3
    told = "\nadmmnet: ended by SIGTERM; finished trials are kept, and the same call goes on with the others\n"
    assert capsys.readouterr().err == told
    assert json.loads((ended / "audit.json").read_text())["result"] is None
    there = {path: path.stat().st_mtime_ns for path in (ended / "trials").iterdir()}
    assert len(there) == 2
    (ended / "trials/0-40-20.json").write_text('{"scores": [')  # as a torn file would be
    assert audited(ended, *SMALL, "--jobs", "1", "--quiet") == 0
    assert {path: path.stat().st_mtime_ns for path in there} == there  # nothing is drawn twice
    assert len(list((ended / "trials").iterdir())) == 6
    assert result(ended) == result(whole)


@pytest.mark.parametrize(("name", "reading"), [("r-admm-gaussian", "scores"), ("r-admm", "none"), ("ipp-admm", "none")])
def test_scores_are_read_as_normal_where_all_noise_is(name: str, reading: str) -> None:
    """A round that r-admm computes from released vectors alone adds none."""
    assert MethodTrials(RunConfig(algorithm=name, epsilon=4.0, delta=1e-5, rounds=4, seed=0)).reading == reading


def test_the_canary_may_leave_instead(tmp_path: Path) -> None:
    canaries: tuple[Canary, Canary] = ("mirror", "zeros")
    found = [
        run_audit("ssp", str(tmp_path / word), {"epsilon": 4.0}, trials=250, canary=word, records=40, jobs=1)
        for word in canaries
    ]
    assert 0.0 < found[1]["lower_gaussian"] < 0.7 * found[0]["lower_gaussian"]


def test_help_lists_what_can_be_audited_alone(admmnet: Admmnet) -> None:
    general, own = (admmnet.ok("audit", *words, "--help").out for words in ((), ("noisy-gd",)))
    words = general.partition("The methods: ")[2].replace("-\n", "-").split()
    methods = {word.rstrip(",.") for word in words}
    assert {"pp-admm", "ssp", "banco"} <= methods
    assert not {"admm", "sdca", "sgd", "primal-dp-scd"} & methods
    assert "--step-size" in own
    assert not any(flag in general + own for flag in ("--schema", "--answer", "--data", "--trust", "--colluders"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("admm",), "admm has no proven privacy"),
        (("ppadmm",), "NAME 'ppadmm' is not allowed: algorithm = 'ppadmm' is not allowed: did you mean pp-admm?"),
        (("pp-admm:foo",), "NAME 'pp-admm:foo' is not allowed: 'foo' must be proven or published"),
        (("tests.cli.test_audit_command:Epochs",), "the auditor cannot read the epochs of"),
        (("pp-admm", "--data", "census"), "--data does not go with audit"),
        (("pp-admm", "--trials", "3"), "trials = 3 is too few: at least 20"),
        (("pp-admm", "--confidence", "1"), "confidence = 1.0 is not allowed"),
        (("pp-admm", "--records", "3"), "records = 3 is not allowed: it must lie in [20, 1e+06]"),
        (("pp-admm", "--delta", "auto"), "delta = 'auto' does not go with audit"),
        (("dp-sgd", "--canary", "mirror"), "take --canary zeros"),
        (("noisy-gd", "--trust", "masked", "--colluders", "1"), "trust = 'masked' is not audited here"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    words: tuple[str, ...], named: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    assert named in admmnet.refused("audit", *words, "-o", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_numbers_that_overflow_are_a_failure_and_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--learning-rate", "1e9", "--regularisation", "1", "--batch", "20", "--epochs", "40")
    ended = audited(tmp_path / "a", *words, "--records", "20", "--epsilon", "4", name="dp-sgd")
    error = capsys.readouterr().err
    assert ended == 3
    assert "have no score, the first is nan: its numbers overflowed" in error
    assert error.count("\n") == 1


def test_a_folder_holds_one_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audited(tmp_path, *SMALL, "--jobs", "1", trials=20) == 0
    assert audited(tmp_path, *SMALL, "--jobs", "1", trials=30) == 0  # more trials go on with it
    assert result(tmp_path)["trials"] == 30
    assert audited(tmp_path, *SMALL, "--jobs", "1", "--canary", "zeros", trials=20) == 2
    error = capsys.readouterr().err
    assert f'{tmp_path} was made with other settings: canary was null, this call has "zeros"' in error
    assert "name another folder with -o" in error


def test_a_part_depends_on_its_place_alone() -> None:
    subject = subject_of("ssp", {"epsilon": 1.0}, None, 40)
    worlds: tuple[World, World] = (0, 1)
    found = [
        trials_of(subject, seed, world, *places)["scores"]
        for world in worlds
        for seed, places in ((7, (0, 6)), (7, (0, 2)), (7, (2, 4)), (8, (0, 6)))
    ]
    assert found[0] == found[1] + found[2]
    assert found[4] == found[5] + found[6]
    assert all(np.array_equal(found[0], other) is False for other in (found[3], found[4], found[7]))
