"""One verdict on every screen: the mode first, the same figures, and no signature that hides a simulation."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest

from admmnet import read_run, run
from admmnet.evidence.judge import judged
from admmnet.record.verdict import verdict_of
from admmnet.report.page import make_report
from admmnet.report.run_plot import plot_run
from tests.command_runs import Admmnet
from tests.people_runs import PRIVATE, small, write_people
from tests.report_pages import words_in


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each mode."""
    place = tmp_path_factory.mktemp("verdict")
    people, own = write_people(place / "people.npz"), {"private": PRIVATE | {"private": True}, "seeded": {"seed": 3}}
    own |= {"secret": {"simulate": True}, "plain": {"seed": 3, "algorithm": "admm"}}
    return {name: run(small(people, place / name, **settings)).folder for name, settings in own.items()}


MODES = {
    "private": "private, secret noise: only noisy results left each agent",
    "seeded": "simulation, seed 3: the noise can be made again, nothing is protected",
    "secret": "simulation, secret noise: the records count as public, figures computed from them are shown",
    "plain": "simulation, seed 3: the noise can be made again, nothing is protected",
}


@pytest.mark.parametrize("name", MODES)
def test_every_screen_begins_with_the_mode(name: str, folders: dict[str, Path], admmnet: Admmnet) -> None:
    folder, line = folders[name], f"mode:       {MODES[name]}"
    lines = judged(folder).lines()
    assert lines[0] == line
    sign = [f"to sign:    ssh-keygen -Y sign -n admmnet -f KEY {folder / 'manifest.json'}"] if name == "private" else []
    assert admmnet.ok("ledger", "verify", folder).out.splitlines() == lines + sign
    labelled = ("evaluate", folder, "--data", folder.parent / "people.npz", "--public")
    for words in (("ledger", "show", folder), ("watch", folder), labelled, ("model", "show", folder)):
        assert admmnet.ok(*words).out.splitlines()[0] == line
    found = make_report([folder]).html
    assert 0 < found.index(escape(line)) < found.index('class="cards"')
    assert all(escape(told) in found for told in verdict_of(read_run(folder)).lines())
    pytest.importorskip("matplotlib")
    assert MODES[name] in words_in(plot_run(folder))
    closing = run_text(folder).splitlines()
    assert closing[0] == line
    assert set(lines[1:-1]) <= set(closing)


def test_predictions_begin_with_the_mode_beside_them(folders: dict[str, Path], admmnet: Admmnet) -> None:
    told = admmnet.ok("predict", folders["secret"], "--data", folders["secret"].parent / "people.npz")
    assert told.err.splitlines()[0] == f"mode:       {MODES['secret']}"
    assert told.out.startswith("row,score,")


def run_text(folder: Path) -> str:
    """Closing table of a run that has finished."""
    from admmnet.report.tables import run_text as told

    return told(json.loads((folder / "summary.json").read_bytes()), folder)


def test_fields_of_the_verdict(folders: dict[str, Path], admmnet: Admmnet) -> None:
    told = admmnet.json("ledger", "verify", folders["seeded"])
    summary = json.loads((folders["seeded"] / "summary.json").read_bytes())
    assert told["mode"] == {"mode": "simulation", "seed": 3, "seeded": True, "preprocessing": "public-bounds"}
    assert told["privacy"] == summary["privacy"]
    facts = told["integrity"]
    assert (facts["state"], facts["ledgers"], facts["unended"], facts["torn"]) == ("finished", 4, 0, 0)
    assert "receipts" not in facts


def test_a_private_run_can_be_required(folders: dict[str, Path], admmnet: Admmnet) -> None:
    assert "events hold" in admmnet.ok("ledger", "verify", folders["private"], "--require", "private").out
    told = admmnet.refused("ledger", "verify", folders["seeded"], "--require", "private", code=1)
    assert "simulation, seed 3" in told
    assert "a private run was required" in told


def test_an_unfinished_run_has_a_verdict_by_its_ledgers(folders: dict[str, Path], tmp_path: Path) -> None:
    whole = verdict_of(read_run(folders["private"]))
    for source in sorted(folders["private"].rglob("*")):
        if source.is_file() and source.name not in ("summary.json", "manifest.json"):
            place = tmp_path / source.relative_to(folders["private"])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.read_bytes())
    found = verdict_of(read_run(tmp_path))
    assert found.integrity is not None
    assert found.integrity.state == "unfinished"
    assert found.mode == whole.mode
    for name in ("epsilon_target", "epsilon_proven", "epsilon_spent", "rho_spent", "delta", "adjacency"):
        assert found.privacy[name] == whole.privacy[name]
