"""Plain words on what a run promises, what it spent, and what nobody promises (docs/privacy.md, docs/limits.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from admmnet.config.defaults import is_loose, own_delta
from admmnet.errors import counted
from admmnet.record.format import count, epsilon, percent
from admmnet.record.values import real, whole
from admmnet.report.html.facts import AgentFacts, RunFacts

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


@dataclass(frozen=True)
class Promise:
    """The epsilon to quote: what is proven, at which delta, and what the paper's arithmetic claims in its place."""

    epsilon: float | None
    delta: float | None
    claimed: float | None


def _dependent(run: RunFacts) -> bool:
    """Whether any agent's header says that something was read from its records."""
    return any(agent.account.header["preprocessing"] == "data-dependent" for agent in run.agents)


def promise_of(run: RunFacts) -> Promise:
    """Return the run's promise, by the contracts in its ledgers: the largest over agents."""
    claimed = run.largest("target") if run.header["accountant"] == "published" and run.series.private else None
    return Promise(run.largest("promised"), run.largest("delta"), claimed)


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
            f"This run had no privacy. {run.header['algorithm']} uses the records without noise: whoever sees what "
            "was sent, or the model, may learn about any record. No epsilon describes it. Its errors serve for "
            "comparison with private runs, and for nothing that concerns privacy.",
        )
        return
    for part in (_promised, _relation, _unit, _trust, _reading, _network, _account):
        yield from part(run)


def colluders_of(run: RunFacts) -> str:
    """How many other agents epsilon A of masked sums allows to work together, in words."""
    return counted(run.header["colluders"], "other agent")


def _promised(run: RunFacts) -> Said:
    promise, seeded = promise_of(run), run.series.seeded
    claim = ""
    if promise.claimed is not None:
        claim = (
            f"The budget in the ledgers, epsilon {epsilon(promise.claimed)}, was kept by the arithmetic of the "
            "published paper, parts of which do not hold. It is the paper's claim and no proof stands behind it. "
        )
    if promise.epsilon is None or promise.delta is None:
        yield "The promise", claim + "Nothing is proven of the worst case of this run."
        return
    whose = "whatever can be seen of this run"
    if not run.series.baseline:
        whose = f"for every agent, {whose}, all messages, silences and refusals, not their timing,"
    same = len({(epsilon(agent.promised), epsilon(agent.delta)) for agent in run.agents}) <= 1
    at_most = "" if same else "at most "
    quote = "This is the figure to quote."
    if seeded:
        quote = "Of this run itself, quote no epsilon as a protection."
    elif run.mode == "simulation":
        quote = "The training figures of a simulation are not covered."
    elif claim:
        quote = "Of both, this is the figure to quote."
    yield (
        "The promise",
        f"{claim}{'Of the same run with secret noise, fixed' if seeded else 'Fixed'} before the first round: {whose} "
        f"{'would be' if seeded else 'is'} (epsilon, delta)-differentially private in "
        f"{'the' if run.series.baseline else 'its'} records, with epsilon {at_most}{epsilon(promise.epsilon)} and "
        f"delta {at_most}{epsilon(promise.delta)}. A filter kept it in every round: what did not fit was not drawn. "
        f"It holds within the limits under Not covered. {quote}"
        + ("" if same else " Each agent has its own, in the table of agents."),
    )
    yield _odds(promise.epsilon, promise.delta, run)


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


def _relation(run: RunFacts) -> Said:
    if run.header["adjacency"] == "replace-one":
        holder = "" if run.series.baseline else " of one agent"
        yield (
            "Relation: replace-one",
            f"Two data sets are neighbours if one record{holder} is exchanged for another possible record. The "
            "number of records is the same in both, and public.",
        )
        return
    yield (
        "Relation: zero-out",
        "Two data sets are neighbours if the row and label of one record become zero, so that it has no effect. The "
        "number of records is the same in both, and public. This is weaker than replace-one: to exchange a record "
        "takes two such steps, which can cost up to twice the epsilon, and a delta (1 + e^epsilon) times as large. "
        "Do not set it beside a replace-one figure without saying so.",
    )


def _unit(run: RunFacts) -> Said:
    size, bound = whole(run.said("privacy", "group_size")), real(run.said("privacy", "epsilon_group"))
    group = "" if bound is None else f" With {size} records that is epsilon {epsilon(bound)} in this run."
    yield (
        "Unit: a record",
        "What is protected is one record, not a person. A person with k records, at one agent or at several, pays "
        f"for all of them together: k^2 times the rho.{group} Records that depend on each other tell about each other.",
    )


def _trust(run: RunFacts) -> Said:
    """The two epsilons of masked sums."""
    if run.header.get("trust") == "masked":
        yield (
            "Two epsilons: whom an agent trusts",
            "The agents hid their sums from each other by masks, and shared the noise. The promise above holds against "
            f"anybody who listens and {colluders_of(run)} at most, all working together, as long as the masks' "
            "cryptography (X25519, HMAC-SHA256, ChaCha20) holds. If more work together, or it fails, each agent's own "
            f"noise is left: that promise is epsilon {epsilon(run.largest('promised_unmasked'))} and rests on no "
            "cryptography and no trust. Quote both.",
        )


def _reading(run: RunFacts) -> Said:
    if (spent := run.largest("spent")) is None:
        return
    published = run.largest("published") if run.header["method"] == "published" else None
    paper = ""
    if published is not None:
        paper = f" The paper's own arithmetic reads {epsilon(published)} for the same events, for comparison alone."
    quote = " Quote the promise." if promise_of(run).epsilon is not None and not run.series.seeded else ""
    yield (
        "Promise and odometer",
        f"Epsilon spent, {epsilon(spent)}, is an odometer: what the events so far cost, added up from the ledgers. How "
        f"many events there were can depend on the records, so the reading is a diagnostic and no guarantee.{quote}"
        f"{paper}",
    )


