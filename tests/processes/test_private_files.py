"""Private records of one's own, in a pooled file and in a file an agent, with and without tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins

from admmnet import read_run

from .launch import Ended, admmnet
from .relayed import NONE, Hosts

pytestmark = pytest.mark.processes
SCHEMA = """
[data.schema]
label = "y"
labels = ["no", "yes"]
[data.schema.columns.size]
kind = "numeric"
low = -3
high = 3
[data.schema.columns.colour]
kind = "categorical"
categories = ["red", "blue"]
"""
TRANSPORTS = {"local": 0, "mpi": 2}
"""Ranks of mpirun, 0 without it."""


def write_table(path: Path, seed: int, rows: int = 90) -> Path:
    stream = np.random.default_rng(seed)
    lines = [
        f"{size:.3f},{colour},{'yes' if size + (colour == 'red') > 0.4 else 'no'}"
        for size, colour in zip(stream.normal(size=rows), stream.choice(["red", "blue"], rows), strict=True)
    ]
    path.write_text("\n".join(["size,colour,y", *lines]) + "\n")
    return path


def words_of(folder: Path, transport: str) -> list[str]:
    (folder / "settings.toml").write_text(SCHEMA)
    words = ["run", str(folder / "settings.toml"), "--algorithm", "pp-admm", "--topology", "ring:3"]
    return [*words, "--rounds", "3", "--epsilon", "20", "--transport", transport]


def assert_private(folder: Path, *, tested: bool) -> dict[str, Any]:
    run = read_run(folder)
    assert run.summary is not None
    for account in run.ledgers.values():
        header = account.header
        assert (header["schema"], header["mode"], header["noise"]) == (4, "private", "private")
        assert header["budget"]["delta"] == run.summary["privacy"]["delta"] == 1e-5
    summary: dict[str, Any] = to_builtins(run.summary)
    assert (summary["mode"], summary["seeded"]) == ("private", False)
    assert (summary["data"]["test"] > 0) is tested
    errors = [summary["test_error"][name] for name in ("mean", "std", "consensus", "records")]
    errors += [entry["test_error"] for entry in summary["per_agent"]]
    assert all((value is not None) is tested for value in errors)
    head, *rows = (folder / "metrics.csv").read_text().splitlines()
    assert head == "round,agent,test_error,releases,bytes_sent"
    assert all((row.split(",")[2] != "") is tested for row in rows)
    assert "solve" not in summary["seconds"]
    assert all(value == round(value) for value in summary["seconds"].values())
    return summary


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_pooled_file(transport: str, tmp_path: Path) -> None:
    data = ["--data", str(write_table(tmp_path / "mine.csv", 1))]
    account, words = ["--account", str(tmp_path / "account")], words_of(tmp_path, transport)

    def start(name: str, *more: str) -> Ended:
        return admmnet(TRANSPORTS[transport], *words, *data, *more, "-o", str(tmp_path / name))

    refused = start("refused")
    assert (refused.code, refused.out) == (2, "")
    (message,) = refused.messages
    for word in ("mine.csv", "--test", "--no-test", "--account", "--no-account", "--simulate"):
        assert word in message
    assert not (tmp_path / "refused").exists()

    test = ["--test", str(write_table(tmp_path / "test.csv", 2, 40))]
    tested = start("tested", *test, *account)
    assert tested.code == 0, tested.err
    assert tested.out.splitlines()[0].startswith("mode:       private, secret noise")
    summary = assert_private(tmp_path / "tested", tested=True)
    assert (summary["data"]["train"], summary["data"]["test"]) == (90, 40)


def test_agents_with_files_and_accounts_of_their_own(tmp_path: Path) -> None:
    """Each host has all records of its file, with {agent} in its path or without; it chooses its account, or none.

    All go without test records, so that the schema alone says the width.
    """
    (tmp_path / "settings.toml").write_text(SCHEMA)
    for i in range(3):
        (tmp_path / f"host-{i}").mkdir()
        write_table(tmp_path / f"host-{i}" / f"{i}.csv", i, 40 + i)
    # agent 2's file has one colour and one class only
    (tmp_path / "host-2" / "2.csv").write_text("size,colour,y\n" + "0.5,red,yes\n" * 42)
    how = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--epsilon", "20")
    words = (str(tmp_path / "settings.toml"), *how, "--encode", "declared")
    plain = ("--no-account",)
    files = [("--data", str(tmp_path / f"host-{i}" / name)) for i, name in enumerate(("{agent}.csv", "1.csv", "2.csv"))]
    with Hosts(tmp_path, 3, words=words, own=("--no-test", "--quiet")) as hosts:
        for i, flags in enumerate((("--account", str(tmp_path / "account")), plain, plain)):
            hosts.start(i, NONE, *flags, *files[i])
        assert hosts.all_ended() == [(0, "")] * 3
    for i in range(3):
        summary = assert_private(tmp_path / str(i), tested=False)
        assert summary["data"]["features"] == 4
        assert [entry["records"] for entry in summary["per_agent"]] == [40, 41, 42]
    assert (tmp_path / "account" / "agent-000.jsonl").is_file()

    # without a word on test records an agent refuses by itself, before it connects; one that differs is named
    test, fewer = (("--test", str(write_table(tmp_path / f"test-{n}.csv", 9, n))) for n in (90, 80))
    for name, own, refused, said in (
        ("refused", ((),) * 3, (0, 1, 2), "--no-test"),
        ("mixed", (test, ("--no-test",), ("--no-test",)), (0,), "no_test"),
        ("fewer", (test, fewer, test), (1,), "agent 1 has 80 test records, most have 90"),
    ):
        (tmp_path / name).mkdir()
        with Hosts(tmp_path / name, 3, words=words, own=("--quiet", *plain)) as hosts:
            for i, flags in enumerate(own):
                hosts.start(i, NONE, *flags, *files[i])
            for code, error in map(hosts.ended, refused):
                assert code == 2
                assert said in error
        assert not (tmp_path / name / "0/ledger").exists()
