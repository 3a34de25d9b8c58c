"""Agents on hosts of their own after a fault: they go on by themselves, and give what they would have given without."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.evidence.follow import Watcher
from admmnet.transport.hosts.network import read_network

from .launch import DEADLINE, Ended, Process, begin, here
from .test_everywhere import model
from .test_resume import KILLS, messages
from .test_zmq_run import assert_part, network_of
from .test_zmq_run_faults import people
from .zmq_crew import Proxy, free_ports, proxy_to

pytestmark = pytest.mark.processes
NONE = "none:9:0"
WORDS = ("--algorithm", "pp-admm", "--seed", "3", "--quiet")
PRIVATE = ("--algorithm", "pp-admm", "--epsilon", "20", "--delta", "1e-4", "--private", "--no-account")
QUIET = ("--no-test", "--quiet")
GOING_ON = "going on with the agents that are there"


class Hosts:
    """Agents of a network, every line of which goes through a proxy of its own; all that they say is logged."""

    module = "tests.processes.faulty_agent"

    def __init__(
        self, folder: Path, rounds: int, *words: str, graph: str = "path:3", plain: Sequence[str] = ()
    ) -> None:
        own = people(folder / "run")[: 2 if plain else 3]  # which a private run does not simulate
        self.folder, self.same = folder, (*(plain or WORDS), "--rounds", str(rounds), *own)
        self.words = (*self.same, "--heartbeat-deadline", "2", "--resume", "auto", *words)
        self.graph, self._files = graph, ExitStack()
        self.network = Path(network_of(folder, int(graph.split(":")[1]), graph=graph)[1])
        self.agents = len(read_network(self.network).peers)
        self.proxies: dict[tuple[int, int], Proxy] = {}
        self.processes: dict[int, Process] = {}

    def __enter__(self) -> Self:
        text, network = self.network.read_text(), read_network(self.network)
        ports = [peer.address.rpartition(":")[2] for peer in network.peers]
        for i in range(self.agents):  # addresses may differ from host to host
            own = text
            for j in network.neighbours(i):
                self.proxies[i, j] = self._files.enter_context(proxy_to(f"tcp://127.0.0.1:{ports[j]}", keep=False))
                own = own.replace(f':{ports[j]}"', f':{self.proxies[i, j].port}"')
            self.network.with_name(f"{i}.toml").write_text(own)
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()
        self._files.close()

    def line(self, i: int, j: int) -> list[Proxy]:
        return [self.proxies[i, j], self.proxies[j, i]]

    def cut(self, *edges: tuple[int, int]) -> None:
        for edge in edges:
            for proxy in self.line(*edge):
                proxy.cut()

    def mend(self, *edges: tuple[int, int]) -> None:
        for edge in edges:
            for proxy in self.line(*edge):
                proxy.mend()

    def start(self, agent: int, fault: str = NONE, *more: str) -> None:
        words = ["--id", str(agent), "--network", str(self.network.with_name(f"{agent}.toml")), *self.words]
        words += ["--secret", str(self.network.parent / "keys" / f"agent-00{agent}.secret.toml")]
        module = (sys.executable, "-m", self.module, "agent")
        own = {"ADMMNET_FAULT": fault, "ADMMNET_ARRIVED": self.folder / "arrived", "ADMMNET_LOG": self.folder}
        self.processes[agent] = begin(*module, *words, *more, "-o", str(self.folder / str(agent)), **own)

    def start_all(self, fault: str = NONE) -> None:
        for agent in range(self.agents):
            self.start(agent, fault)

    def ended(self, agent: int) -> tuple[int, str]:
        _, told = self.processes[agent].communicate(timeout=DEADLINE)
        return self.processes[agent].returncode, told

    def says(self, agent: int) -> str:
        """Next line that an agent says."""
        error = self.processes[agent].stderr
        assert error is not None
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(error.readline()), daemon=True)
        reader.start()
        reader.join(DEADLINE)
        return found[0] if found else ""

    def done(self, agent: int, rounds: int) -> None:
        """Wait until an agent has so many rounds behind it."""
        self.until((self.folder / str(agent) / "checkpoint" / f"{rounds:06d}").exists)

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + DEADLINE
        while not holds():
            assert time.monotonic() < until, [process.poll() for process in self.processes.values()]
            threading.Event().wait(0.01)

    def check(self) -> None:
        """Everybody has what a run in one process gives, charged once."""
        local = self.folder / "local"
        assert run_command_line(["run", *self.same, "--topology", self.graph, "-o", str(local)]) == 0
        for agent in range(self.agents):
            assert_part(self.folder / str(agent), local, agent, self.agents)

    def summaries(self, again: int = 0) -> dict[int, Any]:
        """Summaries of those that have finished; their folders verify, alone and beside each other.

        No round is charged twice, but for so many in which an agent died before its answer was on the disk.
        """
        found = {}
        for agent in range(self.agents):
            path = self.folder / str(agent) / "summary.json"
            if path.exists():
                found[agent] = json.loads(path.read_bytes())
        for agent in found:
            others = [word for j in found if j != agent for word in ("--against", str(self.folder / str(j)))]
            assert run_command_line(["ledger", "verify", str(self.folder / str(agent)), *others]) == 0
        models = {model(self.folder / str(agent))["theta"].tobytes() for agent in found}
        assert len(models) <= 1
        for agent in range(self.agents):
            for book in read_run(self.folder / str(agent)).ledgers.values():
                again -= book.count - len({(round, event.mechanism) for round, event, _ in book.events})
        assert again >= 0
        return found


class Logged(Hosts):
    """Agents that write down what they send."""

    module = "tests.processes.logged_agent"

    def killed(self, stream: np.random.Generator, most: int) -> int:
        """Kill agents at random instants, so many times at most, and start them again, until all have ended."""
        kills = 0
        while living := [agent for agent, process in self.processes.items() if process.poll() is None]:
            threading.Event().wait(float(stream.uniform(0.2, 2.5)))
            victim = int(stream.choice(living))
            if kills < most and self.processes[victim].poll() is None:
                self.processes[victim].kill()
                self.ended(victim)
                self.start(victim)
                kills += 1
        return kills

    def check_sent(self) -> None:
        """Whoever sends something twice sends the same bytes."""
        for agent in range(self.agents):
            said = {(round, vector) for round, _, vector in messages(self.folder / f"sent-{agent}.jsonl") if vector}
            assert len(said) == len({round for round, _ in said}) > 0


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("regroup", ["600", "1"])
def test_hosts_that_are_killed_at_random_instants_end_with_one_model(regroup: str, tmp_path: Path) -> None:
    """They are started again by the same command; the others wait for them, or go on without."""
    stream, kills, trial, enough = np.random.default_rng(KILLS), 0, 0, 2 if KILLS <= 6 else KILLS // 2
    words = ("--regroup-deadline", regroup, "--strikes", "1000", "--give-up", "15", "--linger", "5")
    while kills < enough:
        trial += 1
        folder = tmp_path / str(trial)
        folder.mkdir()
        with Logged(folder, 60, *words, graph="ring:4", plain=(*PRIVATE, *QUIET)) as hosts:
            hosts.start_all()
            own = hosts.killed(stream, min(8, enough - kills))
            ends = {agent: hosts.ended(agent) for agent in range(hosts.agents)}
            finished = [agent for agent, (code, _) in ends.items() if code in (0, 5)]
            assert len(finished) > hosts.agents // 2, ends
            for agent in ends.keys() - finished:  # the others have finished without it
                assert ends[agent][0] == 3, ends[agent]
                own_folder, other = (str(folder / str(i)) for i in (agent, finished[0]))
                assert run_command_line(["adopt", own_folder, "--from", other]) == 0
            assert hosts.summaries(own).keys() == {*range(hosts.agents)}
            hosts.check_sent()
        kills += own


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path, 40) as found:
        yield found


def test_the_others_wait_for_an_agent_that_was_killed(hosts: Hosts) -> None:
    hosts.start_all("kill:2:5")
    assert hosts.ended(2)[0] == -9
    assert all(GOING_ON in hosts.says(agent) for agent in (0, 1))
    hosts.start(2)
    assert [hosts.ended(agent) for agent in range(3)] == [(0, "")] * 3
    hosts.check()


def served(port: int, page: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
        content: bytes = answer.read()
    return content.decode()


def figures(port: int) -> dict[str, Any]:
    """What an agent serves at the moment."""
    found: dict[str, Any] = json.loads(served(port, "health"))
    return found


def test_an_agent_that_waits_is_seen_from_outside(hosts: Hosts, capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder is its own until it ends, in every start and between them; it serves figures all the time."""

    def watched() -> Ended:
        return here(capsys, "watch", str(folder), "--once")

    def waits() -> None:
        hosts.until(lambda: Watcher(folder).look().phase == "waiting")
        code, out, _ = watched()
        assert (code, "waiting for other agents" in out, "--resume" in out) == (0, True, False)
        assert here(capsys, "watch", str(folder), "--once", "--stale", "0").code == 3

    folder, (port,) = hosts.folder / "1", free_ports(1)
    os.mkfifo(hosts.folder / "arrived")
    for agent, fault, more in ((0, NONE, ()), (2, NONE, ()), (1, "hold:1:6", ("--metrics", str(port)))):
        hosts.start(agent, fault, *more)
    hosts.done(1, 6)
    hosts.until(lambda: figures(port)["round"] == 5)
    ledgers = [hosts.folder / str(agent) / "ledger" / f"agent-00{agent}.jsonl" for agent in range(3)]
    lines = [line for ledger in ledgers for line in ledger.read_bytes().splitlines() if b'"round":4,' in line]
    spent = max(json.loads(line)["total"]["epsilon_spent"] for line in lines)  # figures come every fourth round
    wanted = {"round": 5, "rounds": 40, "start": 1, "members": 3, "lines": 2, "lines_up": 2, "epsilon": spent}
    found = figures(port)
    assert {name: found[name] for name in wanted} == wanted
    page = dict(re.findall(r"^admmnet_([a-z_]+) (\S+)$", served(port, "metrics"), re.MULTILINE))
    assert {name: float(page[name]) for name in wanted} == wanted
    assert "running" in watched().out
    hosts.processes[2].kill()
    assert hosts.ended(2)[0] == -9
    os.close(os.open(hosts.folder / "arrived", os.O_WRONLY))
    waits()
    hosts.until(lambda: figures(port)["waiting_seconds"] >= 1)
    found = figures(port)
    assert (found["lines_up"], found["start"], found["members"]) == (1, 1, 3)

    hosts.processes[1].kill()
    assert hosts.ended(1)[0] == -9
    code, out, _ = watched()
    assert (code, f"go on with `--resume {folder}` at every agent" in out) == (3, True)
    hosts.start(1)
    waits()
    first = hosts.processes[1]
    hosts.start(1)  # nobody else may have the folder
    code, told = hosts.ended(1)
    assert (code, "is in use by another run" in told) == (2, True)
    hosts.processes[1] = first
    waits()


