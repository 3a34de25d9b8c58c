"""Whole runs over ZeroMQ: the same numbers as in one process, one run folder or one an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, load_config, read_run, run

from .launch import DEADLINE, ROOT, admmnet
from .test_same_everywhere import assert_same, ledgers, model

pytestmark = pytest.mark.processes
COMMON = ("--rounds", "4", "--quiet")
PATIENT = ("--heartbeat-deadline", "20")


def pair(folder: Path, *words: str) -> tuple[Path, Path]:
    """Run folders of the same run in one process and over ZeroMQ."""
    for name in ("local", "zmq"):
        out = str(folder / name)
        where = ("--transport", name, *(PATIENT if name == "zmq" else ()))
        ended = admmnet(0, "run", *COMMON, *words, *where, "-o", out, deadline=2 * DEADLINE)
        assert ended.code == 0, ended.err
        assert (ended.out, ended.messages) == ("", [])
    return folder / "local", folder / "zmq"


@pytest.mark.parametrize(
    "words",
    [
        ("--algorithm", "admm", "--topology", "path:3", "--answer", "tail"),
        ("--algorithm", "pp-admm"),  # five agents on the default graph, whose numbers say little
        ("--algorithm", "pp-admm", "--method", "published", "--agents", "3", "--answer", "gossip"),
        # the gate lets some vectors pass and holds others back: silence is a message, too
        (
            "--algorithm",
            "ipp-admm",
            "--method",
            "published",
            "--epsilon",
            "20",
            "--max-releases",
            "3",
            "--agents",
            "3",
        ),
        ("--algorithm", "r-admm", "--agents", "2", "--epsilon", "20"),
    ],
    ids=["admm-tail", "pp-admm-5", "pp-admm-gossip", "ipp-admm", "r-admm-2"],
)
def test_zmq_equals_one_process(words: tuple[str, ...], tmp_path: Path) -> None:
    local, zmq = pair(tmp_path, *words, "--seed", "3")
    assert_same(local, zmq)
    assert np.abs(model(local)["theta"]).max() > 0.0
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (local, zmq)]
    assert [summary["transport"] for summary in summaries] == ["local", "zmq"]
    for summary in summaries:
        for varies in ("transport", "seconds", "frames"):
            summary.pop(varies, None)
    assert summaries[0] == summaries[1]
    configs = [load_config(folder / "config.toml") for folder in (local, zmq)]
    assert configs[1].topology == configs[0].topology
    read_run(zmq)


def test_a_private_run(tmp_path: Path) -> None:
    words = (
        *COMMON,
        *PATIENT,
        "--transport",
        "zmq",
        "--algorithm",
        "pp-admm",
        "--agents",
        "3",
        "-o",
        str(tmp_path / "run"),
    )
    ended = admmnet(0, "run", *words, "--private", "--no-test", "--account", str(tmp_path / "account"))
    assert ended.code == 0, ended.err
    folder = read_run(tmp_path / "run")
    assert folder.summary is not None
    assert (folder.summary["mode"], folder.summary["seeded"]) == ("private", False)
    assert 0.0 < folder.summary["privacy"]["epsilon_proven"] <= 1.0 + 1e-9
    assert all(account.finished for account in folder.ledgers.values())
    assert admmnet(0, "account", "show", str(tmp_path / "account")).code == 0


def test_from_the_library(tmp_path: Path) -> None:
    rounds: list[tuple[int, float]] = []
    started: list[Any] = []
    values: dict[str, Any] = {"algorithm": "admm", "topology": "path:2", "rounds": 3, "seed": 0}
    result = run(
        RunConfig(**values, transport="zmq", out=str(tmp_path / "zmq")),
        on_start=started.append,
        on_round=lambda round, error: rounds.append((round, error)),
    )
    local: list[tuple[int, float]] = []
    expected = run(
        RunConfig(**values, out=str(tmp_path / "local")),
        on_round=lambda round, error: local.append((round, error)),
    )
    assert result.theta.tobytes() == expected.theta.tobytes()
    assert result.folder == tmp_path / "zmq"
    assert result.summary["ledgers"] == expected.summary["ledgers"]
    assert rounds == local
    (plan,) = started
    assert (plan.config.rounds, plan.config.algorithm, len(plan.graph)) == (3, "admm", 2)


def test_the_seed_matters(tmp_path: Path) -> None:
    words = ("--transport", "zmq", "--algorithm", "pp-admm", "--topology", "path:2")
    for seed in ("3", "4"):
        ended = admmnet(0, "run", *COMMON, *PATIENT, *words, "--seed", seed, "-o", str(tmp_path / seed))
        assert ended.code == 0, ended.err
    assert (model(tmp_path / "3")["theta"] != model(tmp_path / "4")["theta"]).all()


def test_under_mpirun_it_is_refused_once(tmp_path: Path) -> None:
    ended = admmnet(2, "run", *COMMON, "--transport", "zmq", "-o", str(tmp_path / "run"))
    assert ended.code == 2
    assert len(ended.messages) == 1
    assert "leave out mpirun" in ended.messages[0]


# one agent by itself, each with a folder of its own


@pytest.mark.parametrize("plain", [False, True], ids=["curve", "plain"])
def test_agents_started_one_by_one(plain: bool, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1\n" * 3)
    init = ("network", "init", "path:3", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
    port = str(free_ports(3))
    assert admmnet(0, *init, "--port", port, *(("--plain",) if plain else ())).code == 0
    words = ("--algorithm", "pp-admm", "--seed", "3", *COMMON)
    network = str(tmp_path / "net" / "network.toml")
    for code, error in together(
        [
            ["--id", str(i), "--network", network, *words, *PATIENT, "-o", str(tmp_path / str(i))]
            for i in (2, 0, 1)
        ]
    ):
        assert (code, error) == (0, "")
    local = tmp_path / "local"
    assert admmnet(0, "run", *words, "--topology", "path:3", "-o", str(local)).code == 0
    for i in range(3):
        folder = tmp_path / str(i)
        assert json.loads((folder / "part.json").read_text()) == {"agent": i, "agents": 3}
        assert set(ledgers(folder)) == {f"agent-00{i}.jsonl"}
        assert ledgers(folder)[f"agent-00{i}.jsonl"] == ledgers(local)[f"agent-00{i}.jsonl"]
        assert (folder / "metrics.csv").read_bytes() == (local / "metrics.csv").read_bytes()
        assert (folder / "config.toml").is_file()
        assert model(folder)["theta"].tobytes() == model(local)["theta"].tobytes()
        part = read_run(folder)
        assert part.part == (i, 3)
        assert part.summary is not None
        assert len(part.summary["per_agent"]) == 3
        verified = admmnet(0, "ledger", "verify", str(folder))
        assert verified.code == 0, verified.err


def free_ports(count: int) -> int:
    """First of some ports in a row that nobody listens at."""
    import socket

    for first in range(20000, 30000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for opened in sockets:
                opened.close()
    pytest.fail("no free ports")


def together(agents: list[list[str]], fault: str | None = None) -> list[tuple[int, str]]:
    """Exit codes and errors of agents that are started at once; one may have a fault (``faulty_agent``)."""
    module = "admmnet" if fault is None else "tests.processes.faulty_agent"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, "agent", *words],
            cwd=ROOT,
            env={**os.environ, "ADMMNET_FAULT": fault or ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in agents
    ]
    ends = []
    try:
        for process in processes:
            _, error = process.communicate(timeout=DEADLINE)
            ends.append((process.returncode, error))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return ends


def test_agents_with_different_settings_refuse_each_other(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1\n" * 2)
    init = ("network", "init", "path:2", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
    assert admmnet(0, *init, "--port", str(free_ports(2))).code == 0
    network = str(tmp_path / "net" / "network.toml")
    ends = together(
        [
            [
                "--id",
                str(i),
                "--network",
                network,
                "--epsilon",
                epsilon,
                "-o",
                str(tmp_path / str(i)),
                *COMMON,
                *PATIENT,
            ]
            for i, epsilon in enumerate(["1", "2"])
        ]
    )
    for i, (code, error) in enumerate(ends):
        assert code == 2, error
        assert error.count("admmnet: ") == 1
        assert "epsilon" in error
        assert "1.0" in error
        assert "2.0" in error
        assert not (tmp_path / str(i)).exists()


def test_one_file_an_agent(tmp_path: Path) -> None:
    stream = np.random.default_rng(5)
    for name in ("0", "1", "test"):
        X = stream.uniform(-1, 1, (60, 3))
        np.savez(tmp_path / f"{name}.npz", X=X, y=np.where(X[:, 0] > 0, 1, -1))
    schema = tmp_path / "settings.toml"
    schema.write_text("[data.schema]\nlabels = [-1, 1]\nfeatures = 3\n")
    (tmp_path / "hosts").write_text("127.0.0.1\n" * 2)
    init = ("network", "init", "path:2", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
    assert admmnet(0, *init, "--port", str(free_ports(2))).code == 0
    network = str(tmp_path / "net" / "network.toml")
    # every host has its file elsewhere
    for i in range(2):
        (tmp_path / f"host-{i}").mkdir()
        (tmp_path / f"{i}.npz").rename(tmp_path / f"host-{i}" / f"{i}.npz")
    ends = together(
        [
            [
                *(str(schema), "--id", str(i), "--network", network, "--seed", "3", *COMMON, *PATIENT),
                *(
                    "--data",
                    str(tmp_path / f"host-{i}" / "{agent}.npz"),
                    "--test",
                    str(tmp_path / "test.npz"),
                ),
                *("-o", str(tmp_path / f"run-{i}")),
            ]
            for i in range(2)
        ]
    )
    assert [code for code, _ in ends] == [0, 0], ends
    assert model(tmp_path / "run-0")["theta"].tobytes() == model(tmp_path / "run-1")["theta"].tobytes()


def test_every_host_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1\n" * 2)
    init = ("network", "init", "path:2", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
    assert admmnet(0, *init, "--port", str(free_ports(2))).code == 0
    network = ("--network", str(tmp_path / "net" / "network.toml"))
    words = ("--algorithm", "pp-admm", "--seed", "3", *COMMON)
    quick = ("--checkpoint-every", "1", "--heartbeat-deadline", "2")
    begun = together(
        [["--id", str(i), *network, *words, *quick, "-o", str(tmp_path / str(i))] for i in range(2)],
        fault="kill:1:2",
    )
    assert [code for code, _ in begun] == [3, -9], begun
    gone_on = together(
        [["--id", str(i), *network, "--resume", str(tmp_path / str(i)), "--quiet"] for i in range(2)]
    )
    assert gone_on == [(0, "")] * 2
    assert admmnet(0, "run", *words, "--topology", "path:2", "-o", str(tmp_path / "local")).code == 0
    for i in range(2):
        assert read_run(tmp_path / str(i)).part == (i, 2)
        name = f"agent-00{i}.jsonl"
        assert ledgers(tmp_path / str(i))[name] == ledgers(tmp_path / "local")[name]
        assert model(tmp_path / str(i))["theta"].tobytes() == model(tmp_path / "local")["theta"].tobytes()
        assert (tmp_path / str(i) / "metrics.csv").read_bytes() == (
            tmp_path / "local" / "metrics.csv"
        ).read_bytes()


def test_frames_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = (
        "--transport",
        "zmq",
        "--algorithm",
        "admm",
        "--topology",
        "path:2",
        "--rounds",
        "3",
        "--seed",
        "0",
    )
    ended = admmnet(0, "run", *words, "--quiet", "-o", str(folder))
    assert ended.code == 0, ended.err
    frames = json.loads((folder / "summary.json").read_text())["frames"]
    assert set(frames) == {"early", "late", "duplicate", "gap", "foreign", "refused", "turned away"}
    assert frames["foreign"] == frames["refused"] == frames["turned away"] == 0
