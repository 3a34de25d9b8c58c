"""The verdict on a run: its mode, guarantee, spending, integrity; and the figures of privacy that follow from ledgers.

A run writes what is promised and spent in summary.json, and every reader holds what stands there against the ledgers
(docs/ledger.md). Every screen prints a verdict's lines, and every ``--json`` has its fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from admmnet.errors import counted
from admmnet.forms import ready
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.checks import same
from admmnet.privacy.ledger.form import finite
from admmnet.record.folder import ledger_name
from admmnet.record.format import epsilon
from admmnet.record.forms import AgentEntry, FileForm, Mode, Privacy, Summary, absent

Entries = Sequence[Any]
"""Figures of agents: by the names of ``AgentEntry``, or such entries."""


@lru_cache(maxsize=SHARED)
def figures(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """Figures of an agent's entry in summary.json, found once for all agents that share them: never to be changed.

    Of a method that no proof covers whole nothing is proven.
    """
    promise, most, covered = contract.promise, contract.most(), contract.covered
    grouped = promise is not None and promise.group > 1
    masked = promise is not None and promise.colluders is not None
    alone = contract.most(alone=True) if masked else None
    return {
        "rho": finite(totals.rho),
        "rho_proven": finite(most.rho) if most is not None and covered else None,
        "rho_published": finite(totals.rho_published),
        "epsilon_target": None if promise is None else promise.epsilon,
        "delta": None if promise is None else promise.delta,
        "epsilon_proven": finite(most.epsilon) if most is not None and covered else None,
        "epsilon_spent": finite(contract.spent(totals)) if covered else None,
        "epsilon_published": None if promise is None else finite(totals.epsilon_published(promise.delta)),
        "epsilon_group": finite(contract.group()) if grouped else None,
        "epsilon_if_all_collude": None if alone is None else finite(alone.epsilon),
        "epsilon_spent_if_all_collude": finite(contract.spent(totals, alone=True)) if masked else None,
    }


def privacy_of(
    contract: Contract, entries: Entries, *, account: str | None, maskable: bool, planned: bool = True
) -> Privacy:
    """What a run promises and has spent: the largest figures of its agents.

    The ``contract`` may be any agent's: relation, trust and group size are those of all. ``planned`` says that
    ``entries`` are those of all agents. ``account`` is the account's folder, ``maskable`` says that the method's sums
    could be masked.
    """
    promise = contract.promise or Promise(math.nan, math.nan)
    trust = None if contract.promise is None or not maskable else "local" if promise.colluders is None else "masked"
    shared = (name for name in Privacy.__struct_fields__ if name in AgentEntry.__struct_fields__)
    found: dict[str, Any] = {name: _largest(entries, name) for name in shared}
    found |= {
        "accountant": None if contract.promise is None else promise.accountant,
        "adjacency": contract.adjacency,
        "unit": "record",
        "trust": trust,
        "colluders": promise.colluders,
        "group_size": promise.group,
        "epsilon_group": found["epsilon_group"] if planned else None,
        "rho_spent": _largest(entries, "rho"),
    }
    return msgspec.convert(found | over_runs(entries, account), ready(Privacy))


def over_runs(entries: Entries, account: str | None) -> dict[str, Any]:
    """Fields of ``Privacy`` over all runs of the account in this folder, by agents' entries; without these null."""
    masked = [entry for entry in entries if entry.get("account_colluders") is not None]
    names = ("account_epsilon_if_all_collude", "account_epsilon_if_all_collude_proven")
    return {
        "account": account,
        "account_epsilon_spent": _largest(entries, "account_epsilon_spent") if account else None,
        "account_colluders": min((entry["account_colluders"] for entry in masked), default=None),
        **{name: _largest(masked, name) for name in names},
    }


def _largest(entries: Entries, key: str) -> float | None:
    values: list[Any] = [entry.get(key) for entry in entries]
    return None if not values or None in values else max(values)


