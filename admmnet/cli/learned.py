"""What is said of a network ledger."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from admmnet.errors import RequestError
from admmnet.privacy.network.account import extremes
from admmnet.record.network import Found, Network
from admmnet.record.verdict import ModeFacts

SIMULATED = "in this simulation, as if links were encrypted"


def numbers_in(text: str) -> tuple[int, ...]:
    """Agents of ``I:J``; RequestError if it is anything else."""
    try:
        return tuple(int(part) for part in text.split(":")) if text else ()
    except ValueError:
        raise RequestError(f"--observers {text}: give numbers of agents, such as 0:3") from None


def said_of(network: Network | str) -> Iterator[str]:
    """Conditions under which the figures hold."""
    if not isinstance(network, str):
        simulated = f"; {SIMULATED}" if network.transport == "local" else ""
        yield f"{network.theorem}; needs encrypted links and --show end{simulated}"
        yield "budgets and verdicts use the epsilon of everybody together (docs/network-ledger.md)"


def facts_of(network: Network | str, found: Found | None, mode: ModeFacts | None) -> dict[str, Any]:
    """What everybody together learns, and what some agents alone do, of every set and agent."""
    how = {} if mode is None else {"mode": mode.mode, "seeded": mode.seeded}
    if isinstance(network, str) or found is None:
        return how | {"network": None, "reason": network}
    whole = extremes(found.learned)
    return how | {
        "theorem": network.theorem,
        "transport": network.transport,
        "everybody": {"epsilon": network.everybody},
        "sets": found.sets,
        "all_sets": found.whole,
        "epsilon_worst": whole.worst,
        "epsilon_mean": whole.mean,
        "epsilon_strangers": whole.strangers,
        "epsilon_neighbours": whole.neighbours,
        "mu_share_mean": fmean(one.share for one in found.learned),
        "pairs": [one._asdict() for one in found.learned],
    }
