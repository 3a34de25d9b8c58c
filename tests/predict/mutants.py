"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "training records are read": ("predict/apply.py", "simulation and not public", "simulation and public"),
    "another name hides the training file": ("predict/apply.py", "one.samefile(other))", "False)"),
    "an agent's own file is no training record": ("predict/apply.py", '"shard" if any(', '"pool" if not any('),
    "new rows of a private encoding are read as they are": (
        "predict/apply.py",
        '"declared" if model.found.encoding is None else "private"',
        '"declared"',
    ),
    "the mean in place of an agent": ("predict/model.py", "np.ascontiguousarray(self.theta[agent])", "self.consensus"),
    "scores of another unit": ("predict/apply.py", "rows.target.unscaled(score)", "(score)"),
    "new rows are not whitened": ("predict/apply.py", "model.found.rows(rows.X_test)", "rows.X_test"),
    "noise of one step alone": ("predict/noise.py", "(1.0 + momentum) * point", "point"),
    "the noise of the least curvature": ("predict/noise.py", "np.max(np.square", "np.min(np.square"),
    "sums before the first round are noise": ("predict/noise.py", "if round >= 0 and", "if"),
    "each agent's noise is that of the sum": ("predict/noise.py", "event.sigma**2 / event.parts", "event.sigma**2"),
    "coefficients of what A makes": ("predict/noise.py", "        vector = vector @ A\n", ""),
    "beyond one deviation": ("predict/noise.py", "BEYOND = 2.0", "BEYOND = 1.0"),
    "a file without its whitening": ("predict/export.py", "None if A is None else A.tolist()", "None"),
    "a reach of another centre": ("predict/export.py", '"reach": target.reach}', '"reach": target.high}'),
    "predictions replace the rows": ("cli/model.py", "and out.samefile(rows", "and str(out) == str(rows"),
}
