"""Links that either end opens: one line that stands is enough, whoever has dialled it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_zmq_faults import counts
from .test_zmq_lines import between
from .zmq_crew import Crew, deadlines, proxy_to

pytestmark = pytest.mark.processes
STAR = [[0, 1], [0, 2]]


def test_an_agent_that_only_dials_takes_part(tmp_path: Path) -> None:
    """Agents 1 and 2 have no address; the line of agent 1 is cut and comes back, from its side alone."""
    own = {1: {"acts": {"2": [["wait"]], "4": [["wait"]]}}}
    crew = Crew(tmp_path, STAR, 3, curve=True, own=own, rounds=8, deadlines=deadlines(heartbeat=20.0))
    with crew, proxy_to(crew.spec["addresses"]["0"], keep=False) as proxy:
        crew.spec["addresses"] |= {"1": "", "2": ""}
        crew.spec["own"]["1"]["addresses"] = {"0": proxy.address}
        crew.start().said(1, "waiting")
        proxy.cut()
        crew.members[1].tell()
        proxy.mend()
        crew.said(1, "waiting", 2)
        crew.goes_on(1)
        for rank in range(3):
            assert len(crew.members[rank].said("round")) == 8


def test_a_firewall_at_one_side_is_no_matter(tmp_path: Path) -> None:
    with between(tmp_path, {}, curve=True, rounds=8) as (crew, proxies):
        proxies[0].close()
        crew.start().all_end_well()
        assert not proxies[0].tapes
        assert counts(crew, 1) == {}


@pytest.mark.parametrize(("how", "heartbeat"), [("cut", 20.0), ("swallow", 6.0)])
def test_one_line_of_a_link_may_fail_for_good(how: str, heartbeat: float, tmp_path: Path) -> None:
    """First one, then the other in its place: the link lasts, and nothing is lost or used twice."""
    acts = {"2": [["wait"]], "5": [["wait"]]}
    limits = deadlines(heartbeat=heartbeat)
    with between(tmp_path, acts, curve=True, rounds=8, deadlines=limits) as (crew, proxies):
        crew.start()
        for time, failing in enumerate((0, 1), start=1):
            crew.said(1, "waiting", time)
            if time == 2:
                proxies[0].swallow = False
                proxies[0].mend()
                known = len(proxies[0].tapes)
                if how == "cut":
                    proxies[0].carried(lambda tapes, known=known: len(tapes) > known and len(tapes[-1][1]) > 400)  # type: ignore[misc]
            if how == "cut":
                proxies[failing].cut()
            else:
                proxies[failing].swallow = True
            crew.members[1].tell()
        crew.all_end_well()
        for rank in (0, 1):
            assert len(crew.members[rank].said("round")) == 8


def test_where_neither_end_is_reached_the_firewall_is_named(tmp_path: Path) -> None:
    with between(tmp_path, {}, curve=True, deadlines=deadlines(connect=2.0)) as (crew, proxies):
        for proxy in proxies:
            proxy.close()
        assert set(crew.start().finish().values()) == {3}
        for rank in (0, 1):
            assert f"agent {1 - rank} at " in crew.error(rank)
            assert (
                "nobody answers there and it has not dialled here: not started yet, or the firewall there or here"
                in (crew.error(rank))
            )
