"""The table of docs/privacy.md, "Auditing": lower bounds on epsilon beside what is proven.

python -m tests.benchmarks.audit --trials 10000 --seed 0 [WORD ...]    # mechanisms whose names have such a word
"""

from __future__ import annotations

import argparse

from admmnet.auditing import Mechanism, audit
from admmnet.auditing.network import (
    AgentRounds,
    GammaRelease,
    HeldQuestions,
    MinimiserRelease,
    NoisyQuestion,
    NormQuestion,
)
from admmnet.auditing.sampled import SampledSteps
from admmnet.auditing.sums import GradientRounds, MaskedRounds, MomentRelease

from .common import row

MECHANISMS: tuple[Mechanism, ...] = (
    MinimiserRelease("objective"),
    MinimiserRelease("output"),
    AgentRounds(release="objective"),
    AgentRounds(release="output"),
    NoisyQuestion(),
    NoisyQuestion(12),
    NormQuestion(),
    HeldQuestions(),
    GammaRelease(),
    GradientRounds(1),
    GradientRounds(),
    MomentRelease(),
    MaskedRounds(keys=False),
    MaskedRounds(keys=True),
    *(SampledSteps(method, rate) for method in ("dp-sgd", "dp-scd") for rate in (1.0, 0.5)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    print("| mechanism | by counting | Gaussian reading | proven | published |\n|---|---|---|---|---|")
    for mechanism in MECHANISMS:
        if not asked.words or any(word in mechanism.name for word in asked.words):
            found = audit(mechanism, asked.trials, asked.delta, asked.seed)
            figures = (found.lower, found.lower_gaussian, found.proven, found.published)
            print(row(found.mechanism, *("" if x is None else f"{x:.2f}" for x in figures)), flush=True)


if __name__ == "__main__":
    main()
