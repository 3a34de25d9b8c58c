"""admmnet calibrate: what a run would add and spend, without data."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.cli.calibrate import pays_for
from admmnet.privacy.budget import empty
from admmnet.privacy.events import EVENTS, from_parameters, parameters
from admmnet.record.format import epsilon, number
from tests.command_runs import Admmnet
from tests.people_runs import summary_of

METHODS = {
    "pp": ("--algorithm", "pp-admm"),
    "ipp": ("--algorithm", "ipp-admm"),
    "ipp-gaussian": ("--gate", "gaussian"),
    "ipp-held": ("--gate", "above-threshold", "--max-releases", "3"),
    "pp-published": ("--algorithm", "pp-admm", "--method", "published"),
    "ipp-published": ("--method", "published"),
    "ipp-repaired": ("--method", "published", "--accountant", "proven"),
    "dvp": ("--algorithm", "dvp"),
    "m-admm": ("--algorithm", "m-admm", "--growth", "1.1"),
    "r-admm": ("--algorithm", "r-admm", "--gamma", "0.1"),
    "m-published": ("--algorithm", "m-admm", "--method", "published"),
    "r-repaired": ("--algorithm", "r-admm", "--method", "published", "--accountant", "proven"),
}
ROWS = r"^\s+(objective|gaussian|above|gamma-norm|none)"
MINIMISER = ["noise in the objective", "hides solve errors"]
PAYS_FOR = {
    "pp": MINIMISER,
    "ipp-gaussian": [*MINIMISER, "the gate's question"],
    "ipp-held": [*MINIMISER, "the gate's threshold"],
    "ipp-published": ["the gate's first question", "its later questions", *MINIMISER],
    "r-admm": [*MINIMISER, "nothing: no record read"],
}
"""What the rows of a table say that they pay for."""


@pytest.fixture
def calibrate(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys, "calibrate")


@pytest.fixture
def _no_data(monkeypatch: pytest.MonkeyPatch, _here: None) -> None:
    """No data set can be read, and nothing lies in the working folder."""
    monkeypatch.setattr("admmnet.data.loading.load", None)
    monkeypatch.setattr("admmnet.running.loading.load", None)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_does_what_was_announced(name: str, people: str, tmp_path: Path, calibrate: Admmnet) -> None:
    """Sizes, width and graph as the run finds them: every event of its ledgers was announced, to the bit."""
    common = (*METHODS[name], "--topology", "star:5", "--epsilon", "20", "--rounds", "6")
    common += ("--gate-threshold", "-1e6") if name.startswith("ipp") else ()
    words = ["run", "--data", people, *common, "--seed", "1"]
    assert run_command_line([*words, "-o", str(tmp_path / "run")]) == 0
    books = list(read_run(tmp_path / "run").ledgers.values())
    records = ",".join(str(book.header["records"]) for book in books)
    answer = calibrate.json("--records", records, "--features", "5", *common)
    for entry, book, run in zip(answer["agents"], books, summary_of(tmp_path / "run")["per_agent"], strict=True):
        announced = Counter({(c["mechanism"], json.dumps(c["parameters"])): c["times"] for c in entry["charges"]})
        charged = Counter((event.mechanism, json.dumps(parameters(event))) for _, event, _ in book.events)
        assert charged <= announced
        if not name.startswith("ipp-published") and name != "ipp-repaired":
            assert charged == announced, "the gate let everything pass"
        worst = entry["worst_case"]
        assert worst["epsilon_spent"] <= run["epsilon_proven"] * (1.0 + 1e-9)
        assert run["rho_proven"] is None or worst["rho"] <= run["rho_proven"] * (1.0 + 1e-9)
        if answer["accountant"] == "proven":  # what the filter keeps, and the plan uses up
            assert worst["epsilon_spent"] == pytest.approx(run["epsilon_proven"], rel=1e-6)
        assert (entry["records"], entry["degree"]) == (run["records"], run["degree"])
        assert entry["budget"] == book.header["budget"]
        check_charges(entry, answer)
        told = [charge["pays_for"] for charge in entry["charges"]]
        assert len(set(told)) == len(told), "no two rows are called alike"
        assert told == PAYS_FOR.get(name, told)


def check_charges(entry: dict[str, Any], answer: dict[str, Any]) -> None:
    """Hold an agent's charges, each alone, and their sum against what events themselves come to."""
    delta, total = entry["budget"]["delta"], empty(answer["method"])
    for charge in entry["charges"]:
        event = from_parameters(charge["mechanism"], charge["parameters"])
        total = total.plus(event, charge["times"])
        alone = empty(answer["method"]).plus(event, charge["times"])
        assert charge["rho"] == pytest.approx(alone.rho, rel=1e-12)
        assert charge["epsilon_alone"] == pytest.approx(alone.epsilon_proven(delta), rel=1e-9)
        published = alone.rho_published if answer["method"] == "published" else None
        assert charge["rho_published"] == (None if published is None else pytest.approx(published, rel=1e-12))
    spent = entry["worst_case"]["epsilon_spent"]
    assert spent == pytest.approx(total.epsilon_proven(delta), rel=1e-9)
    assert entry["worst_case"]["rho"] == pytest.approx(total.rho, rel=1e-9)
    if answer["accountant"] == "proven":
        assert 20.0 * (1 - 1e-6) <= spent <= 20.0 * (1 + 1e-9)


