"""Private records of one's own, in a pooled file and in a file an agent, with and without tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from tests.people_runs import rows, summary_of

from .launch import admmnet
from .relayed import NONE, Hosts

pytestmark = pytest.mark.processes
SCHEMA = """
[data.schema]
label = "y"
labels = ["no", "yes"]
[data.schema.columns]
size = { kind = "numeric", low = -3, high = 3 }
colour = { kind = "categorical", categories = ["red", "blue"] }
"""


def write_table(path: Path, seed: int, rows: int = 90) -> str:
    stream = np.random.default_rng(seed)
    lines = [
        f"{size:.3f},{colour},{'yes' if size + (colour == 'red') > 0.4 else 'no'}"
        for size, colour in zip(stream.normal(size=rows), stream.choice(["red", "blue"], rows), strict=True)
    ]
    path.write_text("\n".join(["size,colour,y", *lines]) + "\n")
    return str(path)


def assert_private(folder: Path, *, tested: bool) -> dict[str, Any]:
    summary = summary_of(folder)
    for account in read_run(folder).ledgers.values():
        assert (account.header["schema"], account.header["mode"], account.header["noise"]) == (4, "private", "private")
        assert account.header["budget"]["delta"] == summary["privacy"]["delta"] == 1e-5
    assert (summary["mode"], summary["seeded"]) == ("private", False)
    errors = [summary["test_error"][name] for name in ("mean", "std", "consensus", "records")]
    errors += [entry["test_error"] for entry in summary["per_agent"]]
    assert all((value is not None) is tested for value in errors)
    assert [*rows(folder)[0]] == ["round", "agent", "test_error", "releases", "bytes_sent"]
    assert all((row["test_error"] != "") is tested for row in rows(folder))
    assert "solve" not in summary["seconds"]
    assert all(value == round(value) for value in summary["seconds"].values())
    return summary


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_pooled_file(ranks: int, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(SCHEMA)
    words = ["run", str(tmp_path / "settings.toml"), "--algorithm", "pp-admm", "--topology", "ring:3", "--rounds", "3"]
    words += ["--epsilon", "20", "--data", write_table(tmp_path / "mine.csv", 1), "-o", str(tmp_path / "run")]
    refused = admmnet(ranks, *words)
    assert (refused.code, refused.out) == (2, "")
    (message,) = refused.messages
    assert all(word in message for word in ("mine.csv", "--test", "--no-test", "--account", "--simulate"))
    assert not (tmp_path / "run").exists()
    test = ["--test", write_table(tmp_path / "test.csv", 2, 40)]
    tested = admmnet(ranks, *words, *test, "--account", str(tmp_path / "account"))
    assert tested.code == 0, tested.err
    assert tested.out.splitlines()[0].startswith("mode:       private, secret noise")
    summary = assert_private(tmp_path / "run", tested=True)
    assert (summary["data"]["train"], summary["data"]["test"]) == (90, 40)


def test_agents_with_files_and_accounts_of_their_own(tmp_path: Path) -> None:
    """Each host has all records of its file, with {agent} in its path or without; it chooses its account, or none.

    All go without test records, so that the schema alone says the width. Agent 2's file has one colour and one class.
    Without a word on test records an agent refuses by itself, before it connects.
    """
    (tmp_path / "settings.toml").write_text(SCHEMA)
    for i in range(3):
        write_table(tmp_path / f"{i}.csv", i, 40 + i)
    (tmp_path / "2.csv").write_text("size,colour,y\n" + "0.5,red,yes\n" * 42)
    how = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--epsilon", "20")
    words = (str(tmp_path / "settings.toml"), *how, "--encode", "declared")
    flags = (("--account", str(tmp_path / "account")), ("--no-account",), ("--no-account",))
    files = [("--data", str(tmp_path / name)) for name in ("{agent}.csv", "1.csv", "2.csv")]
    with Hosts(tmp_path, 3, words=words, own=("--quiet",)) as hosts:
        hosts.start(1, NONE, *flags[1], *files[1])
        code, told = hosts.ended(1)
        assert (code, "--no-test" in told) == (2, True)
        for i in range(3):
            hosts.start(i, NONE, "--no-test", *flags[i], *files[i])
        assert hosts.all_ended() == [(0, "")] * 3
    for i in range(3):
        summary = assert_private(tmp_path / str(i), tested=False)
        assert summary["data"]["features"] == 4
        assert [entry["records"] for entry in summary["per_agent"]] == [40, 41, 42]
    assert (tmp_path / "account" / "agent-000.jsonl").is_file()
