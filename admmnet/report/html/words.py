"""Plain words on what a run promises, what it spent, and what nobody promises (docs/privacy.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from admmnet.config.defaults import is_loose, own_delta
from admmnet.errors import counted
from admmnet.record.format import count, epsilon, percent
from admmnet.record.values import at
from admmnet.report.html.facts import RunFacts

RELEASED: Mapping[str, str] = {
    "objective-perturbation": "minimiser of an objective with Gaussian noise in it",
    "gaussian": "value with Gaussian noise",
    "discrete-gaussian": "sum over records on an integer grid with discrete Gaussian noise",
    "above-threshold": "start of a held noisy threshold: all its silences",
    "laplace": "comparison with Laplace noise",
    "gamma-norm": "minimiser of an objective with K(a) noise in it",
    "subsampled-gaussian": "all Gaussian steps on sampled batches",
    "gamma-norm-vector": "vector with K(a) noise",
    "none": "vector made of released vectors alone",
    "unprotected": "function of the records, without noise",
}
"""What was released, by mechanism (docs/ledger.md)."""
Said = Iterator[tuple[str, str]]
"""Headings and paragraphs."""


def certainty(epsilon: float, delta: float) -> float:
    """Largest share of right guesses between two equally likely candidates under (epsilon, delta).

    Half of 1 + (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), from the definition at both orders of the two.
    """
    tail = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * tail) / (1.0 + tail))


def meaning(run: RunFacts) -> Said:
    """What the epsilon means, as pairs of a heading and a paragraph."""
    if not run.series.private:
        yield (
            "No privacy",
            f"This run had no privacy. {run.header['algorithm']} uses the records without noise: its messages and "
            "its model may reveal any record. No epsilon describes it. Its errors serve for "
            "comparison with private runs, and for nothing that concerns privacy.",
        )
        return
    privacy, masked = run.verdict.privacy, run.header.get("trust") == "masked"
    yield "The guarantee", _promise(run)
    if privacy.epsilon_proven is not None and privacy.delta is not None:
        yield _odds(privacy.epsilon_proven, privacy.delta, run)
    yield f"Relation: {run.header['adjacency']}", RELATIONS[run.header["adjacency"]]
    parts = [UNIT, *[TRUST] * masked, ODOMETER, *[MANY] * (len(run.agents) > 1)]
    yield from [*parts, ALONE if run.header.get("account") is None else ACCOUNT]


def _promise(run: RunFacts) -> str:
    privacy, seeded = run.verdict.privacy, run.series.seeded
    claim = ""
    if privacy.accountant == "published":
        claim = (
            "The budget was kept by the arithmetic of the published paper. Parts of that do not hold: it is a "
            "claim without a proof. "
        )
    if privacy.epsilon_proven is None:
        return claim + "Nothing is proven of the worst case of this run."
    whose = "whatever can be seen of this run"
    if not run.series.baseline:
        whose = f"for every agent, {whose}, all messages, silences and refusals, not their timing,"
    quote = "The epsilon proven for the worst case is the figure to quote, with its delta."
    if seeded:
        quote = "Of this run itself, quote no epsilon as a protection."
    elif run.header["mode"] == "simulation":
        quote = "The training figures of a simulation are not covered."
    return (
        f"{claim}{'Of the same run with secret noise, fixed' if seeded else 'Fixed'} before the first round: {whose} "
        f"{'would be' if seeded else 'is'} ({'proven epsilon' if claim else 'epsilon'}, delta)-differentially private "
        f"in {'the' if run.series.baseline else 'its'} records. A filter kept it in every round: it drew nothing "
        f"that did not fit. It holds within the limits under Not covered. {quote} Each agent's own stands in the table."
    )


def _odds(bound: float, delta: float, run: RunFacts) -> tuple[str, str]:
    factor = f" = {epsilon(math.exp(bound))}" if bound < 20.0 else ""
    share = certainty(bound, delta)
    guess = f"at most {percent(math.ceil(1e4 * share) / 1e4)}" if share < 0.9999 else "more than 99.99%"
    replace = run.header["adjacency"] == "replace-one"
    change = "is exchanged for any other possible one" if replace else "is left without effect"
    weak = " So far up, the bound alone rules out almost nothing; how hard a real attack is, it does not say."
    return (
        "What that means",
        f"If one record {change}, anything that can be seen becomes more or less probable by a factor of at most "
        f"e^epsilon{factor}, but for a part of probability delta = {epsilon(delta)}. To someone who knows all other "
        f"records, and for whom two cases were equally likely before, this bound leaves {guess} right guesses; "
        f"without the run it is 50%.{weak if share > 0.98 else ''}",
    )


RELATIONS = {
    "replace-one": "Two data sets are neighbours if one record of one agent is exchanged for another possible record. "
    "The number of records is the same in both, and public.",
    "zero-out": "Two data sets are neighbours if the row and label of one record become zero, so that it has no "
    "effect. The number of records is the same in both, and public. This is weaker than replace-one: to exchange a "
    "record takes two such steps, which can cost up to twice the epsilon, and a delta (1 + e^epsilon) times as large. "
    "Do not set it beside a replace-one figure without saying so.",
}
UNIT = (
    "Unit: a record",
    "What is protected is one record, not a person. A person with k records, at one agent or at several, pays for all "
    "of them together: k^2 times the rho. Records that depend on each other tell about each other.",
)
TRUST = (
    "Two epsilons: whom an agent trusts",
    "The agents hid their sums from each other by masks, and shared the noise. The first epsilon holds as long as the "
    "masks' cryptography (X25519, HMAC-SHA256, ChaCha20) does and no more agents work together than it says. Else each "
    "agent's own noise is left: the second epsilon rests on no cryptography and no trust. Quote both.",
)
ODOMETER = (
    "Guarantee and spending",
    "Epsilon spent so far is the cost of all events, added up from the ledgers. How many events there were "
    "can depend on the records, so the reading is a diagnostic and no guarantee.",
)
MANY = (
    "Many agents",
    "The agents' records are disjoint. A record is in one agent's charge alone, so the network's epsilon is the "
    "largest of the agents', not their sum.",
)
ALONE = (
    "Other runs on the same records",
    "The ledgers begin at zero. What other runs, trials and settings tried on the same records have cost is not in "
    "them, and comes on top.",
)
ACCOUNT = (
    "An account over several runs",
    "The run continued the agents' accounts: the budget spans all the runs in them, and epsilon spent on this page is "
    "this run's share alone. The accounts lie outside the run folder and were not verified here: admmnet account show "
    "DIR.",
)


def uncovered(run: RunFacts) -> Iterator[str]:
    """What no epsilon on the page covers."""
    if run.said("data", "test") != 0:
        yield (
            "Test records are taken to be public. Every error on this page was measured on them, at no "
            "cost. A setting chosen by test error was fitted to them."
        )
    if any(agent.account.header["preprocessing"] == "data-dependent" for agent in run.agents):
        yield (
            "Preprocessing was data-dependent: categories, bounds or scales were read from the records themselves, "
            "or values decided which agent holds a record. These values are in the model, and no budget covers them."
        )
    else:
        yield (
            "Preprocessing used public bounds, by the ledgers' headers. That the bounds are public, and were not "
            "found in the records, is taken on trust."
        )
    if run.series.private:
        yield from _large_delta(run)
        yield from _lasting(run)


def _large_delta(run: RunFacts) -> Iterator[str]:
    own = own_delta([one.records for one in run.said("per_agent") or run.agents])
    held = [(agent.account.delta, agent.records, agent.agent) for agent in run.agents]
    wide = [(delta, records, agent) for delta, records, agent in held if delta and is_loose(delta, records, own)]
    if wide:
        delta, records, agent = max(wide, key=lambda one: one[0] * one[1])
        yield (
            f"Delta is above 0.1 / records for {len(wide)} of {counted(len(run.agents), 'agent')} (agent "
            f"{agent}: {epsilon(delta)}, {count(records)} records). A mechanism that publishes a "
            "whole record now and then could satisfy such a delta."
        )


def _lasting(run: RunFacts) -> Iterator[str]:
    yield (
        "How long a computation takes depends on the records, and everybody can see when a message arrives. Time is "
        "not protected."
    )
    if {event.mechanism for agent in run.agents for _, event, _ in agent.account.events} == {"discrete-gaussian"}:
        yield "The proofs speak of the very integers that leave: their noise is discrete, and rounding is counted in."
    else:
        yield "The proofs speak of real numbers; the program computes with 64-bit floating point numbers."
    yield (
        "Public by assumption: the numbers of records, the graph, the features, each agent's share, all settings. "
        "Settings that were tuned on the same records cost budget that is not on this page."
    )
    yield (
        "Anyone who controls an agent's machine sees its records. That the program really drew the noise that the "
        "ledger names, and sent nothing else, no ledger can show."
    )
    if run.said("transport") == "mpi":
        yield "MPI messages travel in clear, and nothing authenticates their sender."


UNVERIFIED = (
    "The chain has no secret key. Whoever rewrites every line, every total and every digest makes a folder that "
    "verifies. Compare the sha256 of summary.json with a copy that another person has kept since the run ended.",
    "Costs are recomputed from the parameters in the ledger. That these are true, the file cannot show.",
    "Errors, losses and settings are as the run wrote them, by the manifest. That they are true, no file can show.",
)
"""What the verification of a folder cannot notice."""


def incidents(run: RunFacts) -> Iterator[str]:
    """What went otherwise than planned: an unfinished, resumed or partial run, absent, odd and refused agents."""
    series, accounts = run.series, [agent.account for agent in run.agents]
    if series.part is not None:
        yield (
            f"This folder is the part of agent {series.part}, one of {series.size}. It has its own ledger "
            "alone; the others' spending is in their own folders."
        )
    if not run.finished:
        yield (
            "The run is unfinished: there is no summary.json. What the ledgers hold was spent. Without digests, "
            "lines cut whole from the end, and ledgers of the last agents that are missing, cannot be noticed."
        )
    if torn := sum(account.torn for account in accounts):
        yield (
            f"The last line of {counted(torn, 'ledger')} is cut off, as a crash leaves it. It counts for nothing: a "
            "message is sent only when its charge stands whole on the disk."
        )
    if resumed := sorted({round_ for account in accounts for round_ in account.resumed}):
        yield (
            f"The run was interrupted and went on from round {', '.join(map(str, resumed))}. What was sent again "
            "is as it was, and is charged once."
        )
    if away := [f"agent {i} in {' and '.join(ranges)}" for i, ranges in (run.said("away") or {}).items()]:
        yield f"Agents took no part in some rounds, and the others went on: {_listed(away)}."
    far = run.said("far_from_others") or {}
    if names := [f"agent {name}" for name in sorted(far, key=int)]:
        yield (
            f"Far from the others: {_listed(names)}. The "
            "vectors that they sent in the last round stand much further from the middle than the others do. They err "
            "or lie, or their records are unlike the others'."
        )
    if refused := _rounds(run, "refused_at"):
        yield (
            f"The budget refused: {_listed(refused)}. From then on these agents drew nothing new from "
            "their records. This is the budget at work, no fault."
        )


def _rounds(run: RunFacts, key: str) -> list[str]:
    found = ((agent.agent, at(agent.entry, key)) for agent in run.agents)
    return [f"agent {agent} in round {round_}" for agent, round_ in found if round_ is not None]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", and {len(names) - 8} more" if names[8:] else "")
