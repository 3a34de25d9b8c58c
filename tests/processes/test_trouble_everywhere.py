"""Simulated trouble is the same on every transport, bit for bit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from .launch import admmnet
from .test_same_everywhere import assert_same, model

pytestmark = pytest.mark.processes
TURNS = "0 edges 0-1 2-3\n1 edges 1-2 3-4\n2 ring:5\nrepeat 3\n"
STORM = ("--drop", "0.3", "--drop-burst", "3", "--offline", "3:2-4,1:5-", "--seed", "3", "--epsilon", "20")
CLOCK = ("--delay", "compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6", "--straggle", "0.2")


def run(ranks: int, folder: Path, *words: str) -> Path:
    ended = admmnet(ranks, "run", "--rounds", "8", "--quiet", *words, "-o", str(folder))
    assert ended.code == 0, ended.err
    return folder


def virtual(folder: Path) -> dict[str, float]:
    summary = json.loads((folder / "summary.json").read_text())
    found: dict[str, float] = summary["virtual_seconds"]
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-1] == "virtual_seconds"
    network = [float(row["virtual_seconds"]) for row in rows if row["agent"] == "-1"]
    assert network == sorted(network)
    assert network[-1] == found["total"] > 0.0
    return found


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "r-admm"])
@pytest.mark.parametrize("network", ["ring", "schedule"])
def test_a_storm_is_the_same_on_ranks_and_in_one_process(
    algorithm: str, network: str, tmp_path: Path
) -> None:
    (tmp_path / "turns.txt").write_text(TURNS, encoding="utf-8")
    graph = ("--topology", "ring:5")
    if network == "schedule":
        graph = ("--topology-schedule", str(tmp_path / "turns.txt"))
    words = ("--algorithm", algorithm, *graph, *STORM, *CLOCK)
    one = run(0, tmp_path / "one", *words)
    several = run(3, tmp_path / "several", *words, "--agents", "5")
    assert_same(one, several)
    assert virtual(one) == virtual(several)
    calm = run(0, tmp_path / "calm", "--algorithm", algorithm, *graph, "--seed", "3", "--epsilon", "20")
    assert (model(calm)["consensus"] != model(one)["consensus"]).any()


def test_a_storm_is_the_same_over_zmq(tmp_path: Path) -> None:
    words = ("--algorithm", "pp-admm", "--topology", "ring:5", *STORM, *CLOCK)
    one = run(0, tmp_path / "one", *words)
    zmq = run(0, tmp_path / "zmq", *words, "--transport", "zmq")
    assert_same(one, zmq)
    assert virtual(one) == virtual(zmq)


def test_the_clock_changes_no_number_but_its_own(tmp_path: Path) -> None:
    words = ("--algorithm", "pp-admm", "--topology", "ring:5", "--seed", "3")
    timed, plain = run(0, tmp_path / "timed", *words, *CLOCK), run(0, tmp_path / "plain", *words)
    for name, values in model(plain).items():
        assert values.tobytes() == model(timed)[name].tobytes()
    for file in (plain / "ledger").iterdir():
        assert file.read_bytes() == (timed / "ledger" / file.name).read_bytes()
    before = (plain / "metrics.csv").read_text().splitlines()
    after = (timed / "metrics.csv").read_text().splitlines()
    assert [line.rsplit(",", 1)[0] for line in after] == before
    assert "virtual_seconds" not in json.loads((plain / "summary.json").read_text())
