"""Mistakes of the command line that the tests beside this file must see (tests/mutate.py)."""

MUTANTS = {
    "a run that has ended is begun again": ("cli/again.py", "if isinstance(error, RunEnded):", "if error is None:"),
    "noise of vectors is called a gate's": ("cli/calibrate.py", "if gated and before else", "if before else"),
    "delta by the largest agent": (
        "cli/calibrate.py",
        "with_delta(settings, list(counts.values()))",
        "with_delta(settings, [max(counts.values())])",
    ),
    "noise of the first agent for all": (
        "cli/calibrate.py",
        "contract, noise = contracts[i]",
        "contract, noise = contracts[0]",
    ),
    "a dry run needs no mode": ("cli/calibrate.py", "    check_mode(settings)\n", ""),
    "a schema file overrides flags": ("cli/settings.py", "if ctx.params.get(name) is None:", "if name:"),
    "a run without an agent ends with 0": ("cli/settings.py", "absent(convert(summary, Summary))", "not summary"),
    "a simulation passes for private": ("cli/ledger.py", "private = require is not None", "private = False"),
    "a folder is held against itself": ("cli/ledger.py", "if run.resolve() in [path", "if run in [path"),
    "another delta has no effect": ("cli/ledger.py", '"total": account.total(delta)', '"total": account.total()'),
    "accounts add up at the least delta": ("cli/ledger.py", "delta = max(accounts[name]", "delta = min(accounts[name]"),
    "an account is added to itself": ("cli/ledger.py", "if folder.resolve() in", "if folder in"),
    "the oldest run is watched": ("cli/watch.py", "run = found[-1].parent", "run = found[0].parent"),
}
