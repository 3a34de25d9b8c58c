"""Mistakes of the auditor that the tests beside this file must see (tests/mutate.py)."""

AUDIT, METHODS, STEPS = (f"auditing/{name}.py" for name in ("audit", "methods", "steps"))
Q = "q = self.series.batch / self.records\n"
RNG = "default_rng((seed, world, k))"
MUTANTS = {
    "one count too many below": (AUDIT, "np.maximum(count, 1), missed + 1)", "np.maximum(count, 1) + 1, missed)"),
    "both bounds at the whole error": (AUDIT, "beta.isf(error, count + 1", "beta.isf(4.0 * error, count + 1"),
    "no event below a threshold": (AUDIT, "return reached if self.above", "return reached if self.inside"),
    "the other world is likelier": (AUDIT, "(inside, out) if event.inside else (out, inside)", "(inside, out)"),
    "delta is left out": (AUDIT, "np.maximum(low - delta, 0.0)", "np.maximum(low, 0.0)"),
    "the spread at its estimate": (AUDIT, "shift / largest) if", "shift / spread) if"),
    "the shift at its estimate": (AUDIT, "stats.t.isf(0.5 * error, free)", "stats.t.isf(0.5, free)"),
    "the choosing trials are tested": (AUDIT, "out.scores[first:], inside.scores[first:]", "out.scores, inside.scores"),
    "a figure of some is one of all": (AUDIT, "None if None in known else max", "max"),
    "nan is in no event": (AUDIT, "~(np.abs(scores) <= LARGEST)", "np.abs(scores) > LARGEST"),
    "both worlds draw the same noise": (AUDIT, RNG, "default_rng((seed, k))"),
    "all trials draw the same noise": (AUDIT, RNG, "default_rng((seed, world))"),
    "the canary is in both worlds": (METHODS, "COSINE if world else -COSINE", "COSINE if world else COSINE"),
    "neighbours leave the agent where it is": (METHODS, "float(agents.convexity[0]) * FAR", "0.0"),
    "batches are told apart": (STEPS, "(every or known) else", "(every or known or True) else"),
    "a batch at its wrong chance": (STEPS, Q, Q.replace("q =", "q = 1.0 -")),
}
