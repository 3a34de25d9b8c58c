"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "chance decides": ("papers/driver.py", "confidence_interval(1.0 - CHANCE)", "confidence_interval(CHANCE)"),
    "pairs are not compared": ("papers/driver.py", "stats.ttest_rel(a, b) if paired", "stats.ttest_rel(a, b) if False"),
    "level refutes": ("papers/driver.py", "or alike == places", "or level == places"),
    "one place is enough": ("papers/driver.py", 'found["below"] == places', 'found["below"]'),
    "the steadier is the wilder": ("papers/driver.py", "if tail < 0.5", "if tail > 0.5"),
    "what has not learned decides": ("papers/ding2020.py", "- LEARNED]", "+ LEARNED]"),
    "a choice that is beaten is good": ("papers/ding2020.py", 'and "above" not in others', 'and "level" not in others'),
    "a least at the end is decided": ("papers/damaskinos2021.py", "min(series) < best", "min(series) <= best"),
    "the dearer tuning saves": ("papers/damaskinos2021.py", '"below" if cheaper', '"below" if not cheaper'),
    "standing still keeps up": ("papers/banco.py", "START * own[0]", "9.0 * own[0]"),
    "a bound without its logarithm": ("papers/banco.py", "* math.sqrt(log) + 1.0 / steps", "* log + 1.0 / steps"),
    "a step's noise of another pass": ("papers/song2013.py", 'ALPHA if method == "private" else None', "ALPHA"),
    "seeds share their noise": ("papers/sources.py", "[seed, k]) for k in (2, 3)", "[0, k]) for k in (2, 3)"),
}
