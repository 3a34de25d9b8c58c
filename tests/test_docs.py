"""The pages agree with the code, with each other, and with the rules for tracked files."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shlex
import subprocess
from collections import Counter
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from admmnet.cli import command_line
from admmnet.config import RunConfig
from admmnet.config_file import flag_fields, load_config, parse_flag
from admmnet.errors import AdmmnetError
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger import Header

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "topologies" / "README.md"]
MODULES = sorted((ROOT / "admmnet").rglob("*.py"))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def page(file: str) -> str:
    return text(ROOT / "docs" / file)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(path), re.DOTALL | re.MULTILINE)


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", text(path), flags=re.DOTALL | re.MULTILINE)


# links


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    found: Counter[str] = Counter()
    result = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return result


def links(path: Path) -> list[str]:
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(path))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_index_and_the_readme() -> None:
    wanted = {path.name for path in PAGES if path.parent.name == "docs"} - {"index.md"}
    assert wanted <= {link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")}
    assert wanted <= {Path(link.partition("#")[0]).name for link in links(ROOT / "README.md")}


# commands


def command_words(line: str) -> list[str] | None:
    """Words after `admmnet` or `python -m admmnet` of a line of shell, None if it is another program's."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    for start in (["admmnet"], ["python", "-m", "admmnet"]):
        for k in range(len(words)):
            if words[k : k + len(start)] == start and (k == 0 or words[0] in ("mpirun", "mpiexec")):
                return words[k + len(start) :]
    return None


def documented_commands() -> list[tuple[str, str]]:
    found = []
    for path in PAGES:
        lines = [line for block in blocks(path, "bash") for line in block.splitlines()]
        lines += [
            line.strip() for line in prose(path).splitlines() if re.match(r" {4}(admmnet|mpirun) ", line)
        ]
        found += [(name(path), line) for line in lines if line.strip() and command_words(line) is not None]
    return found


def check_command(words: list[str]) -> None:
    """Walk the groups, then let the last command's own parser read its words."""
    if not words or words[0].endswith(".toml") or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    command: click.Command = command_line
    context = click.Context(command, info_name="admmnet")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r}; there are {', '.join(command.commands)}"
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    assert not rest, f"too many words: {rest}"
    if command.name in ("run", "calibrate"):
        settings = {field.name for field in fields(RunConfig)}
        given = {
            key: parse_flag(key, value)
            for key, value in values.items()
            if isinstance(value, str) and key in settings
        }
        load_config(None, given)


@pytest.mark.parametrize(("file", "line"), documented_commands())
def test_documented_commands_parse(file: str, line: str) -> None:
    words = command_words(line)
    assert words is not None
    check_command(words)


def test_the_check_of_commands_refuses_what_does_not_exist() -> None:
    assert len(documented_commands()) > 15
    for line in (
        "admmnet run --epsilom 1",
        "mpirun -n 5 python -m admmnet --no-such 1",
        "admmnet ledger show RUN --x",
    ):
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


def flag_rows() -> dict[str, tuple[str, str]]:
    rows = re.findall(
        r"^\| `--([a-z-]+)[^|]*?(?:\\\|[^|]*?)*` ?(?:, `-o DIR` ?)?\| `\[(\w+)\]` \| (\S+) \|",
        page("cli.md"),
        re.M,
    )
    return {flag: (table, default) for flag, table, default in rows}


def test_every_setting_has_its_row_with_table_and_default() -> None:
    defaults = {field.name: field.default for field in fields(RunConfig)}
    expected = {}
    for key, _, meta in flag_fields():
        value: Any = defaults[key]
        shown = {None: "none", False: "off"}.get(value) if value is None or value is False else None
        expected[key.replace("_", "-")] = (
            meta["table"],
            shown or (f"{value:g}" if isinstance(value, float) else str(value)),
        )
    assert flag_rows() == expected


