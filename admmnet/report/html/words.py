"""Plain words on what a run promises, what it spent, and what nobody promises (docs/privacy.md, docs/limits.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from admmnet.config.defaults import is_loose, own_delta
from admmnet.config.modes import mode_words
from admmnet.record.agree import entries_of
from admmnet.record.values import real, whole
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


@dataclass(frozen=True)
class Promise:
    """The epsilon to quote: what it is, at which delta, and whether a proof stands behind it."""

    epsilon: float | None
    delta: float | None
    proven: bool
    claimed: float | None


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number for people; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}g}"  # noqa: RUF001


def above(value: float | None) -> str:
    """Return an epsilon with three decimals at most, rounded up: a promise must not look smaller than it is."""
    if value is None:
        return "–"  # noqa: RUF001
    nearest = round(value, 3)
    raised = nearest if math.isclose(nearest, value, rel_tol=1e-9) else math.ceil(value * 1000) / 1000
    return f"{raised:.3f}".rstrip("0").rstrip(".")


def mode_of(run: RunFacts) -> str:
    """Return the run's mode, and what it means; older ledgers do not say it."""
    if run.mode is None:
        return "mode not told by these ledgers"
    return mode_words(run.mode, seeded=bool(run.seeded), dependent=_dependent(run))


def _dependent(run: RunFacts) -> bool:
    """Whether any agent's header says that something was read from its records."""
    return any(b.account and b.account.header["preprocessing"] == "data-dependent" for b in run.books)


def promise_of(run: RunFacts) -> Promise:
    """Return the run's promise: the largest over agents.

    Under the proven accountant it is the budget of the ledgers' headers, which the filter keeps (Theorem 5);
    under the published one what summary.json says is proven of the worst case, if anything.
    """
    delta, target = run.largest("delta"), run.largest("epsilon_target")
    if not run.private:
        return Promise(None, None, False, None)
    if run.header["accountant"] == "proven":
        return Promise(target, delta, True, None)
    proven = real(run.said("privacy", "epsilon_proven"))
    return Promise(proven, delta, proven is not None, target)


def _bounds(run: RunFacts, promise: Promise) -> bool:
    """Whether what is proven of the planned worst case is no less than what the ledgers have spent."""
    return promise.epsilon is not None and (run.largest("spent") or 0.0) <= promise.epsilon * (1.0 + 1e-9)


def certainty(epsilon: float, delta: float) -> float:
    """Largest share of right guesses between two equally likely candidates under (epsilon, delta).

    Half of 1 + (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), from the definition at both orders of the two.
    """
    tail = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * tail) / (1.0 + tail))


def meaning(run: RunFacts) -> list[tuple[str, str]]:
    """Return what the epsilon means, as pairs of a heading and a paragraph."""
    fault = (
        "The folder does not verify, see the top of the page. What follows is what its sound ledgers and "
        "summary.json say; until the fault is explained, quote none of it."
    )
    warning = [("Do not rely on this", fault)] if run.faults else []
    if not run.header:
        return [("Nothing can be said", "No ledger of this run verifies, so nothing is said about its privacy.")]
    if not run.private:
        words = (
            f"This run had no privacy. {run.header['algorithm']} uses the records without noise: whoever sees what "
            "was sent, or the model, may learn about any record. No epsilon describes it. Its errors serve for "
            "comparison with private runs, and for nothing that concerns privacy."
        )
        return [*warning, ("No privacy", words)]
    found = [*warning, *_simulation(run), *_promised(run), _relation(run), _unit(run)]
    return [*found, *_trust(run), *_reading(run), *_network(run), *_account(run)]


def colluders_of(run: RunFacts) -> str:
    """How many other agents epsilon A of masked sums allows to work together, in words."""
    most = whole(run.said("privacy", "colluders"))
    return "K other agents" if most is None else "1 other agent" if most == 1 else f"{most} other agents"


