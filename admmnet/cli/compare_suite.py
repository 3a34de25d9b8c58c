"""admmnet compare --suite: its words, and what it prints."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from click.core import ParameterSource

from admmnet.errors import RequestError
from admmnet.experiments.parsing import listed
from admmnet.experiments.progress import Watch
from admmnet.experiments.suite import FILE, FULL, PAGE, QUICK, SuiteResult, run_suite

ALLOWED = {"suite", "quick", "algorithms", "data_dir", "jobs", "out", "quiet", "as_json", "debug"}


def run_wanted(
    flags: dict[str, Any], config: str | None, *, jobs: int | None, quick: bool, watch: Watch
) -> SuiteResult:
    """Run the suite that the words ask for.

    Raises
    ------
    RequestError
        If a setting is given: they are all fixed.
    """
    context = click.get_current_context()
    given = [
        name
        for name in sorted(context.params)
        if name not in ALLOWED and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given or config is not None:
        what = config or f"--{given[0].replace('_', '-')}"
        raise RequestError(f"{what} does not go with --suite, whose settings are fixed: drop one of them")
    more = [] if flags["algorithms"] is None else listed(flags["algorithms"])
    suite = QUICK if quick else FULL
    return run_suite(flags["out"], more=more, suite=suite, data_dir=flags["data_dir"], jobs=jobs, watch=watch)


def print_suite(result: SuiteResult, *, quiet: bool, as_json: bool) -> None:
    """Print the page without its introduction, or the JSON; what was left out goes to standard error."""
    if as_json and not quiet:
        print(json.dumps(result.content, indent=2))
    elif not quiet:
        page = (result.folder / PAGE).read_text(encoding="utf-8")
        print("\n## " + page.partition("\n## ")[2])
        print(f"figures: {result.folder / FILE}, page: {result.folder / PAGE}")
    for words in result.left_out:
        print(f"left out: {words}", file=sys.stderr)
