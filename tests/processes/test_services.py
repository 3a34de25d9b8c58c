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

from admmnet.cli import run_command_line
from tests.doc_pages import ROOT, blocks
from tests.people_runs import summary_of

from .launch import start_all
from .proxy import free_port
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


def replaced(word: str, places: dict[str, Any]) -> str:
    for path, place in sorted(places.items(), reverse=True):
        if word == path or word.startswith(f"{path}/"):
            return f"{place}{word.removeprefix(path)}"
    return word.replace("%i", str(places.get("%i", "%i")))


def test_sites_run_a_network_by_the_units_and_by_containers(tmp_path: Path) -> None:
    """Agent 0 by its unit's command, the others by those of the containers, with loopback for the address.

    Folders stand for mounts: what is mounted where is read from the file.
    """
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    net, address = tmp_path / "net", f"127.0.0.1:{free_port()}"
    made = ["network", "init", "ring:5", "--relay", address, "--names", ",".join(NAMES), "-o", str(net)]
    assert run_command_line(made) == 0
    (settings,) = blocks(ROOT / "docs" / "hosts.md", "toml")
    commands, runs = [], []
    for name, own in content["services"].items():
        i, words = name.removeprefix("agent-"), own["command"]
        site, state = tmp_path / f"site-{i}", tmp_path / f"state-{i}"
        for folder in (site / "net", site / "own", state):
            folder.mkdir(parents=True)
        shutil.copy(net / "network.toml", site / "net")
        (site / "net" / "settings.toml").write_text(settings)
        (secret,) = own["secrets"]
        key = site / Path(content["secrets"][secret["source"]]["file"]).name
        shutil.copy(net / "keys" / key.name, key)
        places: dict[str, Any] = {f"/run/secrets/{secret['target']}": key}
        for mount in own["volumes"]:
            source, path = mount.split(":")[:2]
            places[path] = tmp_path / source.removeprefix("../")
        if i == "relay":
            by_unit = shlex.split(unit(RELAY)["ExecStart"])
            assert [w for w in by_unit if w[:2] == "--"] == [w for w in words if w[:2] == "--"]
        else:
            people(site / "own" / "patients.csv", seed=int(i))
            (state / "own").symlink_to(places["/state/own"])
            runs.append(state / (f"run-{NAMES[0]}" if i == "0" else "run"))
        if i == "0":
            _, *words = shlex.split(unit(AGENT)["ExecStart"])
            places = {"%i": NAMES[0], "%d/key": key, "/etc/admmnet": site / "net", "${METRICS}": "127.0.0.1:0"}
        done = [replaced(word, places) for word in words]
        commands.append(["env", "-C", str(state), sys.executable, "-m", "admmnet", *done])
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    relay, *ends = start_all(commands, PYTHONPATH=path)
    assert relay.code == 0
    for i, (end, folder) in enumerate(zip(ends, runs, strict=True)):
        assert end.code == 0, end.err
        assert '"event": "finished"' in end.out.splitlines()[-1]
        assert run_command_line(["ledger", "verify", str(folder), "--require", "private"]) == 0
        summary = summary_of(folder)
        assert (summary["mode"], summary["seeded"], summary["per_agent"][i]["records"]) == ("private", False, 60)
        assert {entry["test_error"] for entry in summary["per_agent"]} == {None}
        assert [*(folder.parent / "account").glob("agent-*.jsonl")] == [folder.parent / f"account/agent-{i:03d}.jsonl"]
    check = [replaced(word, {"/state": tmp_path / "state-3"}) for word in content["x-agent"]["healthcheck"]["test"]]
    assert check[:3] == ["CMD", "admmnet", "watch"]
    assert run_command_line(check[2:]) == 0
    again = start_all([commands[1]], PYTHONPATH=path)[0]  # as after a reboot: there is nothing left to do
    assert (again.code, again.out) == (0, "")
