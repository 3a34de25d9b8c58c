"""Private records in a file an agent, and an account of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.people_runs import summary_of

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


def write_table(path: Path, seed: int, rows: int) -> None:
    stream = np.random.default_rng(seed)
    lines = [
        f"{size:.3f},{colour},{'yes' if size + (colour == 'red') > 0.4 else 'no'}"
        for size, colour in zip(stream.normal(size=rows), stream.choice(["red", "blue"], rows), strict=True)
    ]
    path.write_text("\n".join(["size,colour,y", *lines]) + "\n")


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
        summary = summary_of(tmp_path / str(i))
        assert (summary["mode"], summary["seeded"], summary["data"]["features"]) == ("private", False, 4)
        assert [entry["test_error"] for entry in summary["per_agent"]] == [None] * 3
        assert [entry["records"] for entry in summary["per_agent"]] == [40, 41, 42]
    assert (tmp_path / "account" / "agent-000.jsonl").is_file()
