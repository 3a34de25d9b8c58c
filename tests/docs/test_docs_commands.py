"""Commands, settings, examples and files that the pages show are those of the program."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shlex
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest

from admmnet import run
from admmnet.cli import command_line
from admmnet.config.run_config import RunConfig, known_settings, own_settings
from admmnet.config.toml import load_config
from admmnet.errors import AdmmnetError
from admmnet.experiments.grid import Grid
from admmnet.experiments.grid_file import grids_of
from admmnet.files import read_toml
from admmnet.forms import encode
from admmnet.methods import METHODS
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import Gaussian
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger.form import Header
from tests.doc_pages import PAGES, ROOT, blocks, fenced, name, page, prose, section, text, whole_files


def command_words(line: str) -> list[str] | None:
    """Words after `admmnet` or `python -m admmnet` of a line of shell, None if it is another program's."""
    words = shlex.split(line.removeprefix("$ ").removesuffix(" &").replace("$i", "0"), comments=True)
    for start in (["admmnet"], ["python", "-m", "admmnet"]):
        for k in range(len(words)):
            if words[k : k + len(start)] == start and (k == 0 or words[0] in ("mpirun", "mpiexec")):
                return words[k + len(start) :]
    return None


def documented_commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in PAGES:
        lines = [line for block in blocks(path, "bash") for line in block.splitlines()]
        lines += re.findall(r"^ {4}((?:admmnet|mpirun) .*)", prose(path), re.MULTILINE)
        found += [(name(path), words) for line in lines if (words := command_words(line)) is not None]
    return found


def check_command(words: list[str]) -> None:
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


@pytest.mark.parametrize(("file", "words"), documented_commands())
def test_documented_commands_parse(file: str, words: list[str]) -> None:
    check_command(words)


def test_the_check_of_commands_refuses_what_does_not_exist() -> None:
    assert len(documented_commands()) > 15
    for line in ("admmnet run --epsilom 1", "mpirun -n 5 python -m admmnet --no-such 1", "admmnet ledger show RUN --x"):
        with pytest.raises(click.UsageError):
            check_command(command_words(line) or [])
    with pytest.raises(AssertionError, match="no command"):
        check_command(["ledger", "burn", "RUN"])
    with pytest.raises(AdmmnetError, match="epsilon"):
        check_command(["run", "--epsilon", "0"])
    assert command_words("python -m pytest") is None


def test_scripts_in_the_readme_can_be_started() -> None:
    lines = [line for block in blocks(ROOT / "README.md", "bash") for line in block.splitlines()]
    scripts = [shlex.split(line)[0] for line in lines if line.startswith("launch/")]
    assert {"launch/demo.sh", "launch/test.sh"} <= set(scripts)
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_every_exit_code_is_on_the_page() -> None:
    kinds: list[type[AdmmnetError]] = [AdmmnetError, *AdmmnetError.__subclasses__()]
    codes = {kind.exit_code for kind in kinds} | {0}
    rows = re.findall(r"^- (\d+): ", section("cli.md", "Exit codes"), re.MULTILINE)
    assert codes <= set(map(int, rows))


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "toml")], ids=name)
def test_config_examples_load(path: Path, tmp_path: Path) -> None:
    own = (block for block in blocks(path, "toml") if "[build-system]" not in block)
    for number, block in enumerate(own):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        if "[compare]" in block:
            assert all(map(Grid, grids_of(read_toml(file), file, {}, {}, "out").values()))
        else:
            load_config(file)


@pytest.mark.parametrize("path", [path for path in PAGES if "```python" in text(path)], ids=name)
def test_imports_in_examples_exist(path: Path) -> None:
    files = {  # that the page shows whole
        file.replace("/", "."): [node.name for node in ast.parse(code).body if isinstance(node, ast.ClassDef)]
        for file, code in whole_files(text(path)).items()
    }
    for block in fenced(text(path), "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("admmnet"):
                known = files.get(node.module or "") or dir(import_module(node.module or ""))
                assert [alias.name for alias in node.names if alias.name not in known] == []


def backticked(file: str) -> set[str]:
    return {word for span in re.findall(r"`([^`\n]+)`", page(file)) for word in re.findall(r"[\w-]+", span)}


def test_the_example_of_a_ledger_s_first_line_has_its_keys() -> None:
    promise = Promise(1.0, 1e-5)
    contract = Contract(promise, Count.of(((Gaussian(1.0, 2.0), 1),), 1.0, 1e-5))
    first = Header(0, (), 1, contract, "", "private", "public-bounds", "", mode="simulation").line()
    example = json.loads(blocks(ROOT / "docs" / "ledger.md", "json")[0])
    assert list(example) == list(json.loads(encode(first)))


def test_every_file_and_column_of_a_run_folder_is_documented(tmp_path: Path) -> None:
    config = RunConfig(algorithm="pp-admm", topology="path:2", rounds=1, seed=0, out=str(tmp_path / "run"))
    result = run(config)
    with (result.folder / "metrics.csv").open(encoding="utf-8") as file:
        columns = set(next(csv.reader(file)))
    assert sorted(columns - backticked("ledger.md")) == []
    files = {path.name for path in result.folder.iterdir()}
    assert sorted(file for file in files if f"`{file}" not in page("ledger.md")) == []
