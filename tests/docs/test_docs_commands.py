"""Commands, settings, examples and files that the pages show are those of the program."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest

from admmnet.cli import command_line
from admmnet.config.run_config import known_settings, own_settings
from admmnet.config.toml import load_config
from admmnet.errors import AdmmnetError
from admmnet.experiments.grid import Grid, grids_of
from admmnet.files import read_toml
from admmnet.methods import METHODS
from tests.doc_pages import MODULES, PAGES, ROOT, blocks, fenced, page, prose, section, text
from tests.run_folders import made


def command_words(line: str) -> list[str] | None:
    """Words after `admmnet` or `python -m admmnet` of a line of shell, None if it is another program's."""
    words = shlex.split(line.removeprefix("$ ").removesuffix(" &").replace("$i", "0"), comments=True)
    for start in (["admmnet"], ["python", "-m", "admmnet"]):
        for k in range(len(words)):
            if words[k : k + len(start)] == start and (k == 0 or words[0] in ("mpirun", "mpiexec")):
                return words[k + len(start) :]
    return None


def documented_commands(path: Path) -> Iterator[list[str]]:
    lines = [line for block in blocks(path, "bash") for line in block.splitlines()]
    lines += re.findall(r"^ {4}((?:admmnet|mpirun) .*)", prose(path), re.MULTILINE)
    return (words for line in lines if (words := command_words(line)) is not None)


@pytest.mark.parametrize("words", [words for path in PAGES for words in documented_commands(path)])
def test_documented_commands_parse(words: list[str]) -> None:
    """Walk the groups, then let the last command's own parser read its words."""
    if not words or words[0].endswith(".toml") or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    command: click.Command = command_line
    context = click.Context(command, info_name="admmnet")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r}"
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    try:
        values = command.make_context(command.name, list(words), parent=context.parent).params
    except click.exceptions.Exit:
        return  # the help page
    if command.name in ("run", "calibrate"):
        method = str(values.get("algorithm"))
        known = dict(known_settings()) | (own_settings(method) if method in METHODS.own else {})
        flags = {key for key, one in known.items() if one.base is not Mapping}
        load_config(None, {key: value for key, value in values.items() if key in flags})


def test_scripts_in_the_readme_can_be_started_and_every_exit_code_is_on_the_page() -> None:
    lines = [line for block in blocks(ROOT / "README.md", "bash") for line in block.splitlines()]
    scripts = [shlex.split(line)[0] for line in lines if line.startswith("launch/")]
    assert {"launch/demo.sh", "launch/test.sh"} <= set(scripts)
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)
    kinds: list[type[AdmmnetError]] = [AdmmnetError, *AdmmnetError.__subclasses__()]
    codes = {kind.exit_code for kind in kinds} | {0}
    assert codes <= set(map(int, re.findall(r"^- (\d+): ", section("cli.md", "Exit codes"), re.MULTILINE)))


def test_config_examples_load_and_imports_in_examples_exist(tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    for block in (block for path in PAGES for block in blocks(path, "toml") if "[build-system]" not in block):
        file.write_text(block, encoding="utf-8")
        if "[compare]" in block:
            assert all(map(Grid, grids_of(read_toml(file), file, {}, {}, "out").values()))
        else:
            load_config(file)
    for node in (
        node for path in PAGES for block in fenced(text(path), "python") for node in ast.walk(ast.parse(block))
    ):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("admmnet"):
            assert {alias.name for alias in node.names} <= {*dir(import_module(node.module or ""))}


def test_files_columns_and_a_header_of_a_run_folder_are_on_the_page(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", rounds=1)
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        columns = set(next(csv.reader(file)))
    words = {word for span in re.findall(r"`([^`\n]+)`", page("ledger.md")) for word in re.findall(r"[\w-]+", span)}
    assert sorted(columns - words) == []
    assert [file.name for file in folder.iterdir() if f"`{file.name}" not in page("ledger.md")] == []
    header = json.loads((folder / "ledger" / "agent-000.jsonl").read_text(encoding="utf-8").split("\n")[0])
    shown = list(json.loads(blocks(ROOT / "docs" / "ledger.md", "json")[0]))
    assert [key for key in header if key != "weight"] == shown


def test_tests_that_pages_and_code_name_exist() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    known = {*re.findall(r"def (test_\w+)\(", "".join(map(text, tests))), *(path.stem for path in tests)}
    named = set(re.findall(r"`(test_\w+)`", "".join(map(text, PAGES)))) - {"test_fraction", "test_error"}
    assert sorted(named - known) == []
    for path in (*MODULES, *PAGES, *tests):
        assert [file for file in re.findall(r"\btests/[a-z_/]+\.py\b", text(path)) if not (ROOT / file).exists()] == []
