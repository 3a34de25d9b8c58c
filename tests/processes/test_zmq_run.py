"""Agents started one by one over ZeroMQ, each with a run folder of its own: the same numbers as in one process."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.record.file_forms import PartFile
from tests.people_runs import write_people

from . import launch
from .launch import admmnet
from .test_everywhere import ledgers, model
from .zmq_crew import free_ports

pytestmark = pytest.mark.processes
SEEDED = ("--algorithm", "pp-admm", "--seed", "3", "--rounds", "4", "--quiet")


def start_all(agents: list[list[str]], fault: str | None = None) -> list[tuple[int, str]]:
    """Exit codes and errors of agents that are started at once; one may have a fault (``faulty_agent``)."""
    module = "admmnet" if fault is None else "tests.processes.faulty_agent"
    commands = [[sys.executable, "-m", module, "agent", *words] for words in agents]
    return [(ended.code, ended.err) for ended in launch.start_all(commands, ADMMNET_FAULT=fault or "")]


def in_folders(folder: Path, agents: Sequence[int], *words: str, fault: str | None = None) -> list[tuple[int, str]]:
    """Start agents with the same words, each with the folder of its number."""
    return start_all([["--id", str(i), *words, "-o", str(folder / str(i))] for i in agents], fault)


def network_of(folder: Path, agents: int, *plain: str, graph: str = "") -> tuple[str, str]:
    """Flag of the network file of agents on this machine: a path, or another graph."""
    (folder / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(agents)))
    init = ["network", "init", graph or f"path:{agents}", "--hosts", str(folder / "hosts"), "-o", str(folder / "net")]
    assert run_command_line([*init, *plain]) == 0
    return "--network", str(folder / "net" / "network.toml")


def seeded(folder: Path) -> tuple[str, ...]:
    """Words of a seeded run on a few people."""
    return (*SEEDED, "--data", write_people(folder / "people.npz"))


def local_run(folder: Path, agents: int) -> Path:
    """Folder of the same seeded run in one process."""
    assert run_command_line(["run", *seeded(folder), "--topology", f"path:{agents}", "-o", str(folder / "local")]) == 0
    return folder / "local"


def assert_part(folder: Path, local: Path, agent: int, agents: int) -> None:
    """Hold an agent's own folder against that of the run in one process."""
    name = f"agent-00{agent}.jsonl"
    assert set(ledgers(folder)) == {name}
    assert ledgers(folder)[name] == ledgers(local)[name]
    assert (folder / "metrics.csv").read_bytes() == (local / "metrics.csv").read_bytes()
    assert model(folder)["theta"].tobytes() == model(local)["theta"].tobytes()
    assert json.loads((folder / "part.json").read_text()) == {"agent": agent, "agents": agents}
    part = read_run(folder)
    assert part.part == PartFile(agent=agent, agents=agents)
    assert part.summary is not None
    assert len(part.summary["per_agent"]) == agents
    assert run_command_line(["ledger", "verify", str(folder)]) == 0


