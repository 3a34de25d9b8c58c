"""Mistakes of reports and pictures that the tests beside this file must see (tests/mutate.py)."""

MUTANTS = {
    "a charge counts a round late": ("report/series.py", 'len(rounds)), side="right")', 'len(rounds)), side="left")'),
    "proven runs have the paper's epsilon": ("report/series.py", '["method"] == "proven":', '["method"] != "proven":'),
    "half a round is read": ("report/series.py", "lines[: len(lines) // (1 + size) * (1 + size)]", "lines[:]"),
    "agents are in another order": ("report/series.py", "(cube[:, :, 1] == agents).all() and ", ""),
    "an absent agent joined": ("report/series.py", " and one.rho_proven is not None}", "}"),
    "figures of a folder that does not verify": (
        "report/page.py",
        "for name, run in found if not run.faults]",
        "for name, run in found]",
    ),
    "text is taken for HTML": ("report/page.py", "autoescape=True", "autoescape=False"),
    "equal rounds count once": ("report/page.py", "[(times * n, mechanism, words)", "[(n, mechanism, words)"),
    "certainty by twice the delta": ("report/page.py", "1.0 + delta * tail", "1.0 + 2.0 * delta * tail"),
    "a loose delta goes unsaid": (
        "report/page.py",
        'is_loose(delta, one["shown"]["records"], own)',
        "is_loose(delta, 1, own)",
    ),
    "deltas that differ go unsaid": (
        "report/page.py",
        '"deltas": len({run["privacy"].delta',
        '"deltas": len({run["privacy"].accountant',
    ),
    "the least epsilon is drawn": ("report/panels.py", "spent.max(axis=1)), spent", "spent.min(axis=1)), spent"),
    "an outlier is left out of the band": ("report/panels.py", "(0, 25, 75, 100)", "(5, 25, 75, 95)"),
    "errors a hundredth": (
        "report/panels.py",
        'factor = 100.0 if run.metric == "error"',
        'factor = 1.0 if run.metric == "error"',
    ),
    "silent agents spoke": (
        "report/run_plot.py",
        "(made[known] == run.rounds[known, None] + 1).all()",
        "(made[known] <= run.rounds[known, None] + 1).all()",
    ),
}
