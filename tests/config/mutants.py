"""Mistakes in settings that the tests beside this file must see (tests/mutate.py)."""

MUTANTS = {
    "delta by the largest agent": ("config/run_config.py", "0.1 / min(counts)", "0.1 / max(counts)"),
    "a loose delta is noted ten times too late": (
        "config/run_config.py",
        "(1.0 if delta <= own",
        "(1.0 if delta >= own",
    ),
    "some accounts decide for all": ("config/run_config.py", "if len(accounts) == len(counts) and len", "if len"),
    "a seed outdoes private": ("config/run_config.py", "return not self.private and (", "return ("),
    "seed 0 counts as none beside private": (
        "config/run_config.py",
        "self.private and value is not None and value is not False",
        "self.private and value",
    ),
    "seed 0 goes with an account": (
        "config/run_config.py",
        "if self.seeded and self.account",
        "if self.seed and self.account",
    ),
    "an unseeded run must keep its kernel": ("config/run_config.py", ' and (self.seeded or n != "kernel")', ""),
    "declared data count as measured": (
        "config/run_config.py",
        "raw = tried and not self.data_dependent and",
        "raw = tried and",
    ),
    "a link to the training file is a test file": ("config/modes.py", "own = os.path.realpath(test)", "own = test"),
    "splits by value are private": ("config/modes.py", '("dirichlet", "by-column"):', '("dirichlet",):'),
    "a published run needs no word on accounts": (
        "config/modes.py",
        "settings.account is not None or settings.no_account",
        'settings.account is not None or settings.no_account or settings.method == "published"',
    ),
    "a stranger's loss sees private records": ("config/modes.py", "or is_ours(", "or not is_ours("),
    "flags of 0 do not override": (
        "config/toml.py",
        "(flags or {}).items() if value is not None",
        "(flags or {}).items() if value",
    ),
    "a value of 0 is not written down": (
        "config/toml.py",
        "saved and value is not None and value != {}",
        "saved and value",
    ),
    "1.5 is a whole number": (
        "settings.py",
        "isinstance(value, float) and value.is_integer():",
        "isinstance(value, float):",
    ),
}
