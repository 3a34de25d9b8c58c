"""One verdict on every screen: the mode first, the same figures, each printed in one way."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import CheckFailed, read_run, run
from admmnet.evidence.judge import judged
from admmnet.privacy.ledger import audit
from admmnet.record import format
from admmnet.record.folder import followed, measured
from admmnet.record.reader import check_account, verdict_of
from admmnet.record.verdict import contradictions, over_runs
from admmnet.report.page import make_report
from admmnet.report.run_plot import plot_run
from admmnet.report.tables import run_text
from tests.command_runs import Admmnet
from tests.people_runs import PRIVATE, small, summary_of, write_people
from tests.report_pages import words_in
from tests.run_folders import unfinished


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each mode."""
    place = tmp_path_factory.mktemp("verdict")
    people, own = write_people(place / "people.npz"), {"private": PRIVATE | {"private": True}, "seeded": {"seed": 3}}
    own |= {"secret": {"simulate": True}, "plain": {"seed": 3, "algorithm": "admm"}}
    (place / "read.csv").write_text("x,y\n" + "".join(f"{k / 7},{'no' if k % 3 else 'yes'}\n" for k in range(60)))
    own["read"] = own["private"] | {"data": str(place / "read.csv"), "label": "y", "data_dependent": True}
    return {
        name: run(small(settings.pop("data", people), place / name, **settings)).folder
        for name, settings in own.items()
    }


MODES = {
    "read": "private, but for values read from the records (see its notes), which no epsilon covers",
    "private": "private, secret noise: only noisy results left each agent",
    "seeded": "simulation, seed 3: the noise can be made again, nothing is protected",
    "secret": "simulation, secret noise: the records count as public, figures computed from them are shown",
    "plain": "simulation, seed 3: the noise can be made again, nothing is protected",
}


@pytest.mark.parametrize("name", MODES)
def test_every_screen_begins_with_the_mode(name: str, folders: dict[str, Path], admmnet: Admmnet) -> None:
    folder, line = folders[name], f"mode:       {MODES[name]}"
    people, lines = folder.parent / ("read.csv" if name == "read" else "people.npz"), judged(folder).lines()
    assert lines[0] == line
    sign = (
        [f"to sign:    ssh-keygen -Y sign -n admmnet -f KEY {folder / 'manifest.json'}"]
        if name in ("private", "read")
        else []
    )
    assert admmnet.ok("ledger", "verify", folder).out.splitlines() == lines + sign
    labelled = ("evaluate", folder, "--data", people, "--public")
    for words in (("ledger", "show", folder), ("watch", folder), labelled, ("model", "show", folder)):
        assert admmnet.ok(*words).out.splitlines()[0] == line
    told = admmnet.ok("predict", folder, "--data", people)  # beside the table
    assert (told.err.splitlines()[0], told.out[:10]) == (line, "row,score,")
    found = make_report([folder]).html
    assert 0 < found.index(escape(line)) < found.index('class="cards"')
    assert all(escape(told) in found for told in verdict_of(read_run(folder)).lines())
    closing = run_text(summary_of(folder), folder).splitlines()
    assert closing[0] == line
    assert set(lines[1:-1]) <= set(closing)
    pytest.importorskip("matplotlib")
    assert MODES[name] in words_in(plot_run(folder))


def test_fields_of_the_verdict(folders: dict[str, Path], admmnet: Admmnet) -> None:
    told = admmnet.json("ledger", "verify", folders["seeded"])
    assert told["mode"] == {"mode": "simulation", "seed": 3, "seeded": True, "preprocessing": "public-bounds"}
    assert told["privacy"] == summary_of(folders["seeded"])["privacy"]
    facts = [told["integrity"].get(name) for name in ("state", "ledgers", "unended", "torn", "receipts")]
    assert facts == ["finished", 4, 0, 0, None]


def test_an_unfinished_run_has_a_verdict_by_its_ledgers(folders: dict[str, Path], tmp_path: Path) -> None:
    whole = verdict_of(read_run(folders["private"]))
    died = unfinished(folders["private"], tmp_path / "died", rounds=2, agents=4)
    found = verdict_of(read_run(died))
    assert found.integrity is not None
    assert (found.integrity.state, found.integrity.unended, found.mode) == ("unfinished", 4, whole.mode)
    for name in ("epsilon_target", "epsilon_proven", "epsilon_spent", "rho_spent", "delta", "adjacency"):
        assert found.privacy[name] == whole.privacy[name]
    ledger = died / "ledger/agent-001.jsonl"
    ledger.write_bytes(ledger.read_bytes() + b'{"kind"')
    torn = verdict_of(read_run(died)).integrity
    assert torn is not None
    assert (torn.torn, "cut off while it was written" in torn.line()) == (1, True)