def test_a_network_that_was_parted_goes_on_when_the_line_is_mended(hosts: Hosts) -> None:
    hosts.start_all()
    hosts.done(0, 5)
    hosts.cut((0, 1))
    assert all(GOING_ON in hosts.says(agent) for agent in range(3))
    hosts.mend((0, 1))
    assert [hosts.ended(agent)[0] for agent in range(3)] == [0] * 3  # a word that came late may cost one start more
    hosts.check()


SOON = ("--regroup-deadline", "1", "--heartbeat-deadline", "1")


@pytest.mark.parametrize("account", [False, True])
def test_the_others_go_on_without_a_host_that_is_gone(account: bool, tmp_path: Path) -> None:
    """Four of five finish, with one model; what is left of their budgets is planned anew."""
    plain = [word for word in PRIVATE if word != "--no-account"]
    with Hosts(tmp_path, 8, *SOON, graph="ring:5", plain=(*plain, *QUIET)) as hosts:
        for agent in range(5):
            own = ("--account", str(tmp_path / f"account-{agent}")) if account else ("--no-account",)
            hosts.start(agent, "kill:2:3", *own)
        ends = [hosts.ended(agent)[0] for agent in range(5)]
        found = hosts.summaries()
    assert ends == [5, 5, -9, 5, 5]
    first = {agent: one["starts"][-1]["round"] for agent, one in found.items()}
    assert len(set(first.values())) == 1
    for agent, one in found.items():
        assert one["starts"][-1]["members"] == [0, 1, 3, 4]
        assert one["away"] == {"2": [f"{first[agent]}-7"]}
        # nothing was sent again
        assert f"the run was interrupted and went on from round {first[agent]}" in one["notes"]
        (book,) = read_run(tmp_path / str(agent)).ledgers.values()
        assert [start.round for start in book.changed] == [first[agent]]
    # it knows nothing of that start but what its members have signed
    assert run_command_line(["adopt", str(tmp_path / "2"), "--from", str(tmp_path / "0")]) == 0
    assert hosts.summaries().keys() == {*range(5)}


