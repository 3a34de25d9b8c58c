"""The JSON Schemas of the package: what runs of every kind write fits them, and nothing else does.

So are every pinned run (tests/pins), baselines among them, and the runs over MPI and ZeroMQ of tests/processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from admmnet import run
from tests.folder_forms import check_folder, check_lines, schema, validator
from tests.people_runs import PRIVATE, Stop, small, stopping, summary_of, write_people
from tests.run_folders import made, with_away


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("schemas") / "run", rounds=2)


def test_a_private_run_with_an_account_that_is_resumed(tmp_path: Path) -> None:
    people, account = write_people(tmp_path / "people.npz"), tmp_path / "account"
    own = {"private": True, "no_test": True, "account": str(account), "checkpoint_every": 1}
    run(small(people, tmp_path / "before", **own, epsilon=5.0))
    config = small(people, tmp_path / "run", **own)
    with pytest.raises(Stop):
        run(config, on_round=stopping(0))
    run(small(people, tmp_path / "run", **own, resume=str(tmp_path / "run")))
    assert {"header", "event", "resume", "end"} <= check_folder(tmp_path / "run")
    assert {"header", "event", "resume", "run"} <= check_lines(account / "agent-000.jsonl")


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1, "account": "account"},
        {"algorithm": "noisy-gd", "rounds": 2, "epsilon": 0.01, "group_size": 2},
        {"algorithm": "admm", "simulate": True},
        {"algorithm": "ipp-admm", "private": True, **PRIVATE},
        {"algorithm": "ipp-admm", "epsilon": 1e-4, "rounds": 2, "seed": 0},
    ],
    ids=lambda values: " ".join(map(str, values.values())),
)
def test_runs_of_other_kinds(values: Mapping[str, Any], tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.npz")
    values = {k: str(tmp_path / v) if k == "account" else v for k, v in values.items()}
    mode = {} if {"private", "seed", "simulate"} & set(values) else {"simulate": True}
    run(small(people, tmp_path / "run", **mode, **values))
    check_folder(tmp_path / "run")


def test_a_lost_agent(folder: Path, tmp_path: Path) -> None:
    check_folder(with_away(folder, tmp_path / "run", agent=2, round=1))


def parts(form: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Objects of a schema that name their keys, and where they stand."""
    if isinstance(form, Mapping):
        if isinstance(form.get("properties"), Mapping) and form.get("type") == "object":
            yield path, form
        for name, value in form.items():
            yield from parts(value, f"{path}/{name}")


@pytest.mark.parametrize("name", ["summary", "ledger"])
def test_every_key_is_described_and_none_is_let_in_besides(name: str) -> None:
    found = dict(parts(schema(name)))
    assert len(found) > 8
    for path, form in found.items():
        assert form["additionalProperties"] is False, path
        assert set(form["required"]) <= set(form["properties"]), path
        assert form["description"].endswith("."), path
        for key, value in form["properties"].items():
            told = "description" in value or "$ref" in value or key in ("kind", "by")
            assert told, f"{path}: {key}"


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(part)


def test_another_key_a_missing_one_and_a_wrong_value_are_found(folder: Path) -> None:
    free = {"far_from_others", "ledgers", "versions"}
    ledger = (folder / "ledger" / "agent-000.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [("summary", summary_of(folder)), *(("ledger", json.loads(line)) for line in ledger)]
    assert len(cases) > 4
    for name, whole in cases:
        validator(name).validate(whole)
        for part in objects({key: value for key, value in whole.items() if key not in free}):
            target = whole if "kind" in part or "algorithm" in part else part
            refused(name, whole, target, {"extra": 1})
            for key in [key for key in target if key not in free]:
                refused(name, whole, target, {key: ["x", {}]})


def refused(name: str, whole: Any, part: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Change a part in place, see that the whole is refused, and change it back."""
    before = dict(part)
    part.update(change)
    with pytest.raises(ValidationError):
        validator(name).validate(whole)
    part.clear()
    part.update(before)
