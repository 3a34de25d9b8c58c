"""Mistakes in receipts, and in what they show, that the tests beside this file must see (tests/mutate.py)."""

from __future__ import annotations

JUDGE, RECEIPTS = "evidence/judge.py", "record/receipts.py"
MUTANTS = {
    "words of two turns": (JUDGE, "word.agent, word.turn), one)", "word.agent, word.head), one)"),
    "words of two starts": (JUDGE, "(word.start, word.agent, word.turn), one)", "(word.agent, word.turn), one)"),
    "two ledgers of one length": (JUDGE, "if before.word.head != word.head:", "if before.word.lines != word.lines:"),
    "a ledger one line too short": (JUDGE, "if word.lines > len(digests):", "if word.lines > len(digests) + 1:"),
    "a ledger that was made anew": (JUDGE, "digests[word.lines - 1] != word.head", "not digests[word.lines - 1]"),
    "folders of two runs": (JUDGE, "if other.keys.run != first.keys.run:", "if not other.keys.run:"),
    "other keys": (JUDGE, "if first.keys.keys.get(agent) != key:", "if agent not in first.keys.keys:"),
    "keys of a network file": (JUDGE, "or key != peers[agent].identity", ""),
    "words of the own ledger alone": (JUDGE, "for one in (run, *others) for name", "for one in (run,) for name"),
    "unsigned words": (RECEIPTS, "if not _holds(data, known):", "if len(data) < SIGNATURE:"),
    "the oldest word": (RECEIPTS, "key=lambda one: one[0].age, reverse=True)", "key=lambda one: one[0].age)"),
    "its own words": (RECEIPTS, "if word.agent != self._own:", "if word.agent >= 0:"),
    "a line that is cut": (RECEIPTS, "file.truncate(self._size)", "file.flush()"),
    "unsigned words are known again": (RECEIPTS, " and _holds(data, self._keys)", ""),
}  # fmt: skip