def test_gaussian_noise_of_another_package_is_no_gates() -> None:
    assert pays_for(["gaussian", "gaussian"], gated=False) == ["noise on the vector"] * 2
    assert all(pays_for([mechanism], gated=False) != [""] for mechanism in EVENTS)


@pytest.mark.usefixtures("_no_data")
@pytest.mark.parametrize(
    ("own", "charges"), [(("ipp-admm", "--gate", "above-threshold"), 3), (("dvp", "--rounds", "4"), 2)]
)
def test_the_table_says_what_the_json_says(own: tuple[str, ...], charges: int, calibrate: Admmnet) -> None:
    words = ("--algorithm", *own, "--records", "300,5000,5000", "--topology", "path:3", "--epsilon", "3")
    out, answer = calibrate.ok(*words).out, calibrate.json(*words)
    head = dict(re.findall(r"^([\w ]+): +(.*)$", out.partition("\nagent")[0], re.MULTILINE))
    assert (head["algorithm"], head["rounds"], head["eta"]) == (own[0], str(answer["rounds"]), number(answer["eta"]))
    for name in ("records", "degree", "convexity"):
        values = [entry[name] for entry in answer["agents"]]
        told = [f"{value:,}" if isinstance(value, int) else number(value) for value in values]
        assert re.findall(rf"^{name}: +(\S+)$", out, re.MULTILINE) == told
    assert out.count("epsilon spent 3") == 3
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if re.match(ROWS, line)]
    assert [(*row[:2], *row[-4:]) for row in rows] == [
        (c["mechanism"], c["pays_for"], str(c["times"]), number(c["rho"]), epsilon(c["epsilon_alone"]), "-")
        for entry in answer["agents"]
        for c in entry["charges"]
    ]
    assert len(rows) == 3 * charges


@pytest.mark.usefixtures("_no_data")
def test_records_say_how_many_agents_there_are_and_how_small_delta_is(calibrate: Admmnet) -> None:
    def agents(*words: str) -> Any:
        return calibrate.json(*words)["agents"]

    assert [entry["records"] for entry in agents()] == [7000] * 5
    assert [entry["records"] for entry in agents("--records", "700,900,800")] == [700, 900, 800]
    assert [entry["records"] for entry in agents("--records", "700", "--topology", "ring:9")] == [700] * 9
    assert "names 3 sizes for 9 agents" in calibrate.refused("--records", "700,800,900", "--topology", "ring:9")
    for sizes, delta in (("700,30000", 1e-5), ("20000,30000", 0.1 / 20000)):
        assert {entry["budget"]["delta"] for entry in agents("--records", sizes)} == {delta}
    _, out, _ = calibrate("--records", "7000", "--topology", "ring:40", "--algorithm", "pp-admm")
    assert out.count("objective-perturbation") == 1  # equal agents are shown once
    assert "agents 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...\n" in out


@pytest.mark.usefixtures("_no_data")
@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        *((("--records", text), "it must be whole numbers", 2) for text in ("7e3", "700,0")),
        (("--epsilon", "-1"), "epsilon = -1.0 is not allowed", 2),
        (("--records", "700", "--eta", "1e-9", "--proximal", "0"), "affords no release at all", 4),
        (("--algorithm", "dp-scd"), "admmnet baseline dp-scd --dry-run", 2),
        (("--sample-complexity", "0.1"), "goes with --algorithm pp-admm --method published", 2),
    ],
)
def test_wrong_requests(words: tuple[str, ...], told: str, code: int, calibrate: Admmnet) -> None:
    assert told in calibrate.refused(*words, code=code)


@pytest.mark.usefixtures("_no_data")
def test_width_matters_and_settings_may_be_of_a_file(calibrate: Admmnet) -> None:
    widths: tuple[tuple[str, ...], ...] = ((), ("--features", "100"), ("--features", "1000"))
    etas = [calibrate.json("--records", "700", "--epsilon", "0.5", *words)["eta"] for words in widths]
    assert etas[0] == etas[1] < etas[2]
    Path("mine.toml").write_text(
        '[algorithm]\nalgorithm = "pp-admm"\nrounds = 4\n[privacy]\nepsilon = 3.0\n[privacy.agents.1]\nepsilon = 0.5\n'
    )
    answer = calibrate.json("mine.toml", "--records", "700,700", "--rounds", "3")
    assert [entry["budget"]["epsilon"] for entry in answer["agents"]] == [3.0, 0.5]
    assert answer["rounds"] == 3
    assert answer["agents"][1]["sigma1"] > 3 * answer["agents"][0]["sigma1"]


@pytest.mark.usefixtures("_no_data")
def test_what_is_said_besides(calibrate: Admmnet) -> None:
    answer = calibrate.json("--records", "700", "--algorithm", "admm")
    assert (answer["agents"], answer["accountant"]) == ([], None)
    assert "no privacy" in calibrate.ok("--records", "700", "--algorithm", "admm").out
    code, out, err = calibrate("--records", "700", "--account", "mine", "--json")
    assert (code, json.loads(out)) == (0, calibrate.json("--records", "700"))
    assert err == "note: the account is not read: this is the noise of a first run\n"
    assert not list(Path().iterdir()), "it writes nothing"
    for algorithm, said in (("noisy-gd", True), ("pp-admm", False)):  # noise of sums stands far above that of means
        told = calibrate.ok("--algorithm", algorithm, "--agents", "3").out
        assert ("noise: discrete-gaussian states it for a sum over records" in told) == said