def test_a_host_that_is_gone_in_the_last_round_leaves_the_others_an_end(tmp_path: Path) -> None:
    """In the start that follows no round is left."""
    with Hosts(tmp_path, 4, *SOON, graph="ring:4", plain=(*PRIVATE, *QUIET)) as hosts:
        hosts.start_all("kill:2:3")
        ends = [hosts.ended(agent) for agent in range(4)]
        found = hosts.summaries()
    assert [code for code, _ in ends] == [5, 5, -9, 5], ends
    assert {one["starts"][-1]["round"] for one in found.values()} == {4}


def test_a_line_that_is_cut_for_good_costs_no_agent(tmp_path: Path) -> None:
    with Hosts(tmp_path, 8, *SOON, graph="ring:4") as hosts:
        hosts.start_all()
        hosts.done(0, 2)
        hosts.cut((0, 1))
        assert [hosts.ended(agent)[0] for agent in range(4)] == [0] * 4
        found = hosts.summaries()
    assert {tuple(one["starts"][-1]["members"]) for one in found.values()} == {(0, 1, 2, 3)}
    assert not any("away" in one for one in found.values())


@pytest.mark.skipif(os.environ.get("ADMMNET_LIES") != "all", reason="ADMMNET_LIES=all waits for those who give up")
def test_the_smaller_part_waits_and_gives_up(tmp_path: Path) -> None:
    """Two of five that are cut off for good end without a model, the others finish without them."""
    with Hosts(tmp_path, 8, *SOON, "--give-up", "6", graph="path:5") as hosts:
        hosts.start_all()
        hosts.done(0, 2)
        hosts.cut((1, 2))
        ends = [hosts.ended(agent) for agent in range(5)]
        found = hosts.summaries()
    assert [code for code, _ in ends] == [3, 3, 5, 5, 5]
    assert found.keys() == {2, 3, 4}
    assert all("3 of 5 agents must be there (--quorum)" in told for _, told in ends[:2])


