"""What went otherwise than planned in a run, in plain words."""

from __future__ import annotations

from admmnet.errors import counted
from admmnet.report.html.facts import AgentFacts, RunFacts
from admmnet.report.html.words import promise_of


def incidents(run: RunFacts) -> list[str]:
    """Return what went otherwise than planned: an unfinished, resumed or partial run, lost and refused agents."""
    found = []
    if run.part is not None:
        found.append(
            f"This folder is the part of agent {run.part[0]}, one of {run.part[1]}. It has its own ledger and no "
            "other: what the others spent is in their own folders."
        )
    if not run.finished:
        found.append(
            "The run is unfinished: there is no summary.json. What the ledgers hold was spent. Without digests, "
            "lines cut whole from the end, and ledgers of the last agents that are missing, cannot be noticed."
        )
    torn = sum(book.account is not None and book.account.torn for book in run.books)
    if torn:
        found.append(
            f"The last line of {counted(torn, 'ledger')} is cut off, as a crash leaves it. It counts for nothing: a "
            "message is sent only when its charge stands whole on the disk."
        )
    resumed = sorted({round_ for book in run.books for round_, _ in book.resumes})
    if resumed:
        found.append(
            f"The run was interrupted and went on from round {', '.join(map(str, resumed))}. Rounds that were "
            "computed again have been charged again, because their noise is new; both charges are in the totals."
        )
    return [*found, *_lost(run), *_far(run), *_refused(run)]


def _lost(run: RunFacts) -> list[str]:
    lost = [agent for agent in run.agents if agent.lost_at is not None]
    if not lost:
        return []
    here = sum(agent.proven for agent in lost)
    ledgers = (
        "What they spent is in their own ledgers, which are not in this folder."
        if not here
        else f"{counted(here, 'ledger')} of lost agents here, read up to the last whole line. summary.json leaves "
        "their privacy figures out; this page counts them."
    )
    promise = promise_of(run)
    sure = promise.proven and promise.claimed is None and not run.seeded and not run.faults
    kept = " Their promise stands, whatever the others did." if sure else ""
    return [f"Lost on the way: {_listed(lost, 'lost_at')}. {ledgers}{kept}"]


def _far(run: RunFacts) -> list[str]:
    far = run.said("far_from_others")
    names = sorted(int(name) for name in far if name.isdecimal()) if isinstance(far, dict) else []
    if not names:
        return []
    shown = ", ".join(f"agent {name}" for name in names[:8]) + (f", and {len(names) - 8} more" if names[8:] else "")
    return [
        f"Far from the others: {shown}. The vectors that they sent in the last round stand much further from the "
        "middle than the others do. They err or lie, or their records are unlike the others'."
    ]


def _refused(run: RunFacts) -> list[str]:
    refused = [agent for agent in run.agents if agent.refused_at is not None]
    if not refused:
        return []
    return [
        f"The budget refused: {_listed(refused, 'refused_at')}. From then on these agents drew nothing new from "
        "their records. This is the budget at work, no fault."
    ]


def _listed(agents: list[AgentFacts], key: str) -> str:
    shown = [f"agent {agent.agent} in round {getattr(agent, key)}" for agent in agents[:8]]
    return ", ".join(shown) + ("" if len(agents) <= 8 else f", and {len(agents) - 8} more")
