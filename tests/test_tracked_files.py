"""No tracked file holds an absolute path, but those of an installed service, or the address of a package registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.doc_pages import ROOT, name

ABSOLUTE = re.compile(
    r"(?<![\w.~$})/:*-])/(?:home|root|work|tmp|Users|usr|opt|mnt|etc|var|srv)/"
    r"(?!bin/env\b|(?:lib/)?admmnet\b|systemd/system\b)[\w.-]+"
)
HOSTS = ("pypi org", "pythonhosted org", "anaconda org", "npmjs org", "npmjs com", "proxy.golang org", "crates io")
REGISTRIES = re.compile("|".join(re.escape(host.replace(" ", ".")) for host in HOSTS))


def tracked_files() -> list[Path]:
    """Files that are, or with the next commit may be, under version control."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        pytest.skip("there is no git here")
    if done.returncode:
        pytest.skip("this is no git repository")
    files = [ROOT / part.decode() for part in done.stdout.split(b"\0") if part]
    return [path for path in files if path.is_file()]


def test_tracked_files_hold_no_absolute_paths_and_no_registries() -> None:
    files = tracked_files()
    assert len(files) > 50
    found = []
    for path in files:
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [(name(path), match[0]) for rule in (ABSOLUTE, REGISTRIES) for match in rule.finditer(content)]
    assert found == []


def test_every_measurement_of_speed_has_its_line_on_the_page() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text()
    for file in ("speed", "scale"):
        assert f"python -m tests.benchmarks.{file} " in page
        shown = re.findall(rf"`{file} (\w+)`", page)
        assert shown
        text = (ROOT / f"tests/benchmarks/{file}.py").read_text()
        assert [part for part in shown if f"- {part}: " not in text] == []
