"""What each attack aims at, taken out: then it succeeds (tests/mutate.py)."""

from __future__ import annotations

DOOR, SUMS, MASKS = "holder/door.py", "holder/measurements/sums.py", "masking.py"
MUTANTS = {
    "colluders by a method": (DOOR, "participants, masks.colluders)", "participants, 0)"),
    "foreign losses": (DOOR, "if not isinstance(holder, SimulatedHolder) and not is_ours(loss):", "if False:"),
    "numpy as a method has set it": (DOOR, 'with np.errstate(all="ignore"), warnings', "with warnings"),
    "an answer twice": ("holder/outbox.py", "round <= max(self.last, self.silent_until)", "round < -9"),
    "masks of any model": (
        SUMS,
        "return statement(type(self).__name__",
        "return b'' and statement(type(self).__name__",
    ),
    "noise for the lost": (SUMS, "math.sqrt(known.attempt.parts)", "math.sqrt(known.attempt.parts + 1)"),
    "masks of any participants": (MASKS, "colluders, _digest(participants), context", "colluders, b'', context"),
    "no public radius": (
        "holder/measurements/minimiser.py",
        "return clip_rows(rows, _radius(known, self.convexity, self.beta, self.tail(known.width)))",
        "return rows",
    ),
    "no filter": (
        "privacy/contract.py",
        "<= limit * (1.0 + SLACK) for one, limit in limits",
        "<= limit * 1e9 for one, limit in limits",
    ),
    "an account by a method": (
        "running/accounts.py",
        "PrivacySettings.budget_of(settings, i) for",
        "settings.budget_of(i) for",
    ),
    "partners by all keys": (
        MASKS,
        "in partners_of(self.agent, participants, colluders):",
        "in set(partners_of(self.agent, tuple(sorted(self._publics)), colluders)) & {*participants}:",
    ),
}