def _trust(run: RunFacts) -> list[tuple[str, str]]:
    """The two epsilons of masked sums."""
    if run.header.get("trust") != "masked":
        return []
    worst = real(run.said("privacy", "epsilon_if_all_collude"))
    figure = run.largest("unmasked") if worst is None else worst
    second = "" if figure is None else f" is epsilon {above(figure)} and"
    words = (
        "The agents hid their sums from each other by masks, and shared the noise. The promise above holds against "
        f"anybody who listens and {colluders_of(run)} at most, all working "
        "together, as long as the masks' cryptography (X25519, HMAC-SHA256, ChaCha20) holds. If more work together, or "
        f"it fails, each agent's own noise is left: that promise{second} rests on no cryptography and no trust. Quote "
        "both."
    )
    return [("Two epsilons: whom an agent trusts", words)]


def _simulation(run: RunFacts) -> list[tuple[str, str]]:
    if run.mode == "simulation" and not run.seeded:
        words = (
            "The records were taken to be public. Training losses were computed from them and are shown, here and in "
            "the run folder. The figures below are about what was sent and the model, and about nothing else."
        )
        return [("A simulation on public records", words)]
    words = (
        "The noise was made from a seed. Whoever has the seed, which stands in the settings, can make it again and "
        "take it off. So this run protects nothing. The figures below are those of a run that is the same but for "
        "secret noise."
    )
    return [("A simulation", words)] if run.seeded else []


def _promised(run: RunFacts) -> list[tuple[str, str]]:
    promise = promise_of(run)
    if promise.claimed is not None:
        claim = (
            f"The budget in the ledgers, epsilon {above(promise.claimed)}, was kept by the arithmetic of the "
            "published paper, parts of which do not hold. It is the paper's claim and no proof stands behind it. "
        )
        if promise.epsilon is None or promise.delta is None:
            return [("The promise", claim + "Nothing is proven of the worst case of this run.")]
        lost = ", the lost agents left out" if any(agent.lost_at is not None for agent in run.agents) else ""
        proven = f"What is proven of the planned worst case{lost} is epsilon {above(promise.epsilon)}, by summary.json."
        if not _bounds(run, promise):
            why = ", lost agents included" if lost else ""
            if any(book.resumes for book in run.books):
                why = ", because rounds that were computed again were charged again"
            spent = above(run.largest("spent"))
            proven += f" It does not bound this run: {spent} is spent already{why}. Quote neither."
            return [("The promise", claim + proven)]
        return [("The promise", claim + proven), _odds(promise.epsilon, promise.delta, run)]
    if promise.epsilon is None or promise.delta is None:
        return [("The promise", "No budget can be read.")]
    whose = (
        "whatever can be seen of this run"
        if run.baseline
        else "for every agent, whatever can be seen of this run, all messages, silences and refusals, not their timing,"
    )
    same = len({(agent.epsilon_target, agent.delta) for agent in run.agents if agent.proven}) <= 1
    at_most = "" if same else "at most "
    start = "Of the same run with secret noise, fixed" if run.seeded else "Fixed"
    start += " before the first round:"
    quote = (
        "Of this run itself, quote no epsilon as a protection."
        if run.seeded
        else ""
        if run.faults
        else "This is the figure to quote."
        if run.mode != "simulation"
        else "The training figures of a simulation are not covered."
    )
    return [
        (
            "The promise",
            f"{start} {whose} {'would be' if run.seeded else 'is'} (epsilon, delta)-differentially private in "
            f"{'the' if run.baseline else 'its'} records, with epsilon {at_most}{above(promise.epsilon)} and delta "
            f"{at_most}{promise.delta:g}. A filter kept it while the run went on: what did not fit was not drawn. It "
            f"holds within the limits under Not covered. {quote}"
            + ("" if same else " Each agent has its own, in the table of agents."),
        ),
        _odds(promise.epsilon, promise.delta, run),
    ]


