"""Mistakes of the auditor that the tests beside this file must see (tests/mutate.py)."""

MUTANTS = {
    "one count too many below": (
        "auditing/bounds.py",
        "np.maximum(count, 1), missed + 1)",
        "np.maximum(count, 1) + 1, missed)",
    ),
    "both bounds at the whole error": (
        "auditing/bounds.py",
        "stats.beta.isf(error, count + 1",
        "stats.beta.isf(4.0 * error, count + 1",
    ),
    "no event below a threshold": (
        "auditing/bounds.py",
        "return reached if self.above",
        "return reached if self.inside",
    ),
    "the other world is likelier": (
        "auditing/bounds.py",
        "(inside, out) if event.inside else (out, inside)",
        "(inside, out)",
    ),
    "delta is left out": ("auditing/bounds.py", "np.maximum(low - delta, 0.0)", "np.maximum(low, 0.0)"),
    "the spread at its estimate": ("auditing/bounds.py", "shift / largest) if", "shift / spread) if"),
    "the shift at its estimate": ("auditing/bounds.py", "stats.t.isf(0.5 * error, free)", "stats.t.isf(0.5, free)"),
    "the choosing trials are tested": (
        "auditing/audit.py",
        "out.scores[first:], inside.scores[first:]",
        "out.scores, inside.scores",
    ),
    "a figure of some is one of all": ("auditing/audit.py", "None if None in known else max", "max"),
    "nan is in no event": ("auditing/audit.py", "~(np.abs(scores) <= LARGEST)", "np.abs(scores) > LARGEST"),
    "both worlds draw the same noise": ("auditing/audit.py", "default_rng((seed, world, k))", "default_rng((seed, k))"),
    "all trials draw the same noise": (
        "auditing/audit.py",
        "default_rng((seed, world, k))",
        "default_rng((seed, world))",
    ),
    "the canary is in both worlds": (
        "auditing/methods.py",
        "COSINE if world else -COSINE",
        "COSINE if world else COSINE",
    ),
    "neighbours leave the agent where it is": (
        "auditing/methods.py",
        "float(agents.convexity[0]) * FAR, unit) * unit",
        "0.0, unit) * unit",
    ),
    "batches are told apart": ("auditing/steps.py", "(every or known) else", "(every or known or True) else"),
    "a batch at its wrong chance": (
        "auditing/steps.py",
        "q = self.series.batch / self.records\n",
        "q = 1.0 - self.series.batch / self.records\n",
    ),
}
