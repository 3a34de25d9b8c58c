"""What is decided before the first round, and what a run that goes on, or another host, is held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet import RequestError, RunConfig, run
from admmnet.data.given import Given
from admmnet.data.settings import DataSettings
from admmnet.running.entrance import prepare
from admmnet.running.handshake import public_settings
from admmnet.running.rounds import Rounds
from admmnet.transport.local import LocalWorld


def test_a_budget_is_of_an_agent_that_there_is(people: str) -> None:
    how: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:3", "rounds": 1, "seed": 0, "data": people}
    prepare(RunConfig(budgets={"2": {"epsilon": 0.5}}, **how), LocalWorld())
    with pytest.raises(RequestError, match=r"\[privacy.agents.3\]: the agents are numbered 0 to 2"):
        prepare(RunConfig(budgets={"3": {"epsilon": 0.5}}, **how), LocalWorld())


def test_delta_is_chosen_for_a_promise_alone(people: str) -> None:
    for algorithm, chosen in (("admm", False), ("pp-admm", True)):
        plan = prepare(RunConfig(algorithm=algorithm, topology="ring:3", rounds=1, seed=0, data=people), LocalWorld())
        assert (plan.config.delta != "auto") is chosen


def test_a_file_on_one_disk_is_known_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,0\n")
    config = RunConfig(data="{agent}.csv", test=str(tmp_path / "t.csv"), simulate=True)
    assert public_settings(config, digests=False)["test"] == str(tmp_path / "t.csv")
    assert public_settings(config)["test"].startswith("a file with sha256 ")


def test_shards_of_own_agents_tell_no_scales() -> None:
    """Other processes have other rows: what is read from these would be one agent's own."""
    X, y = np.arange(12.0).reshape(4, 3) + 1.0, np.array([-1, 1, -1, 1])
    settings = DataSettings(data="arrays", split="shards", no_test=True, normalise="columns", data_dependent=True)
    whole = Given("arrays", own={0: (X, y), 1: (X, y)})
    assert set(whole.load(settings, 2, [0]).shards) == {0}
    with pytest.raises(RequestError, match="--normalise columns"):
        replace(whole, whole=False).load(settings, 2, [0, 1])


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"algorithm": "pp-admm"}, 4), ({"algorithm": "noisy-gd", "trust": "masked", "colluders": 1}, 6)],
    ids=["pp-admm", "masked"],
)
def test_processes_gather_seldom_before_the_first_round(
    settings: dict[str, Any], most: int, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gather costs a flood, as many delays as the network is wide, before anything is computed."""
    real, before = LocalWorld.gather, list[int]()

    def gather(self: LocalWorld, value: Any, topic: str = "ready") -> list[Any]:
        before.append(0)
        return real(self, value, topic)

    def first(self: Rounds, round: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalWorld, "gather", gather)
    monkeypatch.setattr(Rounds, "run", first)
    with pytest.raises(KeyboardInterrupt):
        run(data=people, topology="ring:4", rounds=2, seed=0, out=tmp_path / "run", **settings)
    assert len(before) == most