def test_what_an_account_and_masks_add(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    """The largest figures of all agents, two with masked sums, and the least number of colluders of an account."""
    how: dict[str, Any] = {"algorithm": "noisy-gd", "trust": "masked", "no_test": True, "epsilon": 4.0}
    how |= {"account": str(tmp_path / "account")}
    run(small(people, tmp_path / "one", **how, colluders=1, budgets={"2": {"epsilon": 2.0}}))
    result = run(
        small(people, tmp_path / "two", **how | {"epsilon": 20.0}, colluders=2, budgets={"2": {"epsilon": 5.0}})
    )
    privacy, entries = result.summary["privacy"], result.summary["per_agent"]
    names = ["epsilon_target", "epsilon_proven", "epsilon_spent", "rho_spent", "epsilon_if_all_collude"]
    for name in [*names, "account_epsilon_spent", "account_epsilon_if_all_collude"]:
        values = [entry["rho" if name == "rho_spent" else name] for entry in entries]
        assert privacy[name] == max(values), name
    assert privacy["epsilon_target"] > min(entry["epsilon_target"] for entry in entries)
    assert (privacy["trust"], privacy["colluders"], privacy["account_colluders"]) == ("masked", 2, 1)
    assert privacy["epsilon_if_all_collude"] > privacy["epsilon_proven"]
    read = read_run(result.folder)
    assert read.summary is not None
    assert list(contradictions(read.summary, read.ledgers, measured(result.folder))) == []
    for wrong in ({"trust": "local"}, {"colluders": 1}, {"epsilon_if_all_collude": 1.0}):
        other = structs.replace(read.summary, privacy=structs.replace(read.summary.privacy, **wrong))
        assert list(contradictions(other, read.ledgers, measured(result.folder))), wrong
    assert {entry["colluders"] for entry in admmnet.json("account", "show", tmp_path / "account")} == {1}
    lines = judged(result.folder).lines()
    (account,) = (line for line in lines if line.startswith("account:"))
    assert f"{format.epsilon(privacy['account_epsilon_spent'])} spent over all runs, as long as at most 1" in account
    assert [line[12:14] for line in lines if "epsilon" in line and line[12:14] in ("A:", "B:")] == ["A:", "B:"]


def test_an_account_has_the_charges_of_its_runs(people: str, tmp_path: Path) -> None:
    """In their order; not those of a run that used none, nor of one that it forgot."""
    account, how = tmp_path / "account", {"no_test": True, "algorithm": "noisy-gd"}
    one, two = (
        run(small(people, tmp_path / name, **how, account=str(account), epsilon=epsilon)).folder
        for name, epsilon in (("one", 4.0), ("two", 8.0))
    )
    files = sorted(account.glob("*.jsonl"))
    known = {file.name: audit.read(file, account=True) for file in files}
    for folder in (one, two):
        check_account(account, known, folder)
    with pytest.raises(CheckFailed, match=r"agent-003\.jsonl: is missing, or empty"):
        check_account(account, {name: book for name, book in known.items() if "3" not in name}, two)
    check_account(account, {files[1].name: known[files[1].name]}, two, agents=[1])
    lines = files[1].read_bytes().splitlines(keepends=True)
    second = next(k for k, line in enumerate(lines) if b'"kind":"run"' in line)
    for cut, folder in ((lines[:-1], two), (lines[:second], two), (lines[: second - 1], one)):
        files[1].write_bytes(b"".join(cut))
        with pytest.raises(CheckFailed, match=r"agent-001\.jsonl: lacks charges"):
            check_account(account, known | {files[1].name: audit.read(files[1], account=True)}, folder)
    alone = run(small(people, tmp_path / "alone", no_account=True, **how)).folder
    with pytest.raises(CheckFailed, match="its run used no account"):
        check_account(account, known, alone)


def test_of_agents_with_accounts_of_their_own_the_worst_is_told() -> None:
    names = ("account_epsilon_spent", "account_epsilon_if_all_collude", "account_epsilon_if_all_collude_proven")
    entries: list[dict[str, Any]] = [
        dict.fromkeys(names, e) | {"account_colluders": k} for e, k in ((1.0, 3), (2.0, 1))
    ]
    found = over_runs([*entries, {"account_epsilon_spent": 1.5}], "folder")
    assert [found[name] for name in (*names, "account_colluders")] == [2.0, 2.0, 2.0, 1]
    assert over_runs([*entries, {"account_epsilon_spent": None}], "folder")["account_epsilon_spent"] is None
    assert set(over_runs(entries[:0], None).values()) == {None}


def test_ledgers_are_followed_while_they_are_written(finished: Path, tmp_path: Path) -> None:
    """By the accountant that guards the budget, here the published one; behind torn or foreign lines, too."""
    entries = summary_of(finished)["per_agent"]
    assert [one.spent for one in followed(finished)] == [entry["epsilon_published"] for entry in entries]
    assert {one.round for one in followed(finished)} == {2}
    died = unfinished(finished, tmp_path / "died", rounds=0, agents=4)
    ledgers = sorted((died / "ledger").iterdir())
    ledgers[0].write_bytes(ledgers[0].read_bytes().splitlines(keepends=True)[0])
    ledgers[1].write_bytes(ledgers[1].read_bytes()[:-9])
    ledgers[2].write_bytes(b"no ledger\n")
    start = ledgers[3].read_bytes()  # two changed starts behind the last charge
    ledgers[3].write_bytes(
        start + b"".join(b'{"kind":"start","round":%d,"neighbours":[],"previous":""}\n' % k for k in (3, 6))
    )
    first, second, last = followed(died)
    assert (first.spent, first.round, first.total) == (0.0, None, None)
    assert second.round == last.round == 0
    text = (finished / "metrics.csv").read_text()
    (died / "metrics.csv").write_text(text + "9,0,0.5,7\n9,1,,7,\nno,row\n9,2,0.5")
    assert [*measured(died)][-3:] == [[*measured(finished)][-1], (9, 0, 7, 0.5), (9, 1, 7, None)]


# how figures print, and that they print nowhere else


def test_an_epsilon_is_rounded_up_and_a_number_to_the_nearest() -> None:
    for value, epsilon, number in (
        (1.0, "1", "1"),
        (1.0000000001, "1", "1"),
        (0.9999999999, "1", "1"),
        (1.00000001, "1.001", "1"),
        (0.999934, "1", "0.9999"),
        (0.0, "0", "0"),
        *((gone, "-", "-") for gone in (None, math.nan)),
        (math.inf, "infinite", "infinite"),
        (1e-9, "1e-09", "1e-09"),
        (123410.0, "1.235e+05", "1.234e+05"),
        (2.85714e-6, "2.858e-06", "2.857e-06"),
    ):
        assert (format.epsilon(value), format.number(value)) == (epsilon, number)
    for value in [0.99482411, 1.00001, 0.12340001, 12.34567, 99999.1, 3e-7, *np.geomspace(1e-5, 1e5, 500).tolist()]:
        assert value * (1.0 - 1e-9) <= float(format.epsilon(value)) <= value * 1.001, value


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (format.percent, {0.146549: "14.65%", math.nan: "-"}),
        (lambda value: format.error(value, "error"), {0.1465: "14.65%"}),
        (lambda value: format.error(value, "mean-squared-error"), {0.1465: "0.1465"}),
        (format.count, {35000: "35,000"}),
        (format.size, {0: "0 kB", 225: "0.23 kB", 225_000: "225 kB", 2_250_000: "2.25 MB"}),
        (format.size, {9_949: "9.9 kB", 999_499: "999 kB", 999_500: "0.9995 MB"}),
        (format.seconds, {0.0: "0 s", 0.523: "0.52 s", 59.4: "59 s", 59.7: "1 min 0 s"}),
        (format.seconds, {3599.0: "59 min 59 s", 7512.0: "2 h 5 min"}),
        (format.parameter, {0.000284: "0.000284", 7000: "7000", True: "True", "poisson": "poisson"}),
    ],
)
def test_every_other_kind(kind: Callable[[Any], str], said: dict[Any, str]) -> None:
    assert {value: kind(value) for value in said} == said
    assert kind(None) == "-"


def test_no_screen_formats_a_figure_itself() -> None:
    package = Path(format.__file__).parents[1]
    files = [
        *(
            path
            for part in ("record", "evidence", "predict", "report", "cli")
            for path in package.rglob(f"{part}/**/*.py")
        )
    ]
    for path in {*files, package / "library.py"} - {Path(format.__file__)}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                spec = ast.unparse(node.format_spec)
                assert not re.search(r"[,_gef%]'$|[.][0-9]+'$", spec) or node.conversion != -1, f"{path}: {spec}"
            assert not isinstance(node, ast.Call) or ast.unparse(node.func) != "format", f"{path}: format()"
