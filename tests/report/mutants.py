"""Mistakes of reports and pictures that the tests beside this file must see (tests/mutate.py)."""

PAGE, PLOT, SERIES = (f"report/{name}.py" for name in ("page", "run_plot", "series"))
SPOKE = "(made[known] == run.rounds[known, None] + 1).all()"
MUTANTS = {
    "a charge counts a round late": (SERIES, 'rounds, side="right")', 'rounds, side="left")'),
    "proven runs have the paper's epsilon": (SERIES, '["method"] == "proven":', '["method"] != "proven":'),
    "half a round is read": (SERIES, "lines[: len(lines) // (1 + size) * (1 + size)]", "lines[:]"),
    "agents are in another order": (SERIES, "(cube[:, :, 1] == agents).all() and ", ""),
    "an absent agent joined": (SERIES, " and one.rho_proven is not None]", "]"),
    "a folder that does not verify": (PAGE, "for name, run in found if not run.faults]", "for name, run in found]"),
    "text is taken for HTML": (PAGE, "autoescape=True", "autoescape=False"),
    "equal rounds count once": (PAGE, "[(times * n, mechanism, words)", "[(n, mechanism, words)"),
    "certainty by twice the delta": (PAGE, "1.0 + delta * tail", "1.0 + 2.0 * delta * tail"),
    "a loose delta goes unsaid": (PAGE, 'is_loose(delta, one["shown"]["records"], own)', "is_loose(delta, 1, own)"),
    "deltas that differ go unsaid": (
        PAGE,
        'len({run["verdict"].privacy.delta',
        'len({run["verdict"].privacy.accountant',
    ),
    "the least epsilon is drawn": (PLOT, "line = each.max(axis=1)", "line = each.min(axis=1)"),
    "an outlier is left out of the band": (PLOT, "(0, 25, 75, 100)", "(5, 25, 75, 95)"),
    "errors a hundredth": (PLOT, "100.0 if name == run.metric", "1.0 if name == run.metric"),
    "silent agents spoke": (PLOT, SPOKE, SPOKE.replace("==", "<=")),
}
