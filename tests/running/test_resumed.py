"""Runs that were interrupted and go on, also with other kernels; folders or accounts put back from an older copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, load_config, read_run, run
from admmnet.config.toml import settings_digest
from admmnet.errors import RequestError, RunError
from admmnet.evidence.judge import judged
from admmnet.holder.holder import Secret
from admmnet.holder.measurements import minimiser
from admmnet.privacy.events import AboveThreshold
from admmnet.privacy.ledger import audit
from admmnet.record.journal import HEAD, JOURNAL, Cut, Round, Run, Said, read_records
from admmnet.running.arguments import public_settings, resumed_config
from admmnet.running.journal import Journal
from admmnet.solvers import certificate as kernels
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector
from tests.command_runs import Admmnet
from tests.interrupted_runs import METHODS, ROUNDS, Place, assert_same, fix_noise, write_people
from tests.people_runs import Stop, stopping, summary_of, theta_of
from tests.processes.launch import ROOT

SECRET: dict[str, Any] = {"seed": None}
NO_HELD = [name for name in METHODS if name not in ("above-threshold", "hinge", "output", "ipp published", "dvp")]
"""Methods whose unbroken run draws what a run that went on draws, as none of them holds a threshold; no kind twice."""


def ledgers(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ledger").iterdir())}


def figures(folder: Path) -> list[dict[str, Any]]:
    """What a summary says of each agent's budget and releases."""
    names = ("epsilon_spent", "rho", "releases", "refused_at", "silent", "messages", "numbers")
    return [{name: entry[name] for name in names if name in entry} for entry in summary_of(folder)["per_agent"]]


# runs without a seed


@pytest.mark.parametrize("method", NO_HELD)
def test_a_run_that_went_on_ends_as_an_unbroken_one(method: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both draw the same: the same ledgers, byte for byte, releases and model; also stopped in its last round."""
    fix_noise(monkeypatch)
    settings = METHODS[method] | SECRET | {"simulate": METHODS[method].get("algorithm") == "admm"}
    more = ({"account": "whole's"}, {"account": "cut's"}) if method == "account" else ({}, {})
    whole = place.whole("whole", **settings | more[0])
    folder = place.interrupted("cut", 3, **settings | more[1])
    assert (folder / JOURNAL).stat().st_mode & 0o777 == 0o600
    assert not (folder / "summary.json").exists()
    before = ledgers(folder)
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(ROUNDS - 1))
    assert all(data.startswith(before[name]) for name, data in ledgers(folder).items()), "append only"
    place.resume(folder)
    assert not (folder / JOURNAL).exists()
    assert ledgers(folder) == ledgers(whole)
    assert figures(folder) == figures(whole)
    # a solver that has learnt other things stops elsewhere, by its certificate, which is coarse without noise
    np.testing.assert_allclose(theta_of(folder), theta_of(whole), atol=1e-2 if settings["simulate"] else 1e-5)
    rows = [(path / "metrics.csv").read_text().splitlines() for path in (folder, whole)]
    assert [line.split(",")[0] for line in rows[0]] == [line.split(",")[0] for line in rows[1]]
    assert summary_of(folder)["notes"][-1].startswith("the run was interrupted and went on")
    for path in sorted((place.folder / "whole's").glob("*.jsonl")):
        assert path.read_bytes() == (place.folder / "cut's" / path.name).read_bytes()


@pytest.mark.parametrize("call", [9, 12, 15])
def test_interrupted_within_a_round(call: int, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some agents' answers are there, others' are not: what was charged stands, and is not charged again."""
    real, calls = LocalSolver.solve, 0

    def solve(self: LocalSolver, *args: Any) -> Solution:
        nonlocal calls
        calls += 1
        if calls == call:
            raise RunError("the cable is cut")
        return real(self, *args)

    monkeypatch.setattr(LocalSolver, "solve", solve)
    with pytest.raises(RunError, match="a measurement failed"):
        run(place.config("cut", seed=None, account="account"))
    monkeypatch.undo()
    folder = place.resume(place.folder / "cut")
    for name, book in read_run(folder).ledgers.items():
        assert [round for round, _, _ in book.events] == [round for round in range(ROUNDS) for _ in range(2)]
        account = audit.read(place.folder / "account" / Path(name).name, account=True)
        assert [event[:2] for event in account.events] == [event[:2] for event in book.events]
        assert len(account.starts) == 1


def test_a_held_threshold_is_paid_anew(place: Place) -> None:
    """It is in no journal: a run that goes on draws another one, and is charged before it asks."""
    settings = METHODS["above-threshold"] | SECRET | {"gate_threshold": 1e9}
    folder = place.resume(place.interrupted("cut", 4, **settings))
    for book in read_run(folder).ledgers.values():
        assert [round for round, event, _ in book.events if isinstance(event, AboveThreshold)] == [0, 5]
        assert len(book.events) == 2, "every answer is no: one start covers them all, until what is repeated is over"


# accounts


def test_another_run_on_the_account_in_between(place: Place) -> None:
    """Its charges count: the run goes on behind them. What it was refused it is refused for good."""
    words: dict[str, Any] = {"account": "account"}
    folder = place.interrupted("cut", 4, epsilon=3.0, **words)
    place.whole("other", epsilon=6.0, **words)
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    before = ledgers(folder)
    place.resume(folder)
    assert [entry["refused_at"] for entry in summary_of(folder)["per_agent"]] == [5] * 4
    for name, book in read_run(folder).ledgers.items():
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3, 4]
        assert ledgers(folder)[Path(name).name].startswith(before[Path(name).name])
    lines = [json.loads(line) for line in (place.folder / "account/agent-000.jsonl").read_bytes().splitlines()]
    first, other, *later = [line["account_filter"]["kappa"] for line in lines if "account_filter" in line]
    assert first > other, "that of a larger epsilon"
    assert set(later) == {other}, "a run that goes on keeps its plan; nothing is let through beyond the lowest"


