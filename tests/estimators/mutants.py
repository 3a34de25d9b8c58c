"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "fits forget earlier ones": ("estimators/tally.py", "added([self.totals, largest(spent)])", "largest(spent)"),
    "the largest delta is read": ("estimators/tally.py", "min(self.delta, delta)", "max(self.delta, delta)"),
    "zero-out becomes replace-one": ("estimators/tally.py", '"zero-out" else self.adj', '"zero-out" else adj'),
    "what failed costs nothing": ("estimators/tally.py", '(out / "ledger").is_dir()', '(out / "model.npz").is_file()'),
    "what no proof covers is free": ("estimators/tally.py", "method.covered", "True"),
    "several accounts are one": ("estimators/tally.py", "self.accounts == {account}", "account in self.accounts"),
    "a seeded fit is private": ("estimators/tally.py", "seed is None and method.private", "method.private"),
    "saved models tell of other fits": ("estimators/base.py", ', "process": None}', "}"),
    "targets of another centre": ("estimators/base.py", "np.asarray(y) - (low + high)", "np.asarray(y) - high"),
    "predictions in another unit": ("estimators/base.py", "0.5 * (low + high) + 0.5 *", "0.5 * (low + high) + "),
    "the first class is the second": ("estimators/base.py", "codes == 1, 1.0, -1.0", "codes == 0, 1.0, -1.0"),
    "squares are log-odds": ("estimators/base.py", '"logistic", "softmax")', '"logistic", "softmax", "squared")'),
    "groups are dealt anew": ("estimators/network.py", "np.flatnonzero(owners == i)", "np.flatnonzero(owners >= i)"),
    "auto measures three classes": ("estimators/network.py", "two=not numeric and", "two=numeric or"),
}