def contradictions(
    summary: Summary, ledgers: Mapping[str, VerifiedLedger], metrics: Iterable[tuple[int, int, int, Any]] = ()
) -> Iterator[str]:
    """Yield what a summary says otherwise than the ledgers that verify, by name, and the rows of metrics.csv.

    A run writes its summary when all agents that are left are through: who is away at the end has no digest there, and,
    as a rule, no end in its ledger.
    """
    latest = {agent: (last, releases) for last, agent, releases, _ in metrics}
    end = max((last for last, _ in latest.values()), default=-1)
    # it ends before the last round where an agent has taken over the end
    releases = {agent: count for agent, (last, count) in latest.items() if last == end >= summary.rounds - 1}
    entries, listed, away = {entry.agent: entry for entry in summary.per_agent}, summary.ledgers, absent(summary)
    if away and summary.transport != "zmq":
        yield "only zmq goes on without an agent"
    if len(summary.per_agent) != summary.agents or [*entries] != [*range(len(entries))]:
        yield f"per_agent has the agents {[*entries]!s:.60}, not 0 to {summary.agents - 1}"
        return
    for name, ledger in ledgers.items():
        header, last = ledger.header, ledger.last
        agent = header["agent"]
        if agent >= summary.agents:
            yield f"agents is {summary.agents}, there is a ledger of agent {agent}"
            return
        if agent in away and name in listed:
            yield f"agent {agent}: takes no part in the last start, but its ledger is listed"
        elif agent in away and ledger.finished and summary.starts[-1].round < summary.rounds - 1:
            yield f"agent {agent}: takes no part in the last start, but its ledger ends whole"
        elif name in listed and ledger.sha256 != listed[name]:
            yield f"{name}: its sha256 is another one"
        elif name in listed and not ledger.finished:
            yield f"{name}: has no end line though the run finished"
        elif name in listed:
            entry, where = entries[agent], f"agent {agent}: "
            right = {"records": header["records"], "degree": len(header["neighbours"])}
            yield from _differing(entry, right | figures(ledger.totals, ledger.contract), where, "its ledger says")
            yield from _differing(entry, {"releases": releases.get(agent, entry.releases)}, where, "metrics.csv says")
            if entry.refused_at is not None and last > entry.refused_at:
                yield f"{where}refused_at is {entry.refused_at}, its ledger has a charge of round {last}"
            if header["neighbours"] and summary.rounds <= last:
                yield f"rounds is {summary.rounds}, the ledger of agent {agent} has a charge of round {last}"
    living = [one for i, one in entries.items() if i not in away and ledger_name(i, summary.agents) in listed]
    for ledger in list(ledgers.values())[:1]:  # what the first says of the run all say
        header, said = ledger.header, summary.privacy
        words = {name: header[name] for name in ("mode", "algorithm", "method")}
        yield from _differing(summary, words | {"seeded": header["noise"] == "seeded"}, "", "the ledgers say")
        if (summary.seed is not None) != summary.seeded:
            yield f"seed is {summary.seed}, seeded is {summary.seeded}"
        maskable = said.trust is not None or header.get("trust") is not None
        if living:  # `network` has a check of its own
            right = structs.asdict(
                privacy_of(ledger.contract, living, account=said.account, maskable=maskable, planned=not away)
            )
            yield from _differing(said, right | {"network": said.network}, "privacy.", "by the ledgers it is")


def _differing(said: FileForm, right: Mapping[str, Any], where: str, whose: str) -> Iterator[str]:
    for name, value in right.items():
        if not same(own := getattr(said, name), value):
            yield f"{where}{name} is {own!r}, {whose} {value!r}"


class ModeFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether anything is protected at all."""

    mode: Mode
    seed: int | None
    """that makes the noise again; null of secret noise"""
    seeded: bool
    preprocessing: str

    def line(self) -> str:
        """Say it in one line."""
        if self.seeded:
            seed = "a seed" if self.seed is None else f"seed {self.seed}"
            return f"simulation, {seed}: the noise can be made again, nothing is protected"
        if self.mode == "simulation":
            return "simulation, secret noise: the records count as public, figures computed from them are shown"
        if self.preprocessing == "data-dependent":
            return "private, but for values read from the records (see its notes), which no epsilon covers"
        return "private, secret noise: only noisy results left each agent"


class Integrity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds of a folder; ``fault`` is the first thing that does not."""

    state: Literal["finished", "unfinished", "stopped"]
    ledgers: int
    events: int
    unended: int
    """ledgers without an end line"""
    torn: int
    """ledgers whose last line was cut off while it was written"""
    receipts: int | None = None
    """words of others that agree; null where the folder keeps none, or none were read"""
    others: int = 0
    """other folders of the run whose words agree, too"""
    fault: str | None = None

    def line(self) -> str:
        """Say it in one line."""
        if self.fault is not None:
            return f"does not hold: {self.fault}"
        hold = "holds" if self.events == 1 else "hold"
        parts = [
            f"{counted(self.ledgers, 'ledger')}, {counted(self.events, 'event')} {hold}",
            "the run is unfinished (no summary.json)" if self.state == "unfinished" else f"the run is {self.state}",
        ]
        if self.state != "unfinished":
            parts.append("every listed file is as the run wrote it")
        if self.receipts is not None:
            others = f" with those of {counted(self.others, 'other folder')}" if self.others else ""
            parts.append(f"{self.receipts} receipts agree{others}")
        if self.unended:
            parts.append(f"{self.unended} without an end line")
        if self.torn:
            parts.append(f"{self.torn} with a last line that was cut off while it was written: it counts for nothing")
        return "; ".join(parts)


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it. ``integrity`` is None where nothing was read back."""

    folder: str
    mode: ModeFacts
    privacy: Privacy
    integrity: Integrity | None = None

    def lines(self) -> list[str]:
        """Say it for people, the mode first."""
        lines = [f"mode:       {self.mode.line()}"]
        lines += _promise(self.privacy, seeded=self.mode.seeded)
        if self.privacy.account is not None:
            lines.append(f"account:    {self.privacy.account}: {_over_runs(self.privacy)}")
        if self.integrity is not None and self.privacy.accountant == "published":
            lines.append(
                "warning:    the published accountant guards the target by the papers' arithmetic, which guarantees "
                f"nothing; the proven cost is epsilon {epsilon(self.privacy.epsilon_spent)}"
            )
        if self.integrity is not None:
            lines.append(f"integrity:  {self.folder}: {self.integrity.line()}")
        return lines


def mode_of(header: Mapping[str, Any], seed: int | None) -> ModeFacts:
    """Mode by the first line of a ledger, and the seed that the settings name."""
    seeded, read = header["noise"] == "seeded", header["preprocessing"]
    return ModeFacts(mode=header["mode"], seed=seed if seeded else None, seeded=seeded, preprocessing=read)


def verdict_on(summary: Summary, folder: str) -> Verdict:
    """Verdict on a run by its summary alone, of which nothing was read back."""
    facts = summary.data.preprocessing
    mode = ModeFacts(mode=summary.mode, seed=summary.seed, seeded=summary.seeded, preprocessing=facts)
    return Verdict(folder=folder, mode=mode, privacy=summary.privacy)


def _promise(privacy: Privacy, *, seeded: bool) -> list[str]:
    """What is promised, asked for and spent."""
    if privacy.epsilon_target is None:
        return ["privacy:    none; messages are made from the records without noise"]
    proven = "nothing is proven"
    if privacy.epsilon_proven is not None:
        secret = "with secret noise it would be " if seeded else ""
        proven = f"{secret}proven for the worst case: epsilon {epsilon(privacy.epsilon_proven)} a record"
        if privacy.trust == "masked":
            proven += f", if {_together(privacy.colluders)}"
    lines = [
        f"privacy:    target ({epsilon(privacy.epsilon_target)}, {epsilon(privacy.delta)}) by the {privacy.accountant} "
        f"accountant; {proven}, {privacy.adjacency}"
    ]
    if privacy.trust == "masked":
        lines += [
            f"trust:      A: epsilon {epsilon(privacy.epsilon_proven)} as long as {_together(privacy.colluders)}; it "
            "rests on the masks' cryptography",
            f"            B: epsilon {epsilon(privacy.epsilon_if_all_collude)} if all others work together, or the "
            "masks are broken; it rests on each agent's own noise",
        ]
    if privacy.epsilon_group is not None:
        lines.append(
            f"group:      a person with {privacy.group_size} records, wherever they are held, "
            f"{'would be' if seeded else 'is'} promised epsilon {epsilon(privacy.epsilon_group)} of this run"
        )
    published = "" if privacy.epsilon_published is None else f"; {epsilon(privacy.epsilon_published)} by the paper"
    spent = epsilon(privacy.epsilon_spent)
    lines.append(f"spent:      epsilon {spent} for each record, over all that was released{published}")
    return lines


def _over_runs(privacy: Privacy) -> str:
    """What an account has spent, and under which trust that holds."""
    if privacy.account_epsilon_spent is None:
        return "not seen from here"
    spent = f"epsilon {epsilon(privacy.account_epsilon_spent)} spent over all runs"
    if privacy.account_colluders is None:
        return spent
    second = epsilon(privacy.account_epsilon_if_all_collude)
    together = _together(privacy.account_colluders)
    return f"{spent}, as long as {together}; {second} if all others work together, or masks are broken"


def _together(colluders: int | None) -> str:
    if not colluders:
        return "no other agent looks (K = 0: it holds only against outsiders who listen)"
    return f"at most {colluders} other {'agent works' if colluders == 1 else 'agents work'} together against it"