def test_a_round_that_an_account_cannot_pay_any_more_is_silent(place: Place) -> None:
    """Its record is in the journal, its charge nowhere: the machine failed in between, and another run has spent."""
    folder, account = place.interrupted("cut", 4, account="account", epsilon=3.0), place.folder / "account"
    for path in (*(folder / "ledger").iterdir(), *account.glob("*.jsonl")):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    for lock in account.glob("*.lock"):
        lock.unlink()
    place.whole("other", epsilon=6.0, account="account")
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    assert sum(isinstance(record, Cut) for record, _, _ in read_records(folder / JOURNAL)) == 4
    place.resume(folder)
    assert [entry["releases"] for entry in summary_of(folder)["per_agent"]] == [4] * 4
    for book in read_run(folder).ledgers.values():
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3]


def test_calibration_sees_the_account_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the noise of a run that goes on would be that of a run with nothing left."""
    fix_noise(monkeypatch)
    place.whole("first", account="account", epsilon=2.0)
    shutil.copytree(place.folder / "account", place.folder / "again")
    whole = place.whole("whole", account="account", epsilon=4.0)
    folder = place.interrupted("cut", 4, account="again", epsilon=4.0)
    assert ledgers(place.resume(folder)) == ledgers(whole)


# a machine that fails at any write


NAMES = ("cut", "account")


def copied_at_writes(place: Place, patch: pytest.MonkeyPatch) -> list[Path]:
    """Copies of a place's folders, one more before and after each write that is to last, where it has changed them."""
    copies, seen = list[Path](), dict[str, bytes]()

    def copy() -> None:
        files = [path for name in NAMES for path in (place.folder / name).rglob("*") if path.is_file()]
        now = {str(path): path.read_bytes() for path in files}
        if now != seen:
            seen.clear()
            seen.update(now)
            copies.append(place.folder / f"copy{len(copies)}")
            put(place.folder, copies[-1])

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any) -> Any:
            copy()
            found = real(*given)
            copy()
            return found

        return write

    for owner, name in ((os, "fsync"), (Path, "replace")):
        patch.setattr(owner, name, watched(getattr(owner, name)))
    return copies


