"""Plans of the published forms, entered by public facts of agents whose graph has no part in them but degrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx

from admmnet import RunConfig
from tests.planned import Planned, decided


class Degrees(nx.Graph):  # type: ignore[misc]  # networkx has no types
    """Agents of given degrees, whether or not any edges could have them; for what depends on degrees alone."""

    def __init__(self, degrees: Sequence[int]) -> None:
        super().__init__()
        self.add_nodes_from(range(len(degrees)))
        self.degrees = degrees

    def degree(self, agent: int) -> int:
        """|B_i|."""
        return self.degrees[agent]


class PublishedAgent(NamedTuple):
    """Public facts of an agent of a published form, and its budget."""

    records: int
    degree: int
    epsilon: float
    delta: float


def published(agents: Sequence[PublishedAgent], settings: RunConfig, of: int = 5) -> tuple[float, list[Planned]]:
    """Regularisation of the problem and the noise of every agent; the last stands ``of`` agents in all."""
    everyone = [*agents, *[agents[-1]] * (of - len(agents))]
    budgets = {str(i): {"epsilon": own.epsilon, "delta": own.delta} for i, own in enumerate(everyone)}
    settings = settings.changed(budgets=budgets, method="published")
    graph = Degrees([own.degree for own in everyone])
    method, plans = decided(settings, [own.records for own in everyone], graph)
    return float(method.settings.regularisation), plans[: len(agents)]
