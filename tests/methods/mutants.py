"""Mistakes of one line that tests of methods must see: place below admmnet/, text, and what stands there instead."""

MUTANTS = {
    "weight": ("methods/base.py", "counts[agent] * len(self.counts) / self", "counts[agent] / self"),
    "dual without hearing": ("methods/agents.py", "came, arrives & hears)", "came, arrives)"),
    "questions planned": ("methods/ipp_admm.py", "else int(self.settings.rounds)\n", "else self.releases\n"),
    "releases planned": ("methods/pp_admm.py", "(event, self.releases) for", "(event, self.releases - 1) for"),
    "joining questions": ("methods/ipp_admm.py", "((event, asked),)", "((event, 1),)"),
    "who listens has a dual": ("methods/ipp_admm.py", "return own.met & own.acquainted", "return own.met"),
    "rounds between planned": ("methods/pp_admm.py", "(event, self.releases) for", "(event, self.settings.rounds) for"),
    "ridge": ("methods/rivals.py", "m = max(m, self.ridge(", "m = min(m, self.ridge("),
    "sums share mu": ("methods/sums.py", "mu / math.sqrt(self.rounds)", "mu / self.rounds"),
    "masked noise rounds down": ("methods/sums.py", "math.ceil(fraction * 2.0**24)", "math.floor(fraction * 2.0**24)"),
    "whose records": ("methods/noisy_sums.py", "grid / self.records_of(total.agents)", "grid / self.facts.records"),
    "mixing charged": ("methods/dp_dsgd.py", "((event, self.gradients),)", "((event, self.rounds),)"),
    "local steps free": ("methods/dp_dsgd.py", "return self.rounds * self.local", "return self.rounds"),
    "masked stage": ("methods/encoding.py", "min(nominal.values()) if", "nominal[agent] if"),
    "stages are free": ("methods/encoding_rule.py", "rho * (1.0 - self.share) for agent", "rho for agent"),
    "silence is heard": ("methods/agents.py", "hears & said[self._source]", "hears"),
    "series charged": (
        "methods/single_site/base.py",
        "((series.event(known), 1),)",
        "((self.series(9).event(known), 1),)",
    ),
}