def _odds(epsilon: float, delta: float, run: RunFacts) -> tuple[str, str]:
    raised = math.exp(min(epsilon, 50.0))
    factor = (
        f" = {math.ceil(raised * 100) / 100:,.2f}"
        if epsilon < 5.0
        else f", about {raised:,.0f}"
        if epsilon < 20.0
        else ""
    )
    share = 100.0 * certainty(epsilon, delta)
    guess = f"at most {math.ceil(share * 100) / 100:.2f} %" if share < 99.99 else "more than 99.99 %"
    change = (
        "one record is exchanged for any other possible one"
        if run.header["adjacency"] == "replace-one"
        else "one record is left without effect"
    )
    weak = (
        " So far up, the bound alone rules out almost nothing; how hard a real attack is, it does not say."
        if share > 98.0
        else ""
    )
    return (
        "What that means",
        f"If {change}, anything that can be seen becomes more or less probable by a factor of at most "
        f"e^epsilon{factor}, but for a part of probability delta = {delta:g}. To someone who knows all other "
        f"records, and for whom two cases were equally likely before, this bound leaves {guess} right guesses; "
        f"without the run it is 50 %.{weak}",
    )


def _relation(run: RunFacts) -> tuple[str, str]:
    if run.header["adjacency"] == "replace-one":
        holder = "" if run.baseline else " of one agent"
        return (
            "Relation: replace-one",
            f"Two data sets are neighbours if one record{holder} is exchanged for another possible record. The "
            "number of records is the same in both, and public.",
        )
    return (
        "Relation: zero-out",
        "Two data sets are neighbours if the row and label of one record become zero, so that it has no effect. The "
        "number of records is the same in both, and public. This is weaker than replace-one: to exchange a record "
        "takes two such steps, which can cost up to twice the epsilon, and a delta (1 + e^epsilon) times as large. "
        "Do not set it beside a replace-one figure without saying so.",
    )


def _unit(run: RunFacts) -> tuple[str, str]:
    size, figure_ = whole(run.said("privacy", "group_size")), real(run.said("privacy", "epsilon_group"))
    group = ""
    if size is not None and figure_ is not None:
        group = f" With {size} records that is epsilon {above(figure_)} in this run, by summary.json."
    return (
        "Unit: a record",
        "What is protected is one record, not a person. A person with k records, at one agent or at several, pays "
        f"for all of them together: k^2 times the rho.{group} Records that depend on each other tell about each other.",
    )


def _reading(run: RunFacts) -> list[tuple[str, str]]:
    spent = run.largest("spent")
    if spent is None:
        return []
    promise = promise_of(run)
    # a claim of the paper's arithmetic may have nothing proven beside it, or less than is spent
    sure = promise.proven and (promise.claimed is None or _bounds(run, promise))
    quote = " Quote the promise." if sure and not run.seeded and not run.faults else ""
    worst = real(run.said("privacy", "epsilon_proven"))
    planned = "" if worst is None else f" The planned worst case was epsilon {above(worst)}, another promise."
    published = run.largest("published") if run.header["method"] == "published" else None
    paper = (
        ""
        if published is None
        else f" The paper's own arithmetic reads {above(published)} for the same events; it is shown for comparison."
    )
    if published is not None and published > (run.largest("epsilon_target") or math.inf):
        paper += (
            " That this is more than the claim is no fault of the ledgers: under the paper's arithmetic the filter "
            "compares rho, and the paper's formula makes a little more of it than it began with."
            if run.header["accountant"] == "published"
            else " It is more than the budget, which the proven arithmetic kept."
        )
    words = (
        f"Epsilon spent, {above(spent)}, is an odometer: what the events so far cost, added up from the ledgers. How "
        "many events there were can depend on the records, so the reading is a diagnostic and no guarantee."
        f"{quote}{planned}{paper}"
    )
    return [("Promise and odometer", words)]


def _network(run: RunFacts) -> list[tuple[str, str]]:
    if run.baseline or len(run.agents) < 2:
        return []
    words = (
        "The agents' records are disjoint. A record is in one agent's charge alone, so the network's epsilon is the "
        "largest of the agents', not their sum."
    )
    return [("Many agents", words)]