def test_a_host_that_comes_back_takes_part_again(tmp_path: Path) -> None:
    """After ten rounds without it; all finish."""
    os.mkfifo(tmp_path / "arrived")
    with Hosts(tmp_path, 24, "--regroup-deadline", "5", graph="ring:4", plain=(*PRIVATE, *QUIET)) as hosts:
        log = tmp_path / "log"
        for agent, fault in ((0, "hold:0:18"), (1, NONE), (2, "kill:2:3"), (3, NONE)):
            hosts.start(agent, fault, "--log", f"{log}{agent}")
        assert hosts.ended(2)[0] == -9
        hosts.done(0, 14)
        hosts.start(2)
        hosts.until(lambda: all("asks to take part" in Path(f"{log}{agent}").read_text() for agent in (1, 3)))
        os.close(os.open(tmp_path / "arrived", os.O_WRONLY))
        assert [hosts.ended(agent)[0] for agent in range(4)] == [0] * 4
        found = hosts.summaries()
    assert all(one["starts"][-1]["members"] == [0, 1, 2, 3] for one in found.values())


@pytest.mark.parametrize("fault", [NONE, "broke:2:0"])
def test_who_can_afford_no_more_leaves_the_others_a_model(fault: str, tmp_path: Path) -> None:
    """While an agent is away, another run spends all that its account has left: it is silent, or no plan fits it."""
    os.mkfifo(tmp_path / "arrived")
    plain = (*(word for word in PRIVATE if word != "--no-account"), *QUIET)
    with Hosts(tmp_path, 24, "--regroup-deadline", "5", graph="ring:3", plain=plain) as hosts:
        own = [("--account", str(tmp_path / f"account-{agent}")) for agent in range(3)]
        for agent, first in enumerate(("hold:0:18", NONE, "kill:2:3")):
            hosts.start(agent, first, *own[agent], "--log", f"{tmp_path}/log{agent}")
        assert hosts.ended(2)[0] == -9
        if fault == NONE:
            other = ("run", *hosts.same, "--topology", "ring:3", *own[2], "-o", str(tmp_path / "other"))
            assert run_command_line([*other]) == 0
        hosts.done(0, 14)
        hosts.start(2, fault, *own[2])
        hosts.until(lambda: "asks to take part" in (tmp_path / "log1").read_text())
        os.close(os.open(tmp_path / "arrived", os.O_WRONLY))
        ends = [hosts.ended(agent) for agent in range(3)]
        found = hosts.summaries()
    broke = fault != NONE
    assert [code for code, _ in ends] == ([5, 5, 4] if broke else [0, 0, 0]), ends
    members = [[len(start["members"]) for start in found[agent]["starts"]] for agent in (0, 1)]
    assert members == [[3, 2, 3, 2] if broke else [3, 2, 3]] * 2
    assert broke or all(one["per_agent"][2]["refused_at"] == one["starts"][-1]["round"] for one in found.values())


