"""Agents on hosts of their own: whoever fails, they go on by themselves, and nobody is stuck or has another model."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from admmnet import read_run

from .places import MASKED
from .relayed import GOING_ON, NONE, PRIVATE, QUIET, SEEDED, Hosts

pytestmark = pytest.mark.processes
SOON = ("--regroup-deadline", "1")
OPEN = (*PRIVATE, *QUIET)


SUMS = (*SEEDED[2:], *MASKED)


@pytest.mark.parametrize(("graph", "words"), [("path:3", SEEDED), ("ring:4", SUMS)], ids=["vectors", "masked sums"])
def test_the_others_wait_for_an_agent_that_was_killed(graph: str, words: tuple[str, ...], tmp_path: Path) -> None:
    with Hosts(tmp_path, 12, graph=graph, words=words) as hosts:
        hosts.start_all("kill:2:5")
        assert hosts.codes(2) == [-9]
        hosts.logged("start-ended")
        hosts.start(2)
        assert all(GOING_ON in hosts.ended(agent)[1] for agent in (0, 1))
        hosts.finish()


def test_a_black_hole_is_noticed(tmp_path: Path) -> None:
    """Lines stand and carry nothing."""
    with Hosts(tmp_path, 8, *SOON, graph="ring:4") as hosts:
        hosts.start_all()
        hosts.done(0, 2)
        hosts.proxies[2].swallow = True
        assert hosts.codes(0, 1, 3) == [5] * 3
        assert hosts.summaries().keys() == {0, 1, 3}


@pytest.mark.parametrize("regroup", ["600", "1"])
def test_hosts_that_are_killed_at_random_instants_end_with_one_model(regroup: str, tmp_path: Path) -> None:
    """And the relay, too; they are started again by the same command. Others wait for them, or soon do not."""
    stream, kills = np.random.default_rng(int(os.environ.get("SEED", "6"))), 0
    more = ("--regroup-deadline", regroup, "--strikes", "1000")
    with Hosts(tmp_path, 60, *more, graph="ring:4", words=OPEN) as hosts:
        hosts.start_all()
        while kills < 6 and (living := [agent for agent in range(4) if hosts.processes[agent].poll() is None]):
            threading.Event().wait(float(stream.uniform(0.2, 2.0)))
            victim = int(stream.choice([*living, -1]))
            if hosts.processes[victim].poll() is None:
                hosts.kill(victim)
                hosts.start(victim)
                kills += 1
        assert {*hosts.codes()} <= {0, 5}
        assert hosts.summaries().keys() == {*range(4)}


class Dying(Hosts):
    """Agent 2 dies at a write before the first round, while the others have opened their ledgers."""

    def own(self, agent: int) -> dict[str, str]:
        return {"ADMMNET_CRASH": "kill:15:2"} if agent == 2 else {}


def test_a_host_that_dies_before_the_first_round_changes_no_header(tmp_path: Path) -> None:
    with Dying(tmp_path, 4, "--regroup-deadline", "1", words=OPEN) as hosts:
        hosts.start_all()
        assert hosts.codes() == [5, 5, -9]


def test_the_others_go_on_without_a_host_that_is_gone(tmp_path: Path) -> None:
    """Four of five finish, with one model; what is left of their budgets is planned anew. The fifth takes it later."""
    with Hosts(tmp_path, 8, *SOON, graph="ring:5", words=OPEN) as hosts:
        hosts.start_all("kill:2:3")
        assert hosts.codes() == [5, 5, -9, 5, 5]
        found = hosts.summaries()
        (first,) = {one["starts"][-1]["round"] for one in found.values()}
        for agent, one in found.items():
            assert one["starts"][-1]["members"] == [0, 1, 3, 4]
            assert one["away"] == {"2": [f"{first}-7"]}
            (book,) = read_run(tmp_path / str(agent)).ledgers.values()
            assert [start.round for start in book.changed] == [first]
        hosts.start(2)
        assert hosts.codes(2) == [5]
        assert hosts.summaries().keys() == {*range(5)}
        assert hosts.ended(-1) == (0, "")


def test_a_host_that_is_gone_in_the_last_round_leaves_the_others_an_end(tmp_path: Path) -> None:
    with Hosts(tmp_path, 4, *SOON, graph="ring:4", words=OPEN) as hosts:
        hosts.start_all("kill:2:3")
        assert hosts.codes() == [5, 5, -9, 5]
        assert {one["starts"][-1]["round"] for one in hosts.summaries().values()} == {4}


def test_a_host_that_comes_back_takes_part_again(tmp_path: Path) -> None:
    """After ten rounds without it; all finish."""
    with Hosts(tmp_path, 24, "--regroup-deadline", "5", graph="ring:4", words=OPEN) as hosts:
        for agent, fault in enumerate(("hang:0:18", NONE, "kill:2:3", NONE)):
            hosts.start(agent, fault)
        assert hosts.ended(2)[0] == -9
        hosts.done(0, 14)
        hosts.start(2)
        hosts.logged("has come back")
        (hosts.arrived / "go").touch()
        hosts.finish()
        assert all(one["starts"][-1]["members"] == [0, 1, 2, 3] for one in hosts.summaries().values())


def test_who_says_that_it_waits_for_ever_is_struck_out(tmp_path: Path) -> None:
    """Agent 0 does its part no more, and waits, as it says: the relay knows that it has all it waits for."""
    with Hosts(tmp_path, 6, *SOON, "--round-deadline", "2", "--strikes", "1", graph="ring:5") as hosts:
        hosts.start_all("stall:0:2")
        assert hosts.codes(1, 2, 3, 4) == [5] * 4
        assert all(one["starts"][-1]["members"] == [1, 2, 3, 4] for one in hosts.summaries().values())
        code, told = hosts.ended(0)
        assert (code, "the others go on without agent 0" in told) == (3, True)


@pytest.mark.parametrize(("how", "victim"), [("kill", 0), ("full", 2)])
@pytest.mark.parametrize("point", range(4))
def test_whoever_fails_in_the_last_moment(how: str, victim: int, point: int, tmp_path: Path) -> None:
    """At every point of the end, if it gives its files to all or not: it is started again, and all finish."""
    with Hosts(tmp_path, 3, words=OPEN) as hosts:
        hosts.start_all(f"end-{how}:{victim}:{point}")
        code, told = hosts.ended(victim)
        assert code == (0 if how == "full" and point == 3 else 3 if how == "full" else -9), told
        hosts.start(victim)
        hosts.finish()


def test_the_end_is_there_for_who_comes_much_later(tmp_path: Path) -> None:
    """Also from a relay that was started again, and when nobody else is there."""
    with Hosts(tmp_path, 3, words=OPEN) as hosts:
        hosts.start_all("end-kill:2:0")
        assert hosts.codes() == [0, 0, -9]
        hosts.kill(-1)
        for place in (-1, 2):
            hosts.start(place)
        hosts.finish()


def test_too_few_for_an_end_go_on_together(tmp_path: Path) -> None:
    """Two of three are killed as their last files are due: the third one waits for them, and all end again."""
    with Hosts(tmp_path, 3, words=OPEN) as hosts:
        for agent in range(3):
            hosts.start(agent, f"end-kill:{agent}:0" if agent else NONE)
        assert hosts.codes(1, 2) == [-9, -9]
        for agent in (1, 2):
            hosts.start(agent)
        hosts.finish()


def test_an_agent_with_other_settings_is_refused_and_the_others_wait(tmp_path: Path) -> None:
    """Before a start: it is told the names, and begins anew with the right ones."""
    with Hosts(tmp_path, 4) as hosts:
        for agent in range(3):
            hosts.start(agent, NONE, *(("--eta", "0.9") if agent == 2 else ()))
        code, told = hosts.ended(2)
        assert (code, "agent 2 was given another eta than most" in told) == (2, True)
        hosts.start(2)
        hosts.finish(quietly=True)
        assert hosts.ended(-1) == (0, "")


def test_of_two_agents_with_different_settings_none_is_right(tmp_path: Path) -> None:
    with Hosts(tmp_path, 4, graph="path:2") as hosts:
        for agent in range(2):
            hosts.start(agent, NONE, *(("--eta", "0.9") if agent else ()))
        ends = hosts.all_ended()
        assert [(code, "was given another eta than others" in told) for code, told in ends] == [(2, True)] * 2


def test_who_does_not_come_is_named(tmp_path: Path) -> None:
    with Hosts(tmp_path, 4, "--connect-deadline", "2") as hosts:
        for agent in range(2):
            hosts.start(agent)
        ends = [hosts.ended(agent) for agent in range(2)]
        assert [(code, "agent 2 has not come" in told) for code, told in ends] == [(3, True)] * 2
