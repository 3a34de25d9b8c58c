"""The verdict on a run: its mode, guarantee, spending, integrity.

Every screen prints these lines, and every ``--json`` has these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from admmnet.errors import counted
from admmnet.record.figures import figures, privacy_of
from admmnet.record.format import epsilon
from admmnet.record.forms import Mode, Privacy, Summary
from admmnet.record.reader import Run


class _Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class ModeFacts(_Part, frozen=True, kw_only=True):
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


class Integrity(_Part, frozen=True, kw_only=True):
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


class Verdict(_Part, frozen=True, kw_only=True):
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


def verdict_of(run: Run) -> Verdict:
    """Verdict on a folder that was read back; of an unfinished one by its ledgers alone."""
    accounts, summary = list(run.ledgers.values()), run.summary
    integrity = Integrity(
        state="unfinished" if summary is None else "stopped" if summary.stopped else "finished",
        ledgers=len(accounts),
        events=sum(account.count for account in accounts),
        unended=sum(not account.finished for account in accounts),
        torn=sum(account.torn for account in accounts),
        fault=next(iter(run.faults), None),
    )
    if summary is not None:
        return structs.replace(verdict_on(summary, str(run.path)), integrity=integrity)
    first, settings = accounts[0], run.settings
    mode = mode_of(first.header, settings.get("seed"))
    entries = [figures(account.totals, account.contract) for account in accounts]
    masked = first.header.get("trust") is not None
    privacy = privacy_of(first.contract, entries, account=settings.get("account"), maskable=masked)
    return Verdict(folder=str(run.path), mode=mode, privacy=privacy, integrity=integrity)


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
