"""The benchmark: what is measured stays measured, methods of other packages come beside it, and the file in docs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.errors import MissingDataError, RequestError
from admmnet.experiments import suite as module
from admmnet.experiments.driver import compare
from admmnet.experiments.suite import FULL, Place, Suite, run_suite, written
from admmnet.experiments.suite_page import page_of
from tests.doc_pages import ROOT

PIXELS = Place("pixels", "skin", "ring:4", ("admm", "pp-admm", "dp-scd"))
SMALL = Suite(places=(PIXELS,), epsilons=(5.0, 50.0), seeds=(0, 1), delta=1e-4)
OUTSIDE = "tests.experiments.outside:Outside"


def pixels(folder: Path, seed: int = 0) -> str:
    stream = np.random.default_rng(seed)
    (folder / "skin").mkdir(parents=True)
    rows = [(*stream.integers(0, 256, 3), 1 + k % 2) for k in range(400)]
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    (folder / "skin" / "Skin_NonSkin.txt").write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pixels(tmp_path_factory.mktemp("data"))


def measure(out: Path, data: str, **others: Any) -> module.SuiteResult:
    return run_suite(str(out), data_dir=data, jobs=1, **{"suite": SMALL, **others})


def test_rows_page_and_a_method_from_outside(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "bench"
    made = measure(out, data)
    rows = {(row["method"], row["epsilon"]): row for row in made.content["rows"]}
    private = [(name, epsilon) for name in ("pp-admm", "dp-scd") for epsilon in SMALL.epsilons]
    assert set(rows) == {("admm", None), *private}
    row = rows["pp-admm", 50.0]
    config = RunConfig(
        data="skin", data_dir=data, topology="ring:4", algorithm="pp-admm", epsilon=50.0, delta=1e-4, seed=1
    )
    summary = run(config).summary
    assert row["errors"][1] == summary["test_error"]["consensus"]
    assert row["epsilon_proven"] == summary["privacy"]["epsilon_proven"]
    assert row["messages"] == sum(agent["releases"] for agent in summary["per_agent"])
    assert row["bytes"] == summary["bytes_sent"]
    assert rows["dp-scd", 5.0]["adjacency"] == "zero-out"
    page = (out / "benchmark.md").read_text()
    assert page == page_of(json.loads((out / "benchmark.json").read_text()))
    assert f"| 50 | `pp-admm` | 50 | {100 * row['error']:.2f} +- {100 * row['spread']:.2f} |" in page
    assert "| 5 | `dp-scd` * |" in page

    calls = []

    def counted(wanted: Any, **others: Any) -> Any:
        calls.append(wanted.algorithms)
        return compare(wanted, **others)

    monkeypatch.setattr(module, "compare", counted)
    measure(out, data)
    assert calls == []  # all is measured
    more = measure(out, data, more=[OUTSIDE])
    assert calls == [(OUTSIDE,)]  # nothing but what is new
    assert [row for row in more.content["rows"] if row["method"] != OUTSIDE] == made.content["rows"]
    assert sum(row["method"] == OUTSIDE for row in more.content["rows"]) == 2
    assert measure(out, data, more=["pp-admm"]).content == more.content  # rows of earlier calls stay


def test_an_interrupted_suite_goes_on(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "bench"

    def cut(wanted: Any, **others: Any) -> Any:
        compare(wanted, **others)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "compare", cut)
        with pytest.raises(KeyboardInterrupt):
            measure(out, data)
    assert json.loads((out / "benchmark.json").read_text())["rows"] == []
    began = (out / "pixels" / "runs" / "admm-0" / "summary.json").stat().st_mtime_ns
    assert len(measure(out, data).content["rows"]) == 5
    assert (out / "pixels" / "runs" / "admm-0" / "summary.json").stat().st_mtime_ns == began


def test_what_cannot_be_downloaded_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def refused(url: str, timeout: float) -> None:
        raise OSError("no way out")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    cut = Suite((Place("people", "adult", "ring:4", ("admm",)),), (5.0,), (0,))
    with pytest.raises(MissingDataError, match=r"people: adult\.data could not be downloaded"):
        run_suite(str(tmp_path / "bench"), suite=cut, jobs=1)


def test_what_is_refused_or_left_out(data: str, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    measure(out, data, suite=Suite((Place("pixels", "skin", "ring:4", ("admm",)),), (5.0,), (0,)))
    with pytest.raises(RequestError, match=r"^\S+json was made by another suite: name another folder with -o$"):
        measure(out, data)
    elsewhere = tmp_path / "other"
    with pytest.raises(MissingDataError, match=r"pixels: there is no .*Skin_NonSkin.txt"):
        measure(elsewhere, str(tmp_path / "nothing"))
    other = pixels(tmp_path / "changed", seed=1)
    small = Suite((Place("pixels", "skin", "ring:4", ("admm",)),), (5.0,), (0,))
    with pytest.raises(RequestError, match="the records of skin are not those"):
        measure(out, other, suite=small, more=["pp-admm"])
    with pytest.raises(RequestError, match="ssp:published"):
        measure(out, data, suite=small, more=["ssp:published"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--suite", "--epsilons", "1"), "--epsilons does not go with --suite, whose settings are fixed"),
        (("--suite", "--rounds", "3"), "--rounds does not go with --suite"),
        (("--quick", "--algorithms", "admm"), "--quick is the smallest part of --suite: give both"),
        (("--epsilons", "1"), "compare needs --algorithms NAME,..., as in pp-admm,ipp-admm; or --suite"),
        (("--suite", "--algorithms", "nothing"), "nothing"),
    ],
)
def test_words(words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(("compare", *words, "-o", str(tmp_path / "bench"))) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "bench").exists()


def test_the_command_prints_the_tables(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = replace(PIXELS, epsilons=(5.0,))
    tiny = Suite((fewer, Place("people", "adult", "ring:4", ("admm",))), (5.0, 50.0), (0,))
    monkeypatch.setattr("admmnet.cli.compare_suite.FULL", tiny)
    words = ("compare", "--suite", "--data-dir", data, "--jobs", "1", "-o", str(tmp_path / "bench"))
    assert run_command_line(words) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("\n## pixels\n")
    assert "| 5 | `pp-admm` | 5 |" in printed.out
    assert "| 50 |" not in printed.out
    assert printed.err.startswith("left out: people: there is no ")
    monkeypatch.setattr(module, "compare", None)  # nothing is missing
    assert run_command_line((*words, "--json")) == 0
    content = json.loads((tmp_path / "bench" / "benchmark.json").read_text())
    assert json.loads(capsys.readouterr().out) == content


def test_the_file_of_the_documentation() -> None:
    text = (ROOT / "docs" / "benchmark.json").read_text()
    content = json.loads(text)
    assert written(content) == text
    assert page_of(content) == (ROOT / "docs" / "benchmark.md").read_text()
    assert {place["name"] for place in content["suite"]["places"]} == {place.name for place in FULL.places}
    measured = {(row["place"], row["method"]) for row in content["rows"]}
    assert measured >= {(place.name, method) for place in FULL.places for method in place.methods}
    row = next(
        row
        for row in content["rows"]
        if (row["place"], row["method"], row["epsilon"]) == ("census, 5 agents", "ssp", 1.0)
    )
    topology = FULL.places[0].topology
    config = RunConfig(algorithm="ssp", epsilon=1.0, delta=FULL.delta, topology=topology, topology_seed=0, seed=0)
    # within what another machine's last bits may turn
    assert run(config).summary["test_error"]["consensus"] == pytest.approx(row["errors"][0], abs=1e-3)
