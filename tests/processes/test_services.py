"""The units of systemd and the containers of launch/: what they start is a network that finishes."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.transport.hosts.keys import read_secret
from tests.doc_pages import ROOT, blocks

from .launch import DEADLINE, begin, start_all
from .proxy import free_ports
from .test_documented_commands import people

pytestmark = pytest.mark.processes
LAUNCH = ROOT / "launch"
AGENT, RELAY, COMPOSE = LAUNCH / "admmnet@.service", LAUNCH / "admmnet-relay.service", LAUNCH / "compose.yaml"
NAMES = ["north", "south", "east", "west", "centre"]


def unit(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return dict(parser["Service"])


def services() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return content


def test_the_units_start_again_what_may_go_on() -> None:
    agent, relay = unit(AGENT), unit(RELAY)
    wanted = {"Restart": "on-failure", "RestartPreventExitStatus": "2 4", "SuccessExitStatus": "5"}
    wanted |= {"StateDirectory": "admmnet", "ProtectSystem": "strict", "KillSignal": "SIGTERM"}
    assert {name: agent[name] for name in wanted} == wanted
    own = {"StateDirectory", "WorkingDirectory", "LoadCredential", "ExecStart", "RestartPreventExitStatus"}
    assert {name: relay[name] for name in relay if agent.get(name) != relay[name] and name not in own} == {
        "LimitNOFILE": "65536"
    }
    assert agent.keys() - relay.keys() == {"SuccessExitStatus", "Environment"}


def test_a_credential_of_systemd_is_no_open_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--relay", "127.0.0.1:7001", "-o", str(tmp_path / "net")]
    assert run_command_line(["network", "init", "path:2", *words]) == 0
    key = tmp_path / "net" / "keys" / "agent-000.secret.toml"
    key.chmod(0o440)  # its access list names the service's user
    with pytest.raises(ValueError, match="is open to other users"):
        read_secret(key, 0)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(key.parent))
    assert read_secret(key, 0).public
    key.chmod(0o444)
    with pytest.raises(ValueError, match="is open to other users"):
        read_secret(key, 0)


def test_sites_run_a_network_by_the_units_and_by_containers(tmp_path: Path) -> None:
    """Agent 0 by its unit's command, the others by those of the containers, with loopback for the address.

    Folders stand for mounts: what is mounted where is read from the file.
    """
    content = services()
    (port,) = free_ports(1)
    net = tmp_path / "net"
    words = ["--relay", f"127.0.0.1:{port}", "--names", ",".join(NAMES), "-o", str(net)]
    assert run_command_line(["network", "init", "ring:5", *words]) == 0
    (settings,) = blocks(ROOT / "docs" / "hosts.md", "toml")
    commands, runs = [], []
    for name, own in content["services"].items():
        i = name.removeprefix("agent-")
        site, state = tmp_path / f"site-{i}", tmp_path / f"state-{i}"
        for folder in (site / "net", site / "own", state):
            folder.mkdir(parents=True)
        shutil.copy(net / "network.toml", site / "net")
        (site / "net" / "settings.toml").write_text(settings)
        key = site / ("relay.secret.toml" if i == "relay" else f"agent-00{i}.secret.toml")
        shutil.copy(net / "keys" / key.name, key)
        (secret,) = own["secrets"]
        places: dict[str, Any] = {
            f"/run/secrets/{secret['target']}": tmp_path / Path(content["secrets"][secret["source"]]["file"]).name
        }
        places = {path: site / place.name for path, place in places.items()}
        for mount in own["volumes"]:
            source, path = mount.split(":")[:2]
            places[path] = tmp_path / source.removeprefix("../")
        words = own["command"]
        by_unit = i == "0"
        if i == "relay":
            relay_by_unit = shlex.split(unit(RELAY)["ExecStart"])
            assert [w for w in relay_by_unit if w[:2] == "--"] == [w for w in words if w[:2] == "--"]
        if i != "relay":
            people(site / "own" / "patients.csv", seed=int(i))
            (state / "own").symlink_to(places["/state/own"])
            runs.append(state / (f"run-{NAMES[0]}" if by_unit else "run"))
        if by_unit:
            _, *words = shlex.split(unit(AGENT)["ExecStart"])
            places = {"%i": NAMES[0], "%d/key": key, "/etc/admmnet": site / "net", "${METRICS}": "127.0.0.1:0"}
        done = [replaced(word, places) for word in words]
        commands.append(["env", "-C", str(state), sys.executable, "-m", "admmnet", *done])
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    relay = begin(*commands.pop(0), PYTHONPATH=path)
    try:
        ends = start_all(commands, PYTHONPATH=path)
        relay.communicate(timeout=DEADLINE)
    finally:
        relay.kill()
    assert relay.returncode == 0
    for i, (end, folder) in enumerate(zip(ends, runs, strict=True)):
        assert end.code == 0, end.err
        assert '"event": "finished"' in end.out.splitlines()[-1]
        assert run_command_line(["ledger", "verify", str(folder), "--require", "private"]) == 0
        summary = read_run(folder).summary
        assert summary is not None
        assert summary["per_agent"][i]["records"] == 60
    check = [replaced(word, {"/state": tmp_path / "state-3"}) for word in content["x-agent"]["healthcheck"]["test"]]
    assert check[:3] == ["CMD", "admmnet", "watch"]
    assert run_command_line(check[2:]) == 0
    again = start_all([commands[0]], PYTHONPATH=path)[0]  # as after a reboot: there is nothing left to do
    assert (again.code, again.out) == (0, "")


def replaced(word: str, places: dict[str, Any]) -> str:
    for path, place in sorted(places.items(), reverse=True):
        if word == path or word.startswith(f"{path}/"):
            return f"{place}{word.removeprefix(path)}"
    return word.replace("%i", str(places.get("%i", "%i")))