def _network(run: RunFacts) -> Said:
    if len(run.agents) > 1:
        yield (
            "Many agents",
            "The agents' records are disjoint. A record is in one agent's charge alone, so the network's epsilon is "
            "the largest of the agents', not their sum.",
        )


def _account(run: RunFacts) -> Said:
    if run.header.get("account") is None:
        yield (
            "Other runs on the same records",
            "The ledgers begin at zero. What other runs, trials and settings tried on the same records have cost is "
            "not in them, and comes on top.",
        )
        return
    stood = ""
    if (told := run.largest("account_spent")) is not None:
        stood = f" When the run ended, the fullest account stood at epsilon {epsilon(told)}, by summary.json."
    most, all_ = (run.said("privacy", f"account_{name}") for name in ("colluders", "epsilon_if_all_collude"))
    if whole(most) is not None:
        stood += (
            f" That holds as long as at most {most} other agents work together, the least number of any of its "
            f"runs; otherwise, or where masks fail, epsilon {epsilon(real(all_))}."
        )
    yield (
        "An account over several runs",
        "The run continued the agents' accounts: the budget spans all the runs in them, and epsilon spent on this "
        f"page is this run's share alone.{stood} The accounts lie outside the run folder and were not verified here: "
        "admmnet account show DIR.",
    )


def uncovered(run: RunFacts) -> Iterator[str]:
    """What no epsilon on the page covers."""
    if run.series.seeded and run.series.private:
        yield "This run is a simulation: its seed makes the noise again. It protects no record."
    elif run.mode == "simulation":
        yield "This run is a simulation: training losses were computed from the records, and are shown."
    if whole(run.said("data", "test")) != 0:
        yield (
            "Test records are taken to be public. Every error on this page was measured on them, and nobody was "
            "charged. A setting chosen by test error was fitted to them."
        )
    if _dependent(run):
        yield (
            "Preprocessing was data-dependent: categories, bounds or scales were read from the records themselves, "
            "or values decided who holds which record. What was read is in the model, and no budget covers it."
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
    whole = run.agents if run.series.summary is None else run.series.summary.per_agent
    own = own_delta([agent.records for agent in whole])
    wide = [agent for agent in run.agents if agent.delta and is_loose(agent.delta, agent.records, own)]
    if wide:
        worst = max(wide, key=lambda agent: (agent.delta or 0.0) * agent.records)
        yield (
            f"Delta is above 0.1 / records for {len(wide)} of {counted(len(run.agents), 'agent')} (agent "
            f"{worst.agent}: {epsilon(worst.delta)}, {count(worst.records)} records). A mechanism that publishes a "
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
        "Public by assumption: the numbers of records, the graph, the features, who holds which share, all settings. "
        "Settings that were tuned on the same records cost budget that is not on this page."
    )
    yield (
        "Whoever controls the machine of an agent sees its records. That the program really drew the noise that the "
        "ledger names, and sent nothing else, no ledger can show."
    )
    if run.said("transport") == "mpi":
        yield "MPI messages travel in clear, and nothing authenticates their sender."


UNVERIFIED = (
    "The chain has no secret key. Whoever rewrites every line, every total and every digest makes a folder that "
    "verifies. Compare the sha256 of summary.json with one that was given to somebody else when the run ended.",
    "Costs are recomputed from the parameters in the ledger. That these are true, the file cannot show.",
    "Errors, losses and settings are as the run wrote them, by the manifest. That they are true, no file can show.",
)
"""What the verification of a folder cannot notice."""


def incidents(run: RunFacts) -> Iterator[str]:
    """What went otherwise than planned: an unfinished, resumed or partial run, lost, odd and refused agents."""
    series, accounts = run.series, [agent.account for agent in run.agents]
    if series.part is not None:
        yield (
            f"This folder is the part of agent {series.part}, one of {series.size}. It has its own ledger and no "
            "other: what the others spent is in their own folders."
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
            f"The run was interrupted and went on from round {', '.join(map(str, resumed))}. Rounds that were "
            "computed again have been charged again, because their noise is new; both charges are in the totals."
        )
    if lost := [agent for agent in run.agents if agent.lost_at is not None]:
        yield (
            f"Lost on the way: {_listed(lost, 'lost_at')}. Their ledgers here are read up to the last whole line. "
            "summary.json leaves their privacy figures out; this page counts them."
        )
    far = run.said("far_from_others") or {}
    if names := [f"agent {name}" for name in sorted(far, key=int)]:
        yield (
            f"Far from the others: {', '.join(names[:8])}{f', and {len(names) - 8} more' if names[8:] else ''}. The "
            "vectors that they sent in the last round stand much further from the middle than the others do. They err "
            "or lie, or their records are unlike the others'."
        )
    if refused := [agent for agent in run.agents if agent.refused_at is not None]:
        yield (
            f"The budget refused: {_listed(refused, 'refused_at')}. From then on these agents drew nothing new from "
            "their records. This is the budget at work, no fault."
        )


def _listed(agents: list[AgentFacts], key: str) -> str:
    shown = [f"agent {agent.agent} in round {getattr(agent, key)}" for agent in agents[:8]]
    return ", ".join(shown) + (f", and {len(agents) - 8} more" if agents[8:] else "")
