"""Mistakes in simulated trouble that the tests beside this file must see (tests/mutate.py)."""

from __future__ import annotations

MODEL = "faults/model.py"
MUTANTS = {
    "one draw for all rounds": (MODEL, "spawn_key=(_TROUBLE, kind, round)", "spawn_key=(_TROUBLE, kind)"),
    "repetitions are the losses": (MODEL, "LOSSES, REPEATS = 1, 5", "LOSSES, REPEATS = 1, 1"),
    "an absence ends a round early": (MODEL, "round <= a.last", "round < a.last"),
    "a member beside an agent that is away": (MODEL, "online[links.sender] & online", "online[links.sender] | online"),
    "what an agent hears is what it says": (MODEL, "self.arrives[self.links.back[there]]", "self.arrives[there]"),
    "a lost answer is no fault": (MODEL, "all(mask.all() for mask in found)", "all(mask.all() for mask in found[:2])"),
    "a repetition always arrives": (MODEL, "return 1 + np.where(lost, again, 0)", "return 1 + np.where(lost, 1, 0)"),
    "changes where none come or go": (MODEL, "if (before != now).any()", "if now.any()"),
    "a start in two parts": (MODEL, "max(parts, key=len, default=set[int]())", "set().union(*parts)"),
    "edges in one direction": (MODEL, "found[places] = found[self.back[places]] = True", "found[places] = True"),
    "a schedule that ends a round early": (MODEL, "last < rounds - 1:", "last < rounds:"),
    "a schedule that does not repeat": (MODEL, "round if self.repeat is None else round % self.repeat", "round"),
    "one seed for all lines": (MODEL, "seed + SEED_STEP * k", "seed"),
}  # fmt: skip