def test_under_mpirun_it_is_refused_once(tmp_path: Path) -> None:
    ended = admmnet(2, "run", "--quiet", "--transport", "zmq", "-o", str(tmp_path / "run"))
    assert ended.code == 2
    assert len(ended.messages) == 1
    assert "leave out mpirun" in ended.messages[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Network file in ``net``, and the folders of three agents that were started one by one."""
    folder = tmp_path_factory.mktemp("three")
    words = (*network_of(folder, 3), *seeded(folder), "--heartbeat-deadline", "20")
    assert in_folders(folder, (2, 0, 1), *words) == [(0, "")] * 3
    return folder


def test_agents_started_one_by_one(finished: Path, tmp_path: Path) -> None:
    local = local_run(tmp_path, 3)
    for i in range(3):
        assert_part(finished / str(i), local, i, 3)
        assert (finished / str(i) / "config.toml").is_file()


def test_agents_that_only_dial_end_a_private_run_with_all_figures(tmp_path: Path) -> None:
    """Agents 0 and 2 have no address. Figures travel while rounds go on, and all have all of them in the end."""
    (tmp_path / "hosts").write_text(f"out\n127.0.0.1:{free_ports(1)[0]}\nout\n")
    init = ["network", "init", "path:3", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net")]
    assert run_command_line(init) == 0
    words = ["--network", str(tmp_path / "net" / "network.toml"), "--data", write_people(tmp_path / "people.npz")]
    words += ["--algorithm", "pp-admm", "--epsilon", "5", "--no-account", "--no-test", "--rounds", "6"]
    words += ["--measure-every", "2", "--quiet"]
    assert in_folders(tmp_path, range(3), *words) == [(0, "")] * 3
    told = [(tmp_path / str(i) / "metrics.csv").read_text() for i in range(3)]
    assert told[0] == told[1] == told[2]
    lines = [line.split(",") for line in told[0].splitlines()[1:]]
    assert [(line[0], line[1]) for line in lines] == [(str(t), str(i)) for t in (0, 2, 4, 5) for i in (-1, 0, 1, 2)]
    assert all(int(line[3]) == int(line[0]) + 1 for line in lines if line[1] != "-1")  # releases
    assert len({model(tmp_path / str(i))["theta"].tobytes() for i in range(3)}) == 1


def test_a_ledger_that_its_owner_rolled_back_is_found_by_its_neighbours(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = "--network", str(finished / "net" / "network.toml")
    folders = [str(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in range(3)]
    others = [word for folder in folders[1:] for word in ("--against", folder)]
    assert run_command_line(["ledger", "verify", folders[0], *others, *network]) == 0
    assert "12 receipts agree with those of 2 other folders" in capsys.readouterr().out
    for name in ("summary.json", "manifest.json"):
        (tmp_path / "1" / name).unlink()
    ledger = tmp_path / "1" / "ledger" / "agent-001.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-3]))
    assert run_command_line(["ledger", "verify", folders[1]]) == 0  # by itself it looks like an interrupted run
    assert run_command_line(["ledger", "verify", folders[0], "--against", folders[1]]) == 1
    error = capsys.readouterr().err
    assert str(ledger) in error
    assert "it was cut or rolled back" in error
    stranger = network_of(tmp_path, 3)
    assert run_command_line(["ledger", "verify", folders[0], *stranger]) == 1
    assert "the key of agent 0 is none that" in capsys.readouterr().err


def test_agents_with_different_settings_refuse_each_other(tmp_path: Path) -> None:
    network = network_of(tmp_path, 2)
    words = (*network, *seeded(tmp_path), "--heartbeat-deadline", "20")
    ends = start_all(
        [["--id", str(i), *words, "--epsilon", str(i + 1), "-o", str(tmp_path / str(i))] for i in range(2)]
    )
    for i, (code, error) in enumerate(ends):
        assert code == 2, error
        assert error.count("admmnet: ") == 1
        assert all(word in error for word in ("epsilon", "1.0", "2.0"))
        assert not (tmp_path / str(i)).exists()


def test_an_agent_that_claims_more_records_than_it_is_allowed_is_named(tmp_path: Path) -> None:
    network = network_of(tmp_path, 2)
    file = Path(network[1])
    head, first, second = file.read_text().split("[[agents]]\n")
    file.write_text("[[agents]]\n".join([head, "records = 100000\n" + first, "records = 10\n" + second]))
    for code, error in in_folders(tmp_path, range(2), *network, *seeded(tmp_path)):
        assert code == 2, error
        assert "agent 1 claims" in error
        assert "more than the 10 that the network file allows it" in error
    assert not (tmp_path / "0").exists()


def test_every_host_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    network, local = network_of(tmp_path, 2), local_run(tmp_path, 2)
    quick = (*network, *seeded(tmp_path), "--checkpoint-every", "1", "--heartbeat-deadline", "2", "--strikes", "0")
    begun = in_folders(tmp_path, range(2), *quick, fault="kill:1:2")
    assert [code for code, _ in begun] == [3, -9], begun
    resumed = [["--id", str(i), *network, "--resume", str(tmp_path / str(i)), "--quiet"] for i in range(2)]
    assert start_all(resumed) == [(0, "")] * 2
    for i in range(2):
        assert_part(tmp_path / str(i), local, i, 2)