@pytest.mark.parametrize("accounts", [0, 1])
def test_two_gathers_stand_before_the_first_round(tmp_path: Path, accounts: int) -> None:
    """Records, whether all are ready, with accounts what is left: each takes as long as a word through the network."""
    plain = [word for word in PRIVATE if word != "--no-account"]
    with Logged(tmp_path, 2, *SOON, plain=(*plain, *QUIET)) as hosts:
        for agent in range(3):
            own = ("--account", str(tmp_path / "account")) if agent < accounts else ("--no-account",)
            hosts.start(agent, NONE, *own)
        assert [hosts.ended(agent)[0] for agent in range(3)] == [0] * 3
    for agent in range(3):
        gathers = (tmp_path / f"gathers-{agent}").read_text().split()
        assert gathers.count("0") == 2 + accounts
        assert len(gathers) > 2


def test_who_had_no_part_in_an_end_does_not_wait_for_ever(tmp_path: Path) -> None:
    """Two end without the third; one of them is gone before it has its last files. The others find no majority."""
    words = ("--round-deadline", "3", "--give-up", "8")
    with Hosts(tmp_path, 4, *SOON, *words, graph="ring:3", plain=(*PRIVATE, *QUIET)) as hosts:
        for agent, fault in enumerate((NONE, "end-kill:1:0", "kill:2:1")):
            hosts.start(agent, fault)
        assert [hosts.ended(agent)[0] for agent in (2, 1)] == [-9, -9]
        hosts.start(2)
        ends = [hosts.ended(agent) for agent in (0, 2)]
        assert not hosts.summaries()
    assert [code for code, _ in ends] == [3, 3], ends
    assert any("`admmnet adopt`" in told for _, told in ends), ends
    assert "without this agent, which takes them once most have signed" in ends[1][1]


def test_who_says_that_it_waits_for_ever_is_struck_out(tmp_path: Path) -> None:
    """Agent 0 does its part no more, and waits, as it says: no honest agent is lost by that."""
    words = ("--round-deadline", "2", "--strikes", "1", "--give-up", "20")
    with Hosts(tmp_path, 6, *SOON, *words, graph="ring:5") as hosts:
        hosts.start_all("stall:0:2")
        ends = [hosts.ended(agent)[0] for agent in range(1, 5)]
        found = hosts.summaries()
    assert ends == [5] * 4
    assert all(one["starts"][-1]["members"] == [1, 2, 3, 4] for one in found.values())