def put(source: Path, to: Path) -> None:
    """Make the folders of a place those of another."""
    for name in NAMES:
        shutil.rmtree(to / name, ignore_errors=True)
        if (source / name).exists():
            shutil.copytree(source / name, to / name)


@pytest.mark.parametrize(("method", "rounds"), [("pp-admm", 2), ("gaussian", 2), ("trouble", 3)])
def test_a_machine_that_fails_at_any_write(
    method: str, rounds: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command again: the same ledgers and accounts as without it. A new write is tried without an edit."""
    fix_noise(monkeypatch)
    settings = {"account": "account", "topology": "path:2", "rounds": rounds, "resume": "auto"} | METHODS[method]
    config = place.config("cut", **settings)
    with monkeypatch.context() as patch:
        copies = copied_at_writes(place, patch)
        run(config)
    paid = sorted((place.folder / "account").glob("*.jsonl"))
    whole = ledgers(place.folder / "cut"), [path.read_bytes() for path in paid]
    assert len(copies) > 6 * rounds, "at the journal, two accounts with locks and two ledgers, in each round"
    for copy in copies:
        put(copy, place.folder)
        found = run(config)
        assert (ledgers(found.folder), [path.read_bytes() for path in paid]) == whole, copy
        assert not (found.folder / JOURNAL).exists(), copy
        assert all(book.finished for book in read_run(found.folder).ledgers.values()), copy


def test_auto_begins_goes_on_and_is_done(place: Place) -> None:
    config = place.config("cut", account="account", resume="auto")
    for after in (0, 4):
        with pytest.raises(Stop):
            run(config, on_round=stopping(after))
    found = run(config)
    assert found.summary["rounds"] == ROUNDS
    assert (found.theta == run(config).theta).all(), "a finished one is read"
    assert all(len(book.events) == 2 * ROUNDS for book in found.ledgers)
    with pytest.raises(RequestError, match="is finished"):
        resumed_config(place.folder / "cut")
    with pytest.raises(RequestError, match="resume = 'auto' goes with out"):
        RunConfig(resume="auto")


# what is in a journal, and what becomes of one that is damaged


@pytest.mark.parametrize("gate", [None, -1e9, 1e9], ids=["no gate", "yes", "no"])
def test_equal_releases_of_other_records_give_equal_journals(
    gate: float | None, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, though solvers have worked on the records: a journal holds released values alone."""
    real = LocalSolver.solve

    def solve(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        return real(self, g, m, beta)._replace(theta=np.full(len(g), 0.125))

    monkeypatch.setattr(LocalSolver, "solve", solve)
    monkeypatch.setattr(Secret, "gaussian", lambda self, purpose, sigma, size: np.zeros(size))
    monkeypatch.setattr(minimiser, "clipped_gaussian_rows", lambda rngs, sigma, size: np.zeros((len(rngs), size)))
    settings: dict[str, Any] = SECRET | {"epsilon": 50.0}
    if gate is not None:
        settings |= {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": gate}
    write_people(place.folder / "others.npz", seed=5)
    found = []
    for data in ("people.npz", "others.npz"):
        folder = Place(place.folder, data).interrupted(data[:-4], 4, **settings)
        first, *rounds = [record for record, _, _ in read_records(folder / JOURNAL)]
        assert (type(first), [one.round for one in rounds]) == (Run, list(range(5)))
        answered = [said for one in rounds for said in one.agents.values()]
        assert any(said.lines for said in answered)  # a ledger's: the first follows from the header's digest
        found.append([said.answers for said in answered])
    assert found[0] == found[1]


def journal_of(folder: Path) -> tuple[bytes, list[int]]:
    """Bytes of a journal, and where its records begin; last where they end."""
    places = [(start, end) for _, start, end in read_records(folder / JOURNAL)]
    return (folder / JOURNAL).read_bytes(), [*(start for start, _ in places), places[-1][1]]


def without(first: int, last: int | None, flipped: int | None = None) -> Callable[[Path], object]:
    """Take some records out of a journal, or flip a bit of the first of them."""

    def spoil(folder: Path) -> None:
        data, starts = journal_of(folder)
        start, end = starts[first], len(data) if last is None else starts[last]
        if flipped is not None:
            start, end = start + flipped, start + flipped + 1
        middle = b"" if flipped is None else bytes([data[start] ^ 1])
        (folder / JOURNAL).write_bytes(data[:start] + middle + data[end:])

    return spoil


def ledger_cut(folder: Path) -> None:
    path = folder / "ledger/agent-001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))


def other_settings(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("epsilon = 5.0", "epsilon = 6.0"))


RECORD = r"journal\.bin: record 3 is damaged.*put the right file back, or run anew"
LACKS = r"agent-000\.jsonl has charges that the journal of the run lacks, or others"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of a record": (without(2, 3, HEAD + 40), RECORD),
    "a byte of a length": (without(2, 3, 0), RECORD),
    "a byte of a hash": (without(2, 3, 20), RECORD),
    "a record less": (without(2, 3), LACKS),
    "an older journal": (without(4, None), LACKS),
    "no journal": (lambda folder: (folder / JOURNAL).unlink(), r"has no journal to go on from \(it was removed"),
    "a ledger of a round ago": (ledger_cut, r"agent-001\.jsonl lacks charges that the journal of the run has"),
    "no ledger": (lambda folder: (folder / "ledger/agent-001.jsonl").unlink(), r"agent-001\.jsonl is missing"),
    "other settings": (other_settings, r"journal\.bin belongs to other settings \(settings\)"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_was_put_back_or_damaged_is_refused(how: str, place: Place) -> None:
    folder = place.interrupted("cut", 4, **SECRET)
    REFUSED[how][0](folder)
    between = ledgers(folder)
    with pytest.raises(RequestError, match=REFUSED[how][1]):
        place.resume(folder)
    assert ledgers(folder) == between, "nothing is charged"


@pytest.mark.parametrize("cut", [1, 60, 300])
def test_what_a_crash_has_torn_off_was_never_sent(cut: int, place: Place) -> None:
    """A last record that is not whole is cut off; its round has charged nothing yet, and is asked again.

    A ledger's last line that is not whole is made again.
    """
    folder = place.interrupted("cut", 4, **SECRET)
    data, starts = journal_of(folder)
    (folder / JOURNAL).write_bytes(data[: starts[-1] - cut])
    for path in (folder / "ledger").iterdir():
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    whole = ledgers(folder)
    for name in sorted(whole)[:2]:
        (folder / "ledger" / name).write_bytes(whole[name][:-cut])
    place.resume(folder)
    assert all(data.startswith(whole[name]) for name, data in ledgers(folder).items())
    for book in read_run(folder).ledgers.values():
        assert [round for round, _, _ in book.events] == [k for k in range(ROUNDS) for _ in range(2)]


def test_a_single_site_has_no_journal(place: Place) -> None:
    """Its noise has charged what nobody can repeat: it is not begun again."""
    settings = {"algorithm": "dp-sgd", "topology": None, "epochs": 3, "rounds": None, "seed": None, "no_test": True}
    folder = place.interrupted("cut", 0, **settings)
    assert not (folder / JOURNAL).exists()
    with pytest.raises(RequestError, match=r"has no journal .* \(dp-sgd keeps none\), and epsilon .* is spent"):
        place.resume(folder)


# runs with a seed


@pytest.mark.parametrize("method", ["above-threshold", "joining", "noisy-gd in trouble", "blocks", "trouble r-admm"])
def test_a_run_with_a_seed_is_begun_again(method: str, place: Place) -> None:
    settings = METHODS[method]
    whole = place.whole("whole", **settings)
    folder = place.interrupted("cut", 3, **settings)
    assert not (folder / JOURNAL).exists()
    (folder / "ledger/agent-002.jsonl").unlink()
    assert_same(whole, place.resume(folder))


# a folder, or its account, is put back from an older copy: it is refused, named, and counted as spent

AGENTS = 4


def put_back(copy: Path, to: Path) -> None:
    shutil.rmtree(to)
    shutil.copytree(copy, to)


def restored(place: Place) -> list[int]:
    """Lines that count the rest of a run as spent, of every account, which verifies."""
    files = [place.folder / f"account/agent-{i:03d}.jsonl" for i in range(AGENTS)]
    for file in files:
        audit.read(file, account=True)
    return [file.read_text().count('{"kind":"restored"') for file in files]


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_a_folder_older_than_its_account(behind: int, place: Place) -> None:
    """Also by exactly one round. What the run had left counts as spent; the newest of both goes on."""
    cut = place.interrupted("cut", 3 - behind, account="account")
    shutil.copytree(cut, old := place.folder / "old")
    with pytest.raises(Stop):
        run(resumed_config(cut), on_round=stopping(3))
    for name in ("cut", "account"):
        shutil.copytree(place.folder / name, place.folder / f"newest {name}")
    if behind == 2:  # over another run: it has charged behind the first one
        place.whole("other", account="account", epsilon=6.0)
    put_back(old, cut)
    for _ in range(2):
        with pytest.raises(RequestError, match=r"account/agent-000\.jsonl has .* the folder was put back"):
            run(resumed_config(cut))
        assert restored(place) == [1] * AGENTS
    for name in ("cut", "account"):
        put_back(place.folder / f"newest {name}", place.folder / name)
    judged(run(resumed_config(cut)).folder)
    assert restored(place) == [0] * AGENTS


@pytest.mark.parametrize("locks", [True, False])
def test_an_account_older_than_the_folder(locks: bool, place: Place) -> None:
    cut = place.interrupted("cut", 1, account="account")
    shutil.copytree(place.folder / "account", old := place.folder / "old")
    with pytest.raises(Stop):
        run(resumed_config(cut), on_round=stopping(3))
    shutil.copytree(place.folder / "account", newest := place.folder / "newest")
    for file in old.glob("*.lock") if not locks else ():
        shutil.copy(place.folder / "account" / file.name, file)
    put_back(old, place.folder / "account")
    told = r"lacks charges of the run" if locks else "is not the one that was last used"
    with pytest.raises(RequestError, match=told):
        run(resumed_config(cut))
    put_back(newest, place.folder / "account")
    judged(run(resumed_config(cut)).folder)


def test_a_journal_alone_is_no_run(place: Place) -> None:
    """What it has is charged in ledgers that are gone."""
    cut = place.interrupted("cut", 2, account="account")
    shutil.copy(cut / "journal.bin", kept := place.folder / "kept")
    shutil.rmtree(cut)
    cut.mkdir()
    kept.rename(cut / "journal.bin")
    with pytest.raises(RequestError, match=r"journal\.bin is of a run whose folder is gone"):
        place.whole("cut", account="account")


def test_an_error_on_a_full_disk_leaves_account_and_journal_alike(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve fails, and its charge cannot be written down: nothing of it had left, and nothing is spent."""

    def fail(self: LocalSolver, *given: object) -> None:
        monkeypatch.setattr(Journal, "write", full)
        raise ArithmeticError

    def full(self: Journal, record: object) -> None:
        raise RunError("the disk is full")

    cut = place.interrupted("cut", 2, account="account")
    monkeypatch.setattr(LocalSolver, "solve", fail)
    with pytest.raises(RunError):
        run(resumed_config(cut))
    monkeypatch.undo()
    judged(run(resumed_config(cut)).folder)
    assert restored(place) == [0] * AGENTS


def test_a_cut_round_is_read_behind_its_record(tmp_path: Path) -> None:
    for rank in (0, 1):
        own = Journal(tmp_path, rank)
        own.write(Round(3, {rank: Said([], b"a\nb\n")}))
        if rank:
            own.write(Cut(1, 3, 1))
        own.close()
    found = Journal(tmp_path).past
    assert (found[1].void, found[1].ledger.last, found[0].ledger.last) == ({3}, (b"a",), (b"a", b"b"))


# what kernel means for a run: its name in the folder, what a resumed run may have, machines that have other ones

BUILT = kernels._compiled is not None


def told(folder: Path) -> tuple[str, str]:
    """Kernel in the settings and in the summary."""
    return str(load_config(folder / "config.toml").kernel), summary_of(folder)["versions"]["kernel"]


def test_without_a_compiler_numpy_serves(place: Place, admmnet: Admmnet, monkeypatch: pytest.MonkeyPatch) -> None:
    """And every folder says which kernel it was: of an unseeded run it stays open."""
    here, name = "c" if BUILT else "numpy", kernels.NAMES[kernels.chosen("auto")]
    assert told(place.whole("seeded")) == (here, name)
    assert told(place.whole("secret", seed=None)) == ("auto", name)
    expected = theta_of(place.whole("numpy", kernel="numpy", answer="last"))
    monkeypatch.setattr(kernels, "_compiled", None)
    bare = place.whole("bare", answer="last")
    assert told(bare) == ("numpy", "numpy")
    assert theta_of(bare).tobytes() == expected.tobytes()
    refusal = admmnet.refused("run", "--kernel", "c", "-o", place.folder / "refused")
    assert "kernel = 'c' is not built here" in refusal
    assert "--kernel numpy" in refusal
    assert not (place.folder / "refused").exists()


def test_a_seeded_run_goes_on_with_its_kernel_alone_and_an_unseeded_one_with_any(place: Place) -> None:
    whole = place.whole("whole", kernel="numpy", answer="last")
    folder = place.interrupted("cut", 4, kernel="numpy", answer="last")
    with pytest.raises(RequestError, match="differs from the interrupted run's"):  # which has a setting that it lacks
        run(RunConfig(algorithm="admm", resume=str(folder), seed=1))
    with pytest.raises(RequestError, match="kernel = 'c' differs from the interrupted run's 'numpy'"):
        place.resume(folder, kernel="c")
    assert theta_of(place.resume(folder)).tobytes() == theta_of(whole).tobytes()
    assert told(folder) == ("numpy", "numpy")
    secret = place.interrupted("secret", 4, kernel="auto", seed=None, account="account")
    assert told(place.resume(secret, kernel="numpy"))[1] == "numpy"
    private, seeded = (
        [RunConfig(**how, kernel=name) for name in ("c", "numpy")] for how in ({"private": True}, {"seed": 1})
    )
    assert public_settings(private[0]) == public_settings(private[1])  # hosts need not have the same
    assert settings_digest(private[0]) == settings_digest(private[1])
    assert settings_digest(seeded[0]) != settings_digest(seeded[1])


@pytest.mark.parametrize("missing", ["None", "type('Older', (), {'NAME': 'c0'})"])
def test_a_bare_checkout_and_an_older_build_import(missing: str) -> None:
    program = f"import sys; sys.modules['admmnet.solvers._kernel'] = {missing}\n"
    program += "from admmnet.solvers.certificate import chosen; print(chosen('auto'))"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.check_output([sys.executable, "-c", program], text=True, env=env) == "numpy\n"
    assert f'"NAME", "{kernels.NAMES["c"]}"' in (ROOT / "admmnet/solvers/_kernel.c").read_text(encoding="utf-8")
