"""Lines that are cut, and relays that stop, move or are new: all finish, nobody is struck for what a cable did."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.people_runs import write_people

from .relayed import NONE, PRIVATE, QUIET, SEEDED, Hosts
from .test_resume import Crew

pytestmark = pytest.mark.processes
OPEN = (*PRIVATE, *QUIET)
FAULTS = NONE, NONE, "kill:2:3", "hang:3:6", NONE
STRICT = ("--strikes", "1")
"""Whoever is struck is out."""


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def all_finish(hosts: Hosts, *, quietly: bool = False) -> None:
    ends = hosts.all_ended()
    assert [code for code, _ in ends] == [0] * hosts.agents, ends
    assert not hosts.kept().out
    assert not quietly or {told for _, told in ends} == {""}


@pytest.mark.parametrize("seconds", [1.5, 4.0])
def test_all_lines_are_cut_at_once(seconds: float, tmp_path: Path) -> None:
    """For longer than half the heartbeat deadline, or twice that."""
    with Hosts(tmp_path, 40, *STRICT, graph="ring:5") as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        for proxy in hosts.proxies:
            proxy.cut()
        wait(seconds)
        assert hosts.processes[0].poll() is None
        for proxy in hosts.proxies:
            proxy.mend()
        all_finish(hosts)
        hosts.check()


def test_a_line_that_is_cut_for_long_is_a_strike(tmp_path: Path) -> None:
    """The one that may be the last: the others go on, and its agent hears why."""
    with Hosts(tmp_path, 12, "--regroup-deadline", "1", *STRICT, graph="ring:4", words=OPEN) as hosts:
        with hosts.held():
            hosts.proxies[2].cut()
            hosts.logged('"out"')
        hosts.proxies[2].mend()
        ends = hosts.all_ended()
        assert [code for code, _ in ends] == [5, 5, 3, 5], ends
        assert "cannot be reached" in ends[2][1]
        assert hosts.kept().out.keys() == {2}
        assert hosts.summaries().keys() == {0, 1, 3}


def test_a_partition(tmp_path: Path) -> None:
    """Two of five are away for some seconds: three go on, and all finish together."""
    with Hosts(tmp_path, 60, "--regroup-deadline", "1", graph="ring:5", words=OPEN, delay=0.02) as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        for agent in (1, 2):
            hosts.proxies[agent].cut()
        hosts.logged('"members": 3')
        wait(1.0)
        for agent in (1, 2):
            hosts.proxies[agent].mend()
        all_finish(hosts)
        assert hosts.summaries().keys() == {*range(5)}


def test_a_line_that_flaps(tmp_path: Path) -> None:
    """Ten times, each as soon as it stands again, while its agent sends and hears."""
    with Hosts(tmp_path, 80, *STRICT, graph="ring:4", delay=0.01) as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        for again in range(1, 11):
            hosts.proxies[1].cut()
            hosts.proxies[1].mend()
            hosts.logged("the line of agent 1 stands", 1 + again)
        assert hosts.processes[0].poll() is None
        all_finish(hosts, quietly=True)
        hosts.check()


@pytest.mark.parametrize("heartbeat", ["20", "2"])
def test_a_line_that_flaps_while_its_agent_computes(heartbeat: str, tmp_path: Path) -> None:
    """It sees all of it afterwards; its line stands, so nobody holds it against it, however long it computes."""
    with Hosts(tmp_path, 12, *STRICT, "--heartbeat-deadline", heartbeat, graph="ring:4") as hosts:
        with hosts.held():
            for _ in range(10):
                hosts.proxies[1].cut()
                hosts.proxies[1].mend()
                wait(0.2)
        all_finish(hosts, quietly=True)
        hosts.check()


def test_a_relay_that_is_stopped_for_a_while_holds_it_against_nobody(tmp_path: Path) -> None:
    with Hosts(tmp_path, 40, *STRICT, graph="ring:4") as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        hosts.processes[-1].send_signal(signal.SIGSTOP)
        wait(3.0)
        assert hosts.processes[0].poll() is None
        hosts.processes[-1].send_signal(signal.SIGCONT)
        all_finish(hosts)
        hosts.check()


@pytest.mark.parametrize("words", [SEEDED, OPEN], ids=["seeded", "private"])
def test_a_relay_that_moves(words: tuple[str, ...], tmp_path: Path) -> None:
    """It is killed, and begins anew at another address with another key; agents are told by their network files."""
    with Hosts(tmp_path, 40, *STRICT, words=words) as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        hosts.kill(-1)
        hosts.move()
        hosts.start_relay()
        all_finish(hosts)
        if words is SEEDED:
            hosts.check()
        assert hosts.summaries().keys() == {0, 1, 2}


def test_two_agents_that_are_late_and_a_new_relay(tmp_path: Path) -> None:
    """The relay dies, too, while they are dead; the new one waits for them."""
    with Hosts(tmp_path, 40, graph="ring:5", words=OPEN) as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        for agent in (1, 2):
            hosts.kill(agent)
        hosts.logged("start-ended")
        hosts.kill(-1)
        (tmp_path / "relay.log").unlink()
        hosts.start_relay()
        for agent in (0, 3, 4):
            hosts.logged(f"the line of agent {agent} stands")
        for agent in (1, 2):
            hosts.start(agent)
        all_finish(hosts)
        assert hosts.summaries().keys() == {*range(5)}


def test_agents_are_called_by_their_names(tmp_path: Path) -> None:
    """By the relay and by each other: one is killed, another one hangs."""
    named = ("--names", "oslo,lyon,bonn,rome,kyiv")
    more = ("--regroup-deadline", "1", "--round-deadline", "2", *STRICT)
    with Hosts(tmp_path, 12, *more, graph="ring:5", words=OPEN, init=named) as hosts:
        os.mkfifo(tmp_path / "arrived")
        reader = os.open(tmp_path / "arrived", os.O_RDWR)
        for agent, (name, fault) in enumerate(zip(named[1].split(","), FAULTS, strict=True)):
            hosts.start(agent, fault, "--id", name)
        ends = [hosts.ended(agent) for agent in (0, 1, 4)]
        os.close(reader)
        assert [code for code, _ in ends] == [5] * 3
        log = (tmp_path / "relay.log").read_text()
        for name in ("agent 2 (bonn)", "agent 3 (rome)"):
            assert f"the line of {name} stands" in log
            assert any(name in one and "it is its fault number 1" in one for one in log.splitlines()), log
            assert all(name in told for _, told in ends), ends


BUDGET = ("--features", "4", "--epsilon", "100", "--delta", "1e-4", "--no-account", *QUIET)
METHODS = {
    "pp-admm": ("--algorithm", "pp-admm"),
    "masked": ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1"),
}
ENCODED = "--encode", "private", "--whiten", "on"


class Logged(Hosts):
    def module(self, agent: int) -> str:
        return "tests.processes.logged_agent"


@pytest.mark.parametrize("more", [("--whiten", "off"), ENCODED], ids=["plain", "encoded"])
@pytest.mark.parametrize("method", METHODS)
def test_few_words_to_all_before_round_0(method: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """Each costs two delays of the slowest line; a run of some rounds over the sea should not be made of them."""
    with Logged(tmp_path, 3, graph="ring:4", words=(*METHODS[method], *more, *BUDGET)) as hosts:
        hosts.start_all()
        all_finish(hosts)
        assert 1 <= gathers_before(tmp_path) <= 5


def gathers_before(log: Path) -> int:
    """How many gathers came before the figures of round 0, at all agents of a log the same."""
    said = [(log / f"gathers-{agent}").read_text().splitlines() for agent in range(4)]
    assert said == [said[0]] * 4
    return [word.split()[1] for word in said[0]].index("rows")


@pytest.mark.parametrize("ranks", [0, 4], ids=["zmq", "mpirun"])
@pytest.mark.parametrize(
    ("words", "most"),
    [(SEEDED, 5), (OPEN, 5), ((*METHODS["masked"], *BUDGET), 11)],
    ids=["simulation", "private", "masked"],
)
def test_few_gathers_before_round_0_of_one_command(
    words: tuple[str, ...], most: int, ranks: int, tmp_path: Path
) -> None:
    own = ["--data", write_people(tmp_path / "people.npz"), "--topology", "ring:4", "--rounds", "2"]
    own += ["--out", str(tmp_path / "run"), *(() if ranks else ("--transport", "zmq"))]
    crew = Crew(tmp_path, "run", *words, *own, ranks=ranks)
    assert crew.ended() == 0, crew.told
    assert 1 <= gathers_before(tmp_path) <= most
