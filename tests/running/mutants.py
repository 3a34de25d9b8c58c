"""Mistakes in admmnet/running that tests of this folder must find."""

MUTANTS = {
    "a ledger is ahead of the journal": (
        "running/rounds.py",
        "            journal.note(round, there)\n",
        "            [node.ledger.commit() for node in there]\n            journal.note(round, there)\n",
    ),
    "a void round is repeated": ("running/journal.py", "round in self.past[node.id].void", "round < 0"),
    "a folder behind costs nothing": ("running/loop.py", "            account.restore()\n", "            pass\n"),
    "duals that do not sum to zero": ("running/chain.py", "duals[sorted(part)].mean(axis=0)", "duals.mean(axis=0)"),
    "one agent too few is masked": ("running/rounds.py", "self.colluders + 2:", "self.colluders + 1:"),
    "noise counts as a sum": ("running/rounds.py", "return None if noise else total", "return total"),
    "noise of the loosest": ("running/plan.py", "min(ratios.values())", "max(ratios.values())"),
    "a budget above the public one": ("running/before.py", "most * (1.0 + 1e-6)", "most * (1.0 + 1e-3)"),
    "more records than the network file allows": ("running/topics.py", "agent] <= most", "agent] <= most + 1"),
    "more parts than the account has": ("running/accounts.py", "parts > account.", "parts < account."),
    "records of a private run are told": ("running/arguments.py", "        if simulation:\n", "        if words:\n"),
    "a private file is told": ("running/arguments.py", "config.simulation and AGENT not in data", "AGENT not in data"),
    "a weaker trust is taken over": ("running/takeover.py", "settings.colluders > colluders", "settings.colluders < 0"),
    "the minority is believed": ("running/prologue.py", "min(digests, key=", "max(digests, key="),
    "any model is signed": ("running/closing.py", "not in models", "in ()"),
    "two ends are signed": ("running/starts.py", "return self.signed == digest", "return bool(digest)"),
    "times of private solves": ("running/summary.py", "solve if simulation else 0.0", "solve"),
    "equal weights": ("running/observer.py", "@ counts[there] / counts[there].sum()", "@ there[there] / there.sum()"),
}  # fmt: skip