def test_every_flag_and_choice_of_every_command_is_documented() -> None:
    written = page("cli.md").replace("\\|", "|")

    def leaves(command: click.Command) -> list[click.Command]:
        return (
            [leaf for c in command.commands.values() for leaf in leaves(c)]
            if isinstance(command, click.Group)
            else [command]
        )

    missing = [
        f"{command.name} {flag}"
        for command in leaves(command_line)
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for flag in parameter.opts
        if not re.search(rf"`{flag}\b", written)
    ]
    missing += [
        f"--{key.replace('_', '-')} {choice}"
        for key, _, meta in flag_fields()
        for choice in meta["choices"]
        if not re.search(rf"`--{key.replace('_', '-')} [^`]*(?<![\w-]){choice}(?![\w-])", written)
    ]
    assert missing == []


def test_every_exit_code_has_its_row() -> None:
    kinds: list[type[AdmmnetError]] = [AdmmnetError, *AdmmnetError.__subclasses__()]
    codes = {kind.exit_code for kind in kinds} | {0}
    section = page("cli.md").split("## Exit codes")[1].split("\n## ")[0]
    assert codes <= {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "toml")], ids=name)
def test_config_examples_load(path: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(path, "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        load_config(file)


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "python")], ids=name)
def test_imports_in_examples_exist(path: Path) -> None:
    for block in blocks(path, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("admmnet"):
                module = import_module(node.module or "")
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


# equations, theorems, sections

NUMBERS = r"\(P?\d+\)(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+to\s+|\s*[-\u2013]\s*)\(P?\d+\))*"
EQUATIONS = re.compile(rf"\beqs?\.\s+({NUMBERS})")


def flat(path: Path) -> str:
    """Text with line ends and comment marks made spaces: a citation may go over a line's end."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text(path))


def cited(source: str) -> list[str]:
    """Numbers cited as `eq. (n)`, ranges filled; not those of papers, as in `2020, eq. (3)`."""
    numbers: list[str] = []
    for match in EQUATIONS.finditer(source):
        if re.search(r"\d{4}, $", source[: match.start()]):
            continue
        ends = re.findall(r"P?\d+", match[1])
        numbers += ends
        for first, last in re.findall(r"\((P?\d+)\)(?:\s+to\s+|\s*[-\u2013]\s*)\(P?(\d+)\)", match[1]):
            letter = "P" if first.startswith("P") else ""
            numbers += [f"{letter}{n}" for n in range(int(first.removeprefix("P")), int(last) + 1)]
    return numbers


def equation_citations() -> list[tuple[str, str]]:
    sources = [*MODULES, *PAGES]
    return sorted({(number, name(path)) for path in sources for number in cited(flat(path))})


def defined_equations(file: str) -> list[str]:
    """Numbers that start a line, or stand in a tag, of a page."""
    found = re.findall(r"^[^\w\n(|]{0,6}\((P?\d+)\)[\s*`:]|\\tag\{(P?\d+)\}", page(file), re.MULTILINE)
    return [first or second for first, second in found]


def test_citations_are_read_in_every_form() -> None:
    assert cited("eq. (3); eqs. (5)-(7), (15) and 2020, eq. (99); eqs. (P6) to (P8)") == [
        *("3", "5", "7", "15", "5", "6", "7"),
        *("P6", "P8", "P6", "P7", "P8"),
    ]


def test_cited_equations_are_on_the_algorithms_page_once() -> None:
    defined = defined_equations("algorithms.md")
    assert [number for number, count in Counter(defined).items() if count > 1] == []
    assert {str(n) for n in range(1, 16)} <= set(defined)
    missing = [c for c in equation_citations() if not c[0].startswith("P") and c[0] not in defined]
    assert missing == []


def test_cited_equations_are_on_the_privacy_page() -> None:
    if not (ROOT / "docs" / "privacy.md").exists():
        pytest.skip("docs/privacy.md is not there yet")
    citations = [c for c in equation_citations() if c[0].startswith("P")]
    assert citations
    assert [c for c in citations if not re.search(rf"\({c[0]}\)|\\tag\{{{c[0]}\}}", page("privacy.md"))] == []


def test_cited_theorems_are_on_the_privacy_page() -> None:
    if not (ROOT / "docs" / "privacy.md").exists():
        pytest.skip("docs/privacy.md is not there yet")
    citations = {
        (number, name(path))
        for path in MODULES
        for number in re.findall(r"docs/privacy\.md,? Theorem (\d+)\b(?!\.\d)", flat(path))
    }
    assert citations
    stated = set(re.findall(r"^[^\w\n]*Theorem (\d+)\b", page("privacy.md"), re.MULTILINE))
    assert sorted(c for c in citations if c[0] not in stated) == []


def test_cited_pages_and_sections_exist() -> None:
    pages = {path.name for path in PAGES if path.parent.name == "docs"}
    sections = re.findall(r"^## (\d)\. ", page("algorithms.md"), re.MULTILINE)
    missing = []
    for path in MODULES:
        files = set(re.findall(r"\bdocs/([\w-]+\.md)", flat(path))) - pages
        numbers = set(re.findall(r"docs/algorithms\.md, sec\. (\d)", flat(path))) - set(sections)
        missing += [(name(path), *sorted(files | numbers))] if files | numbers else []
    assert missing == []


# what a run leaves behind


def backticked(file: str) -> set[str]:
    return {word for span in re.findall(r"`([^`\n]+)`", page(file)) for word in re.findall(r"[\w-]+", span)}


def test_every_key_and_mechanism_of_a_ledger_is_documented() -> None:
    header = Header(0, (), 1, None, None, "", "", "", "", "", "").line()
    example = json.loads(blocks(ROOT / "docs" / "ledger.md", "json")[0])
    assert list(example) == list(header)
    keys = {
        *header,
        "round",
        "mechanism",
        "parameters",
        "rho",
        "xi",
        "rho_published",
        "total",
        "previous",
        "events",
    }
    for mechanism, event in EVENTS.items():
        keys |= {mechanism, *(field.name for field in fields(event))}
    assert sorted(keys - {"kind"} - backticked("ledger.md")) == []


def test_every_file_and_key_of_a_run_folder_is_documented(tmp_path: Path) -> None:
    from admmnet import run

    config = RunConfig(algorithm="pp-admm", topology="path:2", rounds=1, seed=0, out=str(tmp_path / "run"))
    result = run(config)
    summary = result.summary
    keys = {*summary, *summary["data"], *summary["privacy"], *summary["test_error"], *summary["seconds"]}
    keys |= set(summary["per_agent"][0])
    with (result.folder / "metrics.csv").open(encoding="utf-8") as file:
        keys |= set(next(csv.reader(file)))
    assert sorted(keys - backticked("run-folder.md")) == []
    files = {path.name for path in result.folder.iterdir()}
    assert sorted(file for file in files if f"`{file}" not in page("run-folder.md")) == []


# rules for tracked files

ABSOLUTE = re.compile(
    r"(?<![\w.~$})/:*-])/(?:home|root|work|tmp|Users|usr|opt|mnt|etc|var|srv)/(?!bin/env\b)[\w.-]+"
)
HOSTS = (
    "pypi org",
    "pythonhosted org",
    "anaconda org",
    "npmjs org",
    "npmjs com",
    "proxy.golang org",
    "crates io",
)
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
        found += [
            (name(path), match[0]) for rule in (ABSOLUTE, REGISTRIES) for match in rule.finditer(content)
        ]
    assert found == []


def test_the_rules_see_what_they_are_for() -> None:
    assert ABSOLUTE.search("data in /" + "home/someone/adult") is not None
    assert ABSOLUTE.search('"/' + 'tmp/x"') is not None
    assert ABSOLUTE.search("#!/usr/bin/env bash") is None
    assert ABSOLUTE.search("../shared/data and a/tmp/b") is None
    assert REGISTRIES.search("https://files.python" + "hosted.org/x") is not None
