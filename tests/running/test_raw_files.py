"""What runs read from rows where a schema leaves it open: what auto measures, what is refused, and what is said."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet import RunConfig, run
from admmnet.errors import RequestError
from admmnet.record.reader import read_run
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("_here")
SCHEMA: dict[str, Any] = {"label": "sick", "labels": ["no", "yes"], "numeric": ["pay", "age"], "categorical": ["ward"]}
BOUNDED: dict[str, Any] = {"kind": "numeric", "low": 0, "high": 99}
WHOLE = {**SCHEMA, "numeric": [], "categorical": [], "columns": {"age": BOUNDED}, "drop": ["pay", "ward"]}
SECRET: dict[str, Any] = {"no_test": True, "no_account": True, "out": "one"}


def people(path: Path, rows: int = 3000, seed: int = 0) -> str:
    """A csv with incomes of any size, some missing, which decide the label."""
    rng = np.random.default_rng(seed)
    size, noise = rng.normal(size=rows), rng.normal(size=rows)
    lines = ["pay,age,ward,sick"]
    for k in range(rows):
        pay = "?" if k % 40 == 0 else f"{1e4 * np.exp(2.0 * size[k]):.2f}"
        lines.append(f"{pay},{rng.integers(20, 90)},{'ABC'[k % 3]},{'yes' if size[k] + 0.3 * noise[k] > 0 else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def go(data: str, **others: Any) -> tuple[Any, str]:
    """Result and notes of a run."""
    quick: dict[str, Any] = {"agents": 2, "rounds": 4, "topology": "path:2", "epsilon": 4.0, "delta": 1e-4}
    result = run(RunConfig(**{"data": data, "schema": SCHEMA, "algorithm": "noisy-gd", **quick, **others}))
    return result, " ".join(result.summary["notes"])


@pytest.mark.parametrize(("algorithm", "own"), [("noisy-gd", False), ("pp-admm", False), ("noisy-gd", True)])
def test_private_files_without_bounds_are_learned_from(algorithm: str, own: bool) -> None:
    """Also where each agent has a file of its own."""
    for agent in (0, 1) if own else ():
        people(Path(f"site-{agent}.csv"), seed=agent)
    data = "site-{agent}.csv" if own else people(Path("mine.csv"))
    result, notes = go(data, algorithm=algorithm, test=people(Path("test.csv"), 500, 7), **SECRET | {"no_test": False})
    assert result.summary["test_error"]["consensus"] < 0.2
    assert "encoding: bounds of 2 and the shape of 2 columns of numbers are measured, " in notes
    assert "whitening: " in notes
    for ledger in read_run("one").ledgers.values():
        assert (ledger.header["preprocessing"], ledger.header["stages"][:2]) == ("private", ["bounds", "shape"])


def test_where_auto_was_not_tried_the_schema_must_say_all() -> None:
    data = people(Path("mine.csv"), 100)
    for how in ({"algorithm": "r-admm"}, {"encode": "declared"}):
        with pytest.raises(RequestError, match="measure it with --encode private"):
            go(data, **SECRET, **how)


def test_columns_are_measured_where_noise_does_not_drown_them() -> None:
    """Else they keep their bounds, or a public curve, and the run says why; also on an account."""
    result, notes = go(people(Path("many.csv")), schema=WHOLE, **SECRET)
    assert result.summary["data"]["features"] == 9
    assert "the shape of 1 column of numbers is measured" in notes
    accounted: dict[str, Any] = {**SECRET, "no_account": False, "account": "account", "out": "two"}
    result, notes = go(people(Path("few.csv"), 20), schema=WHOLE, **accounted)
    assert result.summary["data"]["features"] == 2
    assert "encoding: nothing is measured, as noise would drown 1 column of" in notes
    result, notes = go(people(Path("some.csv"), 60), **{**SECRET, "out": "three"})
    assert "encoding: nothing is measured, as noise would drown 2 columns" in notes
    for name in ("two", "three"):
        assert all(not ledger.header.get("stages") for ledger in read_run(name).ledgers.values())


def test_other_columns_with_bounds_are_encoded_as_declared() -> None:
    data, log = people(Path("mine.csv")), {**WHOLE, "columns": {"age": {**BOUNDED, "scale": "log"}}}
    cases: list[dict[str, Any]] = [{"algorithm": "r-admm"}, {"encode": "declared"}, {"schema": log}]
    for k, others in enumerate(cases):
        result, notes = go(data, **{"schema": WHOLE, "seed": 1, "out": f"{k}", **others})
        assert result.summary["data"]["features"] == 2
        assert "encoding:" not in notes


def test_a_simulation_and_all_of_its_yardsticks_use_one_encoding() -> None:
    result, _ = go(people(Path("mine.csv"), 1500), seed=1, out="one", encode="private", whiten="on")
    assert result.summary["references"]["pooled"] < 0.2
    assert result.summary["data"]["features"] == 8 + 8 + 16 + 1


def test_frames_whose_kinds_are_said() -> None:
    frame = pd.read_csv(people(Path("mine.csv")), na_values="?")
    how: dict[str, Any] = {"label": "sick", "algorithm": "noisy-gd", "agents": 2, "rounds": 4, "seed": 1}
    how |= {"schema": {"labels": ["no", "yes"]}}
    assert run(data=frame, kinds="dtype", out="one", **how).summary["data"]["features"] == 33
    with pytest.raises(RequestError, match="kinds = 'text': it must be 'dtype'"):
        run(data=frame, kinds="text", **how)
    with pytest.raises(RequestError, match="of a file the schema names kinds"):
        run(data="mine.csv", kinds="dtype", **how)


def test_the_commands_that_the_page_on_data_begins_with(admmnet: Admmnet) -> None:
    people(Path("raw.csv"), 400)
    head, *lines = Path("raw.csv").read_text().splitlines()
    rows = ["id," + head.replace("pay", "cost").replace("sick", "readmitted")]
    rows += [f"{k},{line}" for k, line in enumerate(lines)]
    for name, some in (("patients.csv", rows), ("new.csv", rows[:9])):
        Path(name).write_text("\n".join(some) + "\n")
    page = ROOT / "docs" / "data.md"
    Path("kinds.toml").write_text(blocks(page, "toml")[0])
    commands = [shlex.split(line, comments=True) for line in blocks(page, "text")[0].splitlines()]
    assert [words[1] for words in commands] == ["data", "run", "predict"]
    for words in commands:
        admmnet.ok(*words[1:])
    assert len(Path("predictions.csv").read_text().splitlines()) == 9


# labels that leave_out names, and encodings that nothing declares

COLUMNS: dict[str, Any] = {
    "a": {"kind": "numeric", "low": -3, "high": 3},
    "hat": {"kind": "categorical", "categories": ["u", "v"]},
}
DECLARED: dict[str, Any] = {"label": "won", "labels": ["no", "yes"], "columns": COLUMNS}
RUN: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 2, "no_test": True, "delta": 1e-5, "epsilon": 5.0}
RUN |= {"encode": "declared"}
PRIVATE: dict[str, Any] = {"private": True, "no_account": True}
CONSENT = (("accepted", PRIVATE | {"data_dependent": True}), ("simulated", {"seed": 0}))


def given(way: str, missing: int) -> dict[str, Any]:
    """Records of three agents, the first of which lack labels."""
    a = np.random.default_rng(0).standard_normal(90)
    won = np.where(a > 0, "yes", "no").astype(object)
    won[:missing] = None
    rows = pd.DataFrame({"a": a, "hat": ["u", "v", "v"] * 30, "won": won})
    parts = [rows[30 * i : 30 * (i + 1)] for i in range(3)]
    if way in ("frame", "shards"):
        return {"data": rows, "agents": 3} if way == "frame" else {"shards": parts}
    rows.to_csv("all.csv", index=False)
    for i, part in enumerate(parts):
        part.to_csv(f"{i}.csv", index=False)
    return {"data": "all.csv" if way == "file" else "{agent}.csv", "agents": 3}


@pytest.mark.parametrize("way", ["frame", "shards", "file", "files"])
def test_a_private_run_counts_every_record(way: str) -> None:
    """How many labels are left out is not told by the number of records, nor by words."""
    asked = RUN | {"schema": DECLARED | {"leave_out": [""]}}
    for missing in (4, 30) if way in ("frame", "file") else (4,):  # 30: perhaps none is left of an agent's
        refused = "records have labels that leave_out names, and leaving them out would reveal how many there are"
        with pytest.raises(RequestError, match=refused):
            run(**given(way, missing), **asked, **PRIVATE, out="refused")
    for name, mode in CONSENT:
        result = run(**given(way, 4), **asked, **mode, out=name)
        assert sum(entry["records"] for entry in result.summary["per_agent"]) == 86
        assert result.ledgers[0].header["preprocessing"] == "data-dependent"
        assert any("that was read from the rows, and no budget covers it" in note for note in result.summary["notes"])
    result = run(**given(way, 0), **asked, **PRIVATE, out="none")
    assert result.ledgers[0].header["preprocessing"] == "public-bounds"


UNDECLARED: dict[str, dict[str, Any]] = {
    "categories": {"schema": DECLARED | {"columns": COLUMNS | {"hat": {"kind": "categorical"}}}},
    "bounds": {"schema": DECLARED | {"columns": COLUMNS | {"a": {"kind": "numeric"}}}},
    "labels": {"schema": {"label": "won", "columns": COLUMNS}, "positive": "yes"},
    "labels of arrays": {"X": np.ones((90, 2)), "y": np.array(["no", "yes"] * 45), "positive": "yes", "data": None},
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_a_discovered_encoding_needs_consent(what: str) -> None:
    asked = given("file", 0) | RUN | UNDECLARED[what]
    asked = {name: value for name, value in asked.items() if value is not None}
    with pytest.raises(RequestError, match=r"would be discovered from the private records.*data.dependent"):
        run(**asked, **PRIVATE, out="refused")
    assert not Path("refused").exists()
    for name, mode in CONSENT:
        result = run(**asked, **mode, out=name)
        assert {book.header["preprocessing"] for book in result.ledgers} == {"data-dependent"}
    assert "data_dependent = true" in Path("accepted/config.toml").read_text()


def test_files_of_agents_that_lack_one_or_hold_a_bad_value(admmnet: Admmnet) -> None:
    """The value is shown in simulations alone."""
    for agent in range(3):
        Path(f"{agent}.csv").write_text("a,y\n0.5,1\n0.25,-1\n" + "HIV+,1\n" * (agent == 1))
    Path("one.toml").write_text('label = "y"\nlabels = ["-1", "1"]\n[columns.a]\nkind = "numeric"\nlow = 0\nhigh = 1\n')
    words = ["run", "--data", "{agent}.csv", "--schema", "one.toml", "--no-test", "--no-account", "--out", "run"]
    told = admmnet.refused(*words)
    assert "3.csv does not exist, and the run has 5 agents (5 where nothing says how many)" in told
    assert "give --agents 3" in told
    told = admmnet.refused(*words, "--agents", 2)
    assert "1.csv is not as declared: `admmnet data check" in told
    assert "HIV" not in told
    assert "HIV+" in admmnet.refused(*words, "--agents", 2, "--simulate")
