"""No tracked file holds an absolute path or the address of a package registry; mutants and measurements are at hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.doc_pages import ROOT, name, page
from tests.mutate import hand_made

ABSOLUTE = re.compile(
    r"(?<![\w.~$})/:*-])/(?:home|root|work|tmp|Users|usr|opt|mnt|etc|var|srv)/"
    r"(?!bin/env\b|(?:lib/)?admmnet\b|systemd/system\b)[\w.-]+"
)
"""But for paths of an installed service."""
HOSTS = ("pypi org", "pythonhosted org", "anaconda org", "npmjs org", "npmjs com", "proxy.golang org", "crates io")
REGISTRIES = re.compile("|".join(re.escape(host.replace(" ", ".")) for host in HOSTS))


def test_tracked_files_hold_no_absolute_paths_and_no_registries() -> None:
    """Files that are, or with the next commit may be, under version control."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=20, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("there is no git here, or this is no repository")
    files = [path for part in done.stdout.split(b"\0") if part and (path := ROOT / part.decode()).is_file()]
    assert len(files) > 50
    texts = ((name(path), path.read_bytes()) for path in files)
    known = [(file, text.decode()) for file, text in texts if b"\0" not in text]
    assert [
        (file, found) for file, text in known for rule in (ABSOLUTE, REGISTRIES) for found in rule.findall(text)
    ] == []


@pytest.mark.parametrize("file", sorted((ROOT / "tests").glob("*/mutants.py")), ids=lambda file: file.parent.name)
def test_every_mutant_can_be_made(file: Path) -> None:
    """The text of each is in its file, and the night can try it."""
    assert list(hand_made(file))


def test_every_measurement_of_speed_has_its_line_on_the_page() -> None:
    for file in ("speed", "scale"):
        assert f"python -m tests.benchmarks.{file} " in page("benchmarks.md")
        shown = re.findall(rf"`{file} (\w+)`", page("benchmarks.md"))
        assert shown
        text = (ROOT / f"tests/benchmarks/{file}.py").read_text()
        assert [part for part in shown if f"- {part}: " not in text] == []
