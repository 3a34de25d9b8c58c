"""Lines that are cut, and relays that stop, move or are new: all finish, nobody is struck for what a cable did."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from .places import ENCODED, FEW, MASKED, Place, words_of
from .relayed import NONE, PRIVATE, QUIET, Hosts, going

pytestmark = pytest.mark.processes
OPEN = (*PRIVATE, *QUIET)
STRICT = ("--strikes", "1")
"""Whoever is struck is out."""


def test_all_lines_are_cut_at_once(tmp_path: Path) -> None:
    """For twice the heartbeat deadline."""
    with going(tmp_path, 40, *STRICT, graph="ring:5") as hosts:
        for proxy in hosts.proxies:
            proxy.cut()
        time.sleep(4.0)
        assert hosts.processes[0].poll() is None
        for proxy in hosts.proxies:
            proxy.mend()


def test_a_line_that_is_cut_for_long_is_a_strike(tmp_path: Path) -> None:
    """The one that may be the last: the others go on, and its agent hears why."""
    with Hosts(tmp_path, 12, "--regroup-deadline", "1", *STRICT, graph="ring:4", words=OPEN) as hosts:
        with hosts.held():
            hosts.proxies[2].cut()
            hosts.logged('"out"')
        hosts.proxies[2].mend()
        assert hosts.codes() == [5, 5, 3, 5]
        assert "cannot be reached" in hosts.ended(2)[1]
        assert hosts.kept().out.keys() == {2}
        assert hosts.summaries().keys() == {0, 1, 3}


def test_a_partition(tmp_path: Path) -> None:
    """Two of five are away for some seconds: three go on, and all finish together."""
    with going(tmp_path, 60, "--regroup-deadline", "1", graph="ring:5", words=OPEN, delay=0.02) as hosts:
        for agent in (1, 2):
            hosts.proxies[agent].cut()
        hosts.logged('"members": 3')
        time.sleep(1.0)
        for agent in (1, 2):
            hosts.proxies[agent].mend()


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
        hosts.finish(quietly=True)


def test_a_line_that_flaps_while_its_agent_computes(tmp_path: Path) -> None:
    """It sees all of it afterwards; lines stand, so nobody holds it against it, however long it computes."""
    with Hosts(tmp_path, 12, *STRICT, graph="ring:4") as hosts:
        with hosts.held():
            for again in range(10):
                for proxy in hosts.proxies if again == 5 else hosts.proxies[1:2]:
                    proxy.cut()
                    proxy.mend()
                time.sleep(0.2)
        hosts.finish(quietly=True)


def test_a_relay_that_is_stopped_for_a_while_holds_it_against_nobody(tmp_path: Path) -> None:
    with going(tmp_path, 40, *STRICT, graph="ring:4") as hosts:
        hosts.processes[-1].send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        assert hosts.processes[0].poll() is None
        hosts.processes[-1].send_signal(signal.SIGCONT)


def test_a_relay_that_moves(tmp_path: Path) -> None:
    """It is killed, and begins anew at another address with another key; agents are told by their network files."""
    with going(tmp_path, 40, *STRICT, words=OPEN) as hosts:
        hosts.kill(-1)
        hosts.move()
        hosts.start_relay()


def test_two_agents_that_are_late_and_a_new_relay(tmp_path: Path) -> None:
    """The relay dies, too, while they are dead; the new one waits for them."""
    with going(tmp_path, 40, graph="ring:5", words=OPEN) as hosts:
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


def test_agents_are_called_by_their_names(tmp_path: Path) -> None:
    """By the relay and by each other: the process of one is stopped, another one hangs, and its line stands."""
    names = ("oslo", "lyon", "bonn", "rome", "kyiv")
    more = ("--regroup-deadline", "1", "--round-deadline", "2", *STRICT)
    with Hosts(tmp_path, 12, *more, graph="ring:5", words=OPEN, init=("--names", ",".join(names))) as hosts:
        for agent, name in enumerate(names):
            hosts.start(agent, {2: "stop:2:3", 3: "hang:3:6"}.get(agent, NONE), "--id", name)
        ends = [hosts.ended(agent) for agent in (0, 1, 4)]
        assert [code for code, _ in ends] == [5] * 3
        log = (tmp_path / "relay.log").read_text()
        for name in ("agent 2 (bonn)", "agent 3 (rome)"):
            assert f"the line of {name} stands" in log
            assert any(name in one and "it is its fault number 1" in one for one in log.splitlines()), log
            assert all(name in told for _, told in ends), ends


ENCODED_SUMS = (*MASKED, *ENCODED, "--features", "4", "--epsilon", "100", "--delta", "1e-4", "--no-account", *QUIET)


@pytest.mark.parametrize("words", [OPEN, ENCODED_SUMS], ids=["plain", "encoded and masked"])
def test_few_words_to_all_before_round_0(words: tuple[str, ...], tmp_path: Path) -> None:
    """Each costs two delays of the slowest line; a run of some rounds over the sea should not be made of them."""
    with Hosts(tmp_path, 3, graph="ring:4", words=words) as hosts:
        hosts.start_all()
        hosts.finish()
    assert 1 <= gathers_before(tmp_path, 4) <= 5


def gathers_before(log: Path, agents: int) -> int:
    """How many gathers came before the figures of round 0, at all agents of a log the same."""
    said = [(log / f"gathers-{agent}").read_text().splitlines() for agent in range(agents)]
    assert said == [said[0]] * agents
    return said[0].index("rows")


@pytest.mark.parametrize(("more", "most"), [((), 5), (MASKED, 7)], ids=["plain", "masked"])
def test_few_gathers_before_round_0_of_one_command(more: tuple[str, ...], most: int, tmp_path: Path) -> None:
    words = words_of(tmp_path, "pp-admm", *more, *FEW, "--topology", "ring:3", "--epsilon", "100")
    place = Place(tmp_path, "run", *words, transport="mpi", account=False)
    assert place.run().code == 0
    assert 1 <= gathers_before(place.log, 3) <= most
