"""Mistakes that these tests must notice: file, old text, new text."""

MUTANTS = {
    "a reserve need not fit": ("holder/door.py", "round, cost, reserved)", "round, cost)"),
    "any relation": ("holder/door.py", 'not in ("replace-one", promised)', 'not in ("replace-one", "zero-out")'),
    "another member's count": ("holder/door.py", "Known(holder.counts[member]", "Known(holder.counts[0]"),
    "a candidate outlives others": ("holder/door.py", "and key != part.question.second]", "and not key]"),
    "an error quotes records": ("holder/door.py", "found = error if told else", "found = error if error.args else"),
    "slack by length": ("holder/holder.py", "row_slack(rows.shape[1]):", "row_slack(rows.shape[0]):"),
    "silence ends too soon": ("holder/outbox.py", "round <= max(self.last, self.silent_until)", "round <= self.last"),
    "an answer of another round": ("holder/outbox.py", "= [round, type(question)", "= [type(question)"),
    "no category is the last": ("holder/encoding.py", "(code >= 0) & (code < column", "(code < column"),
    "inexact by half": ("holder/measurements/minimiser.py", "inexact = 2.0 * self.beta / m", "inexact = self.beta / m"),
    "over those drawn": ("holder/measurements/gradient.py", "[0] * (len(y) / known.records) if", "[0] if"),
    "noise of colluders": ("holder/measurements/sums.py", "attempt.parts)", "attempt.parts + known.attempt.colluders)"),
    "a column counts once": (
        "holder/measurements/counts.py",
        "sqrt(2.0 * self.columns.size)",
        "sqrt(self.columns.size)",
    ),
    "any series is paid for": (
        "holder/series/base.py",
        "return repr((type(self).__name__, *fields))",
        "return type(self).__name__",
    ),
    "fixed as poisson": ("holder/series/base.py", 'if sampling == "fixed" else self.noise', "if False else self.noise"),
    "a step of nobody": ("holder/series/coordinate.py", "np.where(squares > 0.0", "np.where(squares >= 0.0"),
    "the least asked is booked": ("holder/series/single_pass.py", "self.epsilon.max()", "self.epsilon.min()"),
}