def _account(run: RunFacts) -> list[tuple[str, str]]:
    if run.header.get("account") is None:
        words = (
            "The ledgers begin at zero. What other runs, trials and settings tried on the same records have cost is "
            "not in them, and comes on top."
        )
        return [("Other runs on the same records", words)]
    stood = ""
    if (told := run.largest("account_spent")) is not None:
        stood = f" When the run ended, the fullest account stood at epsilon {above(told)}, by summary.json."
    most, all_ = (run.said("privacy", f"account_{name}") for name in ("colluders", "epsilon_if_all_collude"))
    if whole(most) is not None and (figure := real(all_)) is not None:
        stood += (
            f" That holds as long as at most {whole(most)} other agents work together, the least number of any of its "
            f"runs; otherwise, or where masks fail, epsilon {above(figure)}."
        )
    words = (
        "The run continued the agents' accounts: the budget spans all the runs in them, and epsilon spent on this "
        f"page is this run's share alone.{stood} The accounts lie outside the run folder and were not verified here: "
        "admmnet account show DIR."
    )
    return [("An account over several runs", words)]


def uncovered(run: RunFacts) -> list[str]:
    """Return what no epsilon on the page covers."""
    found = []
    if run.seeded and run.private:
        found.append("This run is a simulation: its seed makes the noise again. It protects no record.")
    elif run.mode == "simulation":
        found.append("This run is a simulation: training losses were computed from the records, and are shown.")
    if whole(run.said("data", "test")) != 0:
        found.append(
            "Test records are taken to be public. Every error on this page was measured on them, and nobody was "
            "charged. A setting chosen by test error was fitted to them."
        )
    if _dependent(run):
        found.append(
            "Preprocessing was data-dependent: categories, bounds or scales were read from the records themselves, "
            "or values decided who holds which record. What was read is in the model, and no budget covers it."
        )
    elif run.header:
        found.append(
            "Preprocessing used public bounds, by the ledgers' headers. That the bounds are public, and were not "
            "found in the records, is taken on trust."
        )
    if not run.private:
        return found
    return [*found, *_large_delta(run), *_lasting(run)]


def _large_delta(run: RunFacts) -> list[str]:
    counts = [n for entry in entries_of(run.summary).values() if (n := whole(entry.get("records")))]
    counts += [agent.records for agent in run.agents if agent.records]
    own = own_delta(counts) if counts else 0.0
    wide = [a for a in run.agents if a.delta and a.records and is_loose(a.delta, a.records, own)]
    if not wide:
        return []
    worst = max(wide, key=lambda agent: (agent.delta or 0.0) * (agent.records or 0))
    return [
        f"Delta is above 0.1 / records for {len(wide)} of {len(run.agents)} "
        f"{'holders' if run.baseline else 'agents'} (agent {worst.agent}: {worst.delta:g}, "
        f"{worst.records} records). A mechanism that publishes a whole record now and then could satisfy such a "
        "delta."
    ]


def _lasting(run: RunFacts) -> list[str]:
    drawn = {e.mechanism for book in run.books if book.account for _, e, _ in book.account.events}
    found = [
        "How long a computation takes depends on the records, and everybody can see when a message arrives. Time is "
        "not protected.",
        "The proofs speak of the very integers that leave: their noise is discrete, and rounding is counted in."
        if drawn == {"discrete-gaussian"}
        else "The proofs speak of real numbers; the program computes with 64-bit floating point numbers.",
        "Public by assumption: the numbers of records, the graph, the features, who holds which share, all settings. "
        "Settings that were tuned on the same records cost budget that is not on this page.",
        "Whoever controls the machine of an agent sees its records. That the program really drew the noise that the "
        "ledger names, and sent nothing else, no ledger can show.",
    ]
    if run.said("transport") == "mpi":
        found.append("MPI messages travel in clear, and nothing authenticates their sender.")
    return found


def unverified() -> list[str]:
    """Return what the verification of a folder cannot notice."""
    return [
        "The chain has no secret key. Whoever rewrites every line, every total and every digest makes a folder that "
        "verifies. Compare the sha256 of summary.json with one that was given to somebody else when the run ended.",
        "Costs are recomputed from the parameters in the ledger. That these are true, the file cannot show.",
        "Errors, losses, rounds and settings come from files that no digest covers: metrics.csv, config.toml, "
        "model.npz. So do, in summary.json, the planned worst case, refusals, losses of agents and account totals.",
    ]
