"""Private records of one's own, in a pooled file and in a file an agent: on every transport, with and without tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run

from .launch import admmnet
from .test_zmq_run import free_ports, together

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
TRANSPORTS = {"local": 0, "mpi": 3, "zmq": 0}
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
    words += ["--rounds", "3", "--epsilon", "20", "--transport", transport]
    return [*words, *(("--heartbeat-deadline", "20") if transport == "zmq" else ())]


def assert_private(folder: Path, *, tested: bool) -> dict[str, Any]:
    run = read_run(folder)
    assert run.summary is not None
    for account in run.ledgers.values():
        header = account.header
        assert (header["schema"], header["mode"], header["noise"]) == (2, "private", "private")
        assert header["budget"]["delta"] == run.summary["privacy"]["delta"] == 1e-5
    summary = run.summary
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
    words, ranks = words_of(tmp_path, transport), TRANSPORTS[transport]

    refused = admmnet(ranks, *words, *data, "-o", str(tmp_path / "refused"))
    assert (refused.code, refused.out) == (2, "")
    (message,) = refused.messages
    for word in ("mine.csv' is not declared public", "--test FILE", "--no-test", "--account DIR", "--no-account",
                 "--simulate"):  # fmt: skip
        assert word in message
    assert not (tmp_path / "refused").exists()

    alone = admmnet(ranks, *words, *data, "--no-test", "--no-account", "-o", str(tmp_path / "alone"))
    assert alone.code == 0, alone.err
    assert "test error: none, there are no test records" in alone.out
    assert alone.out.splitlines()[-1].startswith("mode:       private: ")
    summary = assert_private(tmp_path / "alone", tested=False)
    assert summary["data"]["train"] == 90
    assert summary["privacy"]["account"] is None

    test = ["--test", str(write_table(tmp_path / "test.csv", 2, 40))]
    account = ["--account", str(tmp_path / "account")]
    tested = admmnet(ranks, *words, *data, *test, *account, "-o", str(tmp_path / "tested"))
    assert tested.code == 0, tested.err
    summary = assert_private(tmp_path / "tested", tested=True)
    assert (summary["data"]["train"], summary["data"]["test"]) == (90, 40)
    # the account holds for other test records, or none: the training records are the same
    again = admmnet(
        ranks, *words, *data, "--no-test", *account, "--epsilon", "40", "-o", str(tmp_path / "again")
    )
    assert again.code == 0, again.err
    first, second = (
        json.loads((tmp_path / name / "summary.json").read_text())["privacy"] for name in ("tested", "again")
    )
    assert first["account_epsilon_spent"] < second["account_epsilon_spent"] <= 40.0

    simulated = admmnet(ranks, *words, *data, "--simulate", "-o", str(tmp_path / "simulated"))
    assert simulated.code == 0, simulated.err
    assert simulated.out.splitlines()[-1].startswith("mode:       simulation: the records count as public")
    summary = json.loads((tmp_path / "simulated" / "summary.json").read_text())
    assert (summary["mode"], summary["seeded"]) == ("simulation", False)
    assert summary["train_loss"] > 0.0


def test_agents_with_files_and_accounts_of_their_own(tmp_path: Path) -> None:
    """Each host chooses its account, or none; all go without test records, so that the schema alone says the width."""
    (tmp_path / "settings.toml").write_text(SCHEMA)
    (tmp_path / "hosts").write_text("127.0.0.1\n" * 3)
    init = ("network", "init", "path:3", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
    assert admmnet(0, *init, "--port", str(free_ports(3))).code == 0
    # agent 2's file has one colour and one class only
    for i in range(3):
        (tmp_path / f"host-{i}").mkdir()
        write_table(tmp_path / f"host-{i}" / f"{i}.csv", i, 40 + i)
    (tmp_path / "host-2" / "2.csv").write_text("size,colour,y\n" + "0.5,red,yes\n" * 42)

    def start(name: str, *accounts: tuple[str, ...], more: tuple[str, ...] = ()) -> list[tuple[int, str]]:
        words = [
            "--network",
            str(tmp_path / "net" / "network.toml"),
            "--algorithm",
            "pp-admm",
            "--rounds",
            "3",
        ]
        words += ["--epsilon", "20", "--quiet", "--heartbeat-deadline", "20", *more]
        return together(
            [
                [
                    *(str(tmp_path / "settings.toml"), "--id", str(i), *words, *account),
                    *("--data", str(tmp_path / f"host-{i}" / "{agent}.csv")),
                    *("-o", str(tmp_path / f"{name}-{i}")),
                ]
                for i, account in enumerate(accounts)
            ]
        )

    own = [("--account", str(tmp_path / "host-0" / "account")), ("--no-account",), ("--no-account",)]
    assert start("run", *own, more=("--no-test",)) == [(0, "")] * 3
    for i in range(3):
        summary = assert_private(tmp_path / f"run-{i}", tested=False)
        assert summary["data"]["features"] == 4
        assert [entry["records"] for entry in summary["per_agent"]] == [40, 41, 42]
    assert (tmp_path / "host-0" / "account" / "agent-000.jsonl").is_file()

    ends = start("refused", *[("--no-account",)] * 3)
    assert [code for code, _ in ends] == [2] * 3
    for i, (_, error) in enumerate(ends):  # each by itself, before it connects
        assert "it needs --test FILE (records that are somebody's to publish) or --no-test; if" in error
        assert not (tmp_path / f"refused-{i}").exists()

    test = ("--test", str(write_table(tmp_path / "test.csv", 9)))
    ends = start("mixed", ("--no-account", *test), *[("--no-account", "--no-test")] * 2)
    assert [code for code, _ in ends] == [2] * 3
    assert "no_test" in ends[0][1]
