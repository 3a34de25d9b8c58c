"""Mistakes in masked sums that the tests beside this file must see (tests/mutate.py)."""

from __future__ import annotations

MASKS = PARTNERS = "masking.py"
MUTANTS = {
    "an attempt twice": (MASKS, "if number <= self.answered:", "if number < self.answered:"),
    "an attempt is not written down": (MASKS, "self.answered, participants, c", "_, participants, c"),
    "masks of any attempt": (MASKS, "self._start, self.answered, c", "self._start, 0, c"),
    "masks of any participants": (MASKS, "colluders, _digest(participants), context", "colluders, b'', context"),
    "keys that are not agreed upon": (MASKS, "run, settings, *parts)).digest()", "run, settings)).digest()"),
    "masks that do not cancel": (MASKS, "else total - words", "else total + words"),
    "half of the words": (MASKS, "bytes(8 * size)), dtype", "bytes(8 * size))[:size].ljust(8 * size), dtype"),
    "one partner too few": (PARTNERS, "graph(colluders + 1, size)", "graph(max(colluders, 1), size)"),
    "an agent alone with colluders": (PARTNERS, "<= len(participants) - 2", "<= len(participants) - 1"),
    "participants twice": (PARTNERS, "if any(i >= j for", "if any(i > j for"),
    "an agent that takes no part": (MASKS, "if self.agent not in participants or any(", "if any("),
    "agents without keys": (MASKS, "or any(i not in self._publics for i in participants)", ""),
    "colluders of another start": ("holder/door.py", "promise.colluders != colluders:", "colluders is None:"),
}  # fmt: skip
