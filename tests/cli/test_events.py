"""--log and --metrics: what they say of a run, what they must not say, and that they are in no run's way."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from admmnet import RequestError, RoundEvent, run
from admmnet.log import HEARERS, Hearer, Waiting, say
from admmnet.running.metrics import FIGURES, Metrics
from tests.command_runs import Admmnet
from tests.people_runs import small

SMALL = ("run", "--topology", "ring:4", "--algorithm", "pp-admm", "--rounds", "3", "--epsilon", "20", "--quiet")
KEYS = ["time", "level", "event", "run", "agent", "start", "round", "text"]


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_log_tells_a_run_from_its_start_to_its_end(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    log, words = tmp_path / "log", (*SMALL, "--data", people, "--seed", "0", "-o", tmp_path / "run")
    admmnet.ok(*words, "--log", log, "--log-level", "debug")
    told = events(log)
    assert [(one["event"], one["round"]) for one in told] == [
        *(("start", 0), ("round", 0), ("round", 1), ("round", 2), ("finished", 2))
    ]
    for one in told:
        assert list(one)[:8] == KEYS
        assert (one["run"], one["agent"], one["start"]) == (str(tmp_path / "run"), None, 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["time"])
    assert (told[0]["members"], told[0]["rounds"]) == (4, 3)
    assert HEARERS == []
    private = ("--private", "--no-test", "--no-account", "-o", tmp_path / "two", "--log", log)
    admmnet.ok(*words[:-4], *private)  # behind the earlier one
    assert [one["event"] for one in events(log)[5:]] == ["start", "finished"]
    admmnet.ok(*words[:-4], *private[:-3], tmp_path / "three", "--log", log, "--log-level", "debug")
    rounds = [set(one) - set(KEYS) for one in events(log)[7:] if one["event"] == "round"]
    assert rounds == [{"rounds", "epsilon", "releases", "away"}] * 3  # a private run tells public figures


def test_an_error_is_told_without_what_was_read_and_no_path_of_a_key(tmp_path: Path, admmnet: Admmnet) -> None:
    log = tmp_path / "log"
    (tmp_path / "rows.csv").write_text("a,sick\n" + "1,0\nsecretive,1\n" * 20, encoding="utf-8")
    schema = 'label = "sick"\nlabels = ["0", "1"]\n[columns.a]\nkind = "numeric"\nlow = 0\nhigh = 9\n'
    (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
    words = (*SMALL, "--data", tmp_path / "rows.csv", "--schema", tmp_path / "schema.toml", "--private")
    admmnet.refused(*words, "--encode", "declared", "--no-test", "--no-account", "--log", log)
    (error,) = events(log)
    assert (error["event"], error["level"], error["code"]) == ("error", "error", 2)
    assert "rows.csv is not as declared" in error["text"]
    assert "secretive" not in log.read_text()
    admmnet.ok("network", "init", "path:2", "--relay", "127.0.0.1:7001", "-o", tmp_path / "net")
    key = tmp_path / "net/keys/agent-000.secret.toml"
    key.chmod(0o644)
    agent = ("agent", "--id", "0", "--network", tmp_path / "net/network.toml", "--log", tmp_path / "other")
    assert str(key) in admmnet.refused(*agent)
    assert not (tmp_path / "other").exists()


def test_a_full_disk_ends_no_run_and_is_told_once(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = (*SMALL, "--data", people, "--seed", "0", "-o", tmp_path / "run")
    code, _, err = admmnet(*words, "--log", "/dev/full", "--log-level", "debug")
    assert code == 0
    assert err == "admmnet: warning: --log /dev/full takes no more, as on a full disk; the run goes on\n"


def test_what_cannot_be_opened_is_refused_before_anything_is_made(tmp_path: Path, admmnet: Admmnet) -> None:
    words = (*SMALL, "--seed", "0", "-o", tmp_path / "run")
    assert "--log" in admmnet.refused(*words, "--log", tmp_path / "no" / "log")
    remedy = "give [HOST:]PORT with a port that is free"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = admmnet.refused(*words, "--metrics", taken.getsockname()[1])
    assert said.endswith(f"nothing can listen there: Address already in use; {remedy}\n")
    for text in ("", "host", "127.0.0.1:", ":70000", "nowhere.invalid:80"):
        with pytest.raises(RequestError, match=re.escape(remedy)):
            Metrics(text)
    assert not (tmp_path / "run").exists()


def get(metrics: Metrics, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{metrics.server_address[1]}{path}", timeout=10) as answer:
        content: bytes = answer.read()
    return content.decode()


def test_figures_of_a_run_that_goes_on_are_served(people: str, tmp_path: Path) -> None:
    pages: list[tuple[str, dict[str, Any], RoundEvent]] = []
    metrics = Metrics("0")
    metrics.live = lambda: {"lines_up": 2, "frames": {"late": 3, "gap": 0}}

    def ask(event: RoundEvent) -> None:
        pages.append((get(metrics, "/metrics"), json.loads(get(metrics, "/health")), event))

    silent = socket.create_connection(("127.0.0.1", int(metrics.server_address[1])))
    with Hearer(metrics.take, "debug"), silent:  # who asks and says nothing holds nobody up
        socket.create_connection(("127.0.0.1", int(metrics.server_address[1]))).close()
        run(small(people, tmp_path / "run", seed=0), on_round=ask)
        metrics.close()
    assert metrics.latest["round"] == 2
    for text, health, event in pages:
        values = dict(re.findall(r"^admmnet_(\S+) (\S+)$", text, re.MULTILINE))
        assert float(values["round"]) == event.round == health["round"]
        assert float(values["epsilon"]) == max(event.epsilon.values()) == health["epsilon"]
        assert (values["rounds"], values["members"], values["lines_up"]) == ("3", "4", "2")
        assert values['frames_total{verdict="late"}'] == "3"
        assert health["run"] == str(tmp_path / "run")
        described = re.findall(r"^# TYPE admmnet_(\S+?)(?:_total)? (?:gauge|counter)$", text, re.MULTILINE)
        assert set(described) == set(health) - {"run"} <= set(FIGURES)


def test_a_wait_is_told_of_every_thirty_seconds() -> None:
    told: list[dict[str, Any]] = []
    waiting = Waiting()
    with Hearer(told.append, "info", agent=4):
        say("start", "begins", run="r", start=2, round=7)
        for now in (101.0, 129.0, 130.5, 159.0, 191.0):
            waiting.look(100.0, now, ["agent 1", "agent 3"])
        waiting.look(300.0, 331.0, ["agent 1"])
    assert [one.get("seconds") for one in told] == [None, 30, 91, 31]
    assert told[1]["text"] == "waiting for agent 1, agent 3 for 30 s"
    assert (told[1]["agent"], told[1]["start"], told[1]["round"], told[1]["level"]) == (4, 2, 7, "warning")
    assert waiting.since == 300.0
