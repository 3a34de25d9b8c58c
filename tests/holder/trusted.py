"""The trusted base: files on which privacy rests, with their lines of code; prints the table of docs/proofs.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FREE = {f"holder/series/{name}.py" for name in ("sdca", "plain_kernels", "magnitude")} | {
    "holder/outbox.py",
    "solvers/blocks/steps.py",
}
"""Steps of methods whose cost is `Unprotected` whatever they do, series without a door, functions of numbers that have
noise already, answers that have left, and directions of steps to points that are certified."""
FOLDERS = {
    ".": "forms masking rng",
    "config": "modes",
    "holder": "*",
    "holder/measurements": "*",
    "holder/series": "*",
    "privacy": "budget contract conversion events mechanisms proven subsampled",
    "privacy/ledger": "account audit checks file form lines",
    "running": "entrance loading loop plan rounds",
    "solvers": "_kernel.c accurate certificate losses newton radius",
    "solvers/blocks": "*",
}
"""The files that are trusted, by folder of the package."""
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


@cache
def counted() -> dict[str, dict[str, int]]:
    """Folder to file to lines; files without code are left out."""
    package = ROOT / "admmnet"
    found: dict[str, dict[str, int]] = {}
    for folder, names in FOLDERS.items():
        patterns = [name if "." in name else f"{name}.py" for name in names.split()]
        files = sorted(path for pattern in patterns for path in (package / folder).glob(pattern))
        trusted = [path for path in files if path.relative_to(package).as_posix() not in FREE]
        lines = {path.name.removesuffix(".py"): code_lines(path.read_text()) for path in trusted}
        found[f"{folder}/"] = {name: count for name, count in lines.items() if count}
    return found


def row(folder: str) -> tuple[str, int]:
    """What the table says of a folder: its files, by name or as so many that are all, and their lines."""
    files = counted()[folder]
    whole = FOLDERS[folder.rstrip("/")] == "*"
    return f"all {len(files)}" if whole else f"`{' '.join(files)}`", sum(files.values())


def table() -> str:
    """Markdown."""
    rows = ["| folder | files | lines |", "|---|---|---|"]
    for folder in counted():
        files, lines = row(folder)
        rows.append(f"| `{folder}` | {files} | {lines} |")
    return "\n".join([*rows, f"| | | {sum(row(folder)[1] for folder in counted())} |"])


if __name__ == "__main__":
    print(table())  # noqa: T201
