"""Encodings that a run takes over from a finished one: at no charge, and from whom it may."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunResult, read_run, run
from admmnet.data import DataSettings, Records
from admmnet.errors import CheckFailed, RequestError
from admmnet.record.encoding import read_found
from admmnet.record.manifest import manifest_digest
from admmnet.running.resume import resumed_config
from tests.interrupted_runs import assert_same
from tests.people_runs import Stop, stopping
from tests.running.raw_runs import loader, raw_config

PRIVATE: dict[str, Any] = {"seed": None, "private": True, "no_test": True}
MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
CENSUS: dict[str, Any] = {"data": "census", "encode": "declared", "load": None}


def go(out: Path, *, load: Any = loader, **others: Any) -> RunResult:
    return run(raw_config(out, **{"rounds": 3, **others}), loader=load)


def take(folder: Path, out: Path, **others: Any) -> RunResult:
    return go(out, **{"whiten": "auto", **others, "encode": f"from:{folder}"})


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private run and its account."""
    place = tmp_path_factory.mktemp("paid")
    go(place / "run", account=str(place / "account"), epsilon=1.0, **PRIVATE)
    return place / "run", place / "account"


@pytest.mark.parametrize("algorithm", ["pp-admm", "noisy-gd"])
def test_a_private_run_on_the_account_that_has_paid(algorithm: str, paid: tuple[Path, Path], tmp_path: Path) -> None:
    account = str(shutil.copytree(paid[1], tmp_path / "account"))
    result = take(paid[0], tmp_path / "two", algorithm=algorithm, account=account, epsilon=2.0, **PRIVATE)
    before, after = read_found(paid[0])[1], read_found(result.folder)[1]
    assert (after.encoding, after.source, after.stages) == (before.encoding, before.source, ())
    assert after.whitening is not None
    assert np.array_equal(after.whitening, before.whitening)  # type: ignore[arg-type]
    for book in read_run(result.folder).ledgers.values():
        assert next(round for round, _, _ in book.events) == 0
        assert (book.header["preprocessing"], "stages" in book.header) == ("private", False)
        assert book.header["encoding_from"] == manifest_digest(paid[0]) == after.encoding_from
    assert result.summary["privacy"]["account_epsilon_spent"] <= 2.0 * (1.0 + 1e-9)
    assert "taken over from" in " ".join(result.summary["notes"])
    third = take(result.folder, tmp_path / "three", account=account, epsilon=2.5, **PRIVATE)
    assert read_found(third.folder)[1].encoding == before.encoding


def test_a_simulation_may_take_anything_that_was_released(paid: tuple[Path, Path], tmp_path: Path) -> None:
    """Rows are those of the other run; masks are bound to it, and whitening is left out, or measured besides."""
    for name, how in (("plain", {}), ("masked", MASKED)):
        result = take(paid[0], tmp_path / name, rounds=6, **how)
        assert result.summary["test_error"]["consensus"] < 0.25
    plain = take(paid[0], tmp_path / "off", whiten="off").folder
    assert read_found(plain)[1].whitening is None
    found = read_found(take(plain, tmp_path / "on", whiten="on").folder)[1]
    assert (found.whitening is None, found.stages) == (False, ("whiten",))


def test_whitening_alone_is_taken_over(tmp_path: Path) -> None:
    one = go(tmp_path / "one", **CENSUS, rounds=2).folder
    found = read_found(take(one, tmp_path / "two", **CENSUS, rounds=2).folder)[1]
    assert found.encoding is None
    assert np.array_equal(found.whitening, read_found(one)[1].whitening)  # type: ignore[arg-type]


def test_a_run_goes_on_without_the_other(paid: tuple[Path, Path], tmp_path: Path) -> None:
    one = Path(shutil.copytree(paid[0], tmp_path / "one"))
    whole = take(one, tmp_path / "whole", whiten="on").folder
    config = raw_config(tmp_path / "cut", encode=f"from:{one}", rounds=3)
    with pytest.raises(Stop):
        run(config, loader=loader, on_round=stopping(1))
    shutil.rmtree(one)
    assert_same(whole, run(resumed_config(tmp_path / "cut"), loader=loader).folder)


def test_any_other_name_of_the_run_is_found(paid: tuple[Path, Path], tmp_path: Path) -> None:
    folder = take(paid[0], tmp_path / "two").folder
    for path in (folder / "manifest.json", folder / "summary.json"):
        path.unlink()
    text = (folder / "encoding.json").read_text()
    (folder / "encoding.json").write_text(text.replace(manifest_digest(paid[0]), "0" * 64))
    with pytest.raises(CheckFailed, match="taken from another run than the ledgers say"):
        read_run(folder)


def renamed(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    found = loader(settings, agents, mine)
    return replace(found, feature_names=("height", *found.feature_names[1:]))


def drafted(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    return replace(loader(settings, agents, mine), preprocessing="data-dependent")


FOUR: dict[str, Any] = {"agents": 4, "topology": "ring:4", "algorithm": "noisy-gd", "trust": "masked", "colluders": 2}
ACCOUNT = "it costs nothing on the account that has paid for it alone"


@pytest.mark.parametrize(
    ("how", "then", "match"),
    [
        ({}, {}, "it is a simulation, which protects nothing"),
        ({"load": drafted}, {}, "its columns were read from the records"),
        (CENSUS | {"whiten": "off"}, {}, "has measured nothing"),
        (PRIVATE | MASKED, {}, "masked against 1 colluders, and this run asks for no trust"),
        (PRIVATE | MASKED, FOUR, "against 1 colluders, and this run asks for trust against 2 colluders"),
        (PRIVATE | MASKED, MASKED, ACCOUNT),
        (PRIVATE, {}, ACCOUNT),
    ],
)
def test_from_whom_a_private_run_takes_nothing(
    how: dict[str, Any], then: dict[str, Any], match: str, tmp_path: Path
) -> None:
    """Whatever was paid for elsewhere, or protects less."""
    go(tmp_path / "one", **how, **({"account": str(tmp_path / "own")} if "private" in how else {}))
    for other in ({"no_account": True}, {"account": str(tmp_path / "other")}):
        with pytest.raises(RequestError, match=match):
            take(tmp_path / "one", tmp_path / "two", **PRIVATE, **then, **other)


def test_the_other_must_be_a_finished_run_of_the_same_columns_that_verifies(
    paid: tuple[Path, Path], tmp_path: Path
) -> None:
    one = Path(shutil.copytree(paid[0], tmp_path / "one"))
    (one / "whitening.npy").write_bytes(b"")
    refused: list[tuple[Path, dict[str, Any], str]] = [
        (paid[0], {"load": renamed}, "'height' here alone; 'x0' there alone"),
        (paid[0], CENSUS, "there alone"),
        (tmp_path / "nowhere", {}, "nowhere is no run folder"),
        (one, {}, r"whitening\.npy"),
        (paid[0], {"algorithm": "pp-admm", "method": "published"}, r"encode = 'from:.*does not go with algorithm"),
    ]
    for folder, how, match in refused:
        with pytest.raises(RequestError, match=match):
            take(folder, tmp_path / "run", **how)
    with pytest.raises(RequestError, match="encode = 'from:' is not allowed"):
        raw_config(tmp_path / "run").changed(encode="from:")
