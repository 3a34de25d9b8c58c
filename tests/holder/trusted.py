"""The trusted base: files on which privacy rests, with their lines of code; prints the table of docs/proofs.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "the door, holders, measurements": ["holder/*.py", "holder/measurements/*.py"],
    "masks of sums": ["masking/*.py", "running/attempts.py"],
    "series of the single-site methods": ["holder/series/*.py"],
    "solvers and their certificates": [
        *(
            f"solvers/{name}.py"
            for name in ("certificate", "kernel", "newton", "wide", "accurate", "radius", "ball_query", "batch")
        ),
        "solvers/_kernel.c",
        "solvers/blocks/*.py",
    ],
    "losses and randomness": ["solvers/losses.py", "solvers/softmax.py", "solvers/tabled.py", "rng.py"],
    "events, costs, ledger": [
        "forms.py",
        *(
            f"privacy/{name}.py"
            for name in (
                *(
                    "events",
                    "mechanisms",
                    "proven",
                    "published",
                    "subsampled",
                    "conversion",
                    "budget",
                    "discrete",
                    "contract",
                    "filters",
                ),
                *(f"ledger/{part}" for part in ("lines", "form", "file", "lock", "account", "audit", "checks")),
            )
        ),
    ],
    "wiring: mode, holders, order of a round, resume": [
        "config/modes.py",
        *(
            f"running/{name}.py"
            for name in (
                "loading",
                "plan",
                "contract",
                "node",
                "together",
                "entrance",
                "loop",
                "rounds",
                "checkpoint/state",
            )
        ),
    ],
}
_SPACE = {getattr(tokenize, name) for name in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")}


def code_lines(text: str) -> int:
    """Lines without docstrings, comments and blank ones; of Python, or of C whose comments begin lines."""
    if text.startswith("/*"):
        return sum(
            bool(line.strip()) for line in re.sub(r"^ */\*.*?\*/", "", text, flags=re.DOTALL | re.MULTILINE).split("\n")
        )
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for line in body if isinstance(body, list) else ():
            if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                strings |= set(range(line.lineno, (line.end_lineno or line.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SPACE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


FREE = {f"holder/series/{name}.py" for name in ("sdca", "plain_kernels", "magnitude")}
"""Steps of methods whose cost is `Unprotected` whatever they do, and functions of numbers that have noise already."""


def counted() -> dict[str, dict[str, int]]:
    """Place to file to lines; files without code are left out."""
    found: dict[str, dict[str, int]] = {}
    for place, patterns in PLACES.items():
        files = sorted(path for pattern in patterns for path in (ROOT / "admmnet").glob(pattern))
        lines = {path.relative_to(ROOT / "admmnet").as_posix(): code_lines(path.read_text()) for path in files}
        found[place] = {name: count for name, count in lines.items() if count and name not in FREE}
    return found


def table() -> str:
    """Markdown."""
    rows = ["| what | files, lines | lines |", "|---|---|---|"]
    total = 0
    for place, files in counted().items():
        total += sum(files.values())
        listed = ", ".join(f"`{name}` {count}" for name, count in files.items())
        rows.append(f"| {place} | {listed} | {sum(files.values())} |")
    return "\n".join([*rows, f"| all | | {total} |"])


if __name__ == "__main__":
    print(table())  # noqa: T201
