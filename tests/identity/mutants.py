"""Mistakes in signatures that the tests beside this file must see (tests/mutate.py)."""

from __future__ import annotations

KEYS = "identity/keys.py"
MUTANTS = {
    "a number is its text": (KEYS, "isinstance(part, str) else", "isinstance(part, str | int) else"),
    "parts without lengths": (KEYS, 'len(data).to_bytes(8, "little"), data]', "data]"),
    "statements without a topic": (KEYS, "for part in (topic, *parts):", "for part in parts:"),
    "keys of any length": (KEYS, "KEY.fullmatch(key)", "KEY.match(key)"),
    "any signature": (KEYS, "ValueError):\n        return False", "ValueError):\n        return True"),
    "a secret is shown": (KEYS, "secret: str = field(repr=False)", "secret: str"),
    "dumps of a whole process": (KEYS, "(resource.RLIMIT_CORE, (0, 0))", "(resource.RLIMIT_CORE, (0, -1))"),
    "debuggers": (KEYS, "_PR_SET_DUMPABLE, 0, 0, 0, 0", "_PR_SET_DUMPABLE, 1, 0, 0, 0"),
}  # fmt: skip
