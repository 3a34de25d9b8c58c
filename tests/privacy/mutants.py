"""Mistakes that the tests of this folder must find: file below admmnet, text that is there, text in its place."""

MUTANTS = {
    "mu read from above": ("privacy/conversion.py", "\n    return low\n", "\n    return high * (1.0 + 1e-9)\n"),
    "8 kappa is forgotten": ("privacy/proven.py", "min(whole, max(slope, 8.0 * kappa))", "min(whole, slope)"),
    "Theorem 26 for every loss": (
        "privacy/proven.py",
        "if not (event.lam is not None and k <= most):",
        "if not k <= most:",
    ),
    "unmasked totals lag": ("privacy/budget.py", "if masked or self.unmasked is not None:", "if masked:"),
    "kappa of masked sums alone": ("privacy/contract.py", "not total.kappa_alone <=", "not total.kappa <="),
    "collusion without a limit": ("privacy/contract.py", ", (total.unmasked, self.parts * self.most_added))", ",)"),
    "draws without end": ("privacy/contract.py", "if total.draws > self.draws:", "if False:"),
    "refusals are forgotten": ("privacy/contract.py", "if self.refused_at is not None or ", "if "),
    "a restored account is full": ("privacy/contract.py", "over.used_up(totals)", "totals"),
    "any header's filter": (
        "privacy/ledger/checks.py",
        "filter.most_added <= right.most_added",
        "filter.most_added >= 0.0 * right.most_added",
    ),
    "an order of no grid": ("privacy/ledger/checks.py", "filter.order != ORDERS[filter.place]", "False"),
    "sampled steps rounded down": ("privacy/subsampled.py", "math.ceil(math.log(worst)", "math.floor(math.log(worst)"),
    "any relation": ("privacy/ledger/checks.py", 'not in ("replace-one", contract.adjacency)', "is None"),
    "another agent's run": ("privacy/ledger/checks.py", "    if own != asked:\n", "    if own[1:] != asked[1:]:\n"),
    "only the last run is held": ("privacy/ledger/audit.py", "checks.hold_budget(payer, totals)\n" + " " * 20, ""),
    "a cut ledger goes on": ("privacy/ledger/file.py", "book.finished <= since.before:", "book.finished < 0:"),
    "an account after its ledger": ("privacy/ledger/file.py", "self._account.commit()", "pass"),
    "another run's filter": ("privacy/ledger/file.py", "self._over += (self._account.filter,)", "pass"),
    "a cut account": ("privacy/ledger/account.py", "is not None and not self._marked:", "is not None and False:"),
    "an account is not on the disk": ("privacy/ledger/account.py", "durable=True, kept", "durable=False, kept"),
    "a readout shows more": ("privacy/network/shifts.py", "quiet = pairs.free & ~grouped", "quiet = pairs.free"),
    "agents share a stream": ("rng.py", "spawn_key=(agent, int(purpose))", "spawn_key=(int(purpose),)"),
}
