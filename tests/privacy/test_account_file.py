"""The account's file: one run at a time holds it; torn, tampered, planted or foreign ones are told."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from admmnet import CheckFailed, RequestError, RunConfig, RunError, files, read_run, run
from admmnet.files import DESCRIPTORS, raise_descriptors
from admmnet.holder import door
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import Gaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.running.events import RoundEvent
from admmnet.transport import Transport
from tests.command_runs import Admmnet
from tests.planned import nominal_rho

from .accounts import HEADER, Place, header_of, opened, spend, started
from .ledgers import Change, builtins, chained, put

RHO = nominal_rho(1.0, 1e-4)

# locks

LOCK = """import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def test_another_process_holds_the_account(tmp_path: Path) -> None:
    started(tmp_path).close()
    path = tmp_path / "agent-000.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RequestError, match="is in use by another run"):
            opened(tmp_path)
    finally:
        child.communicate("\n", timeout=20)
    account = opened(tmp_path)  # a process that has ended holds nothing
    with path.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    account.close()


def test_a_refusal_closes_the_accounts_before_it(place: Place) -> None:
    place.run("first")
    before, held = place.file(1).read_bytes(), opened(place.account, agent=1, records=65)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(RequestError, match=r"agent-001\.jsonl is in use by another run; wait for its end"):
            place.run("second", epsilon=3.0)
    held.close()
    assert [str(warning.message) for warning in seen] == []
    assert not (place.folder / "second").exists()
    assert place.file(1).read_bytes() == before
    place.run("third", epsilon=3.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"delta": 1e-6}, "is for delta = 0.0001, this run has 1e-06: it belongs to other records"),
        ({"records": 99}, "is for records = 70, this run has 99"),
        ({"agent": 1}, "is for agent = 0, this run has 1"),
        ({}, "records: expected"),
    ],
)
def test_an_account_of_others_is_refused_and_let_go_at_once(words: dict[str, Any], told: str, tmp_path: Path) -> None:
    """Although somebody keeps the exception, and with it every frame."""
    started(tmp_path).close()
    path = tmp_path / f"agent-00{words.get('agent', 0)}.jsonl"
    good = (tmp_path / "agent-000.jsonl").read_bytes()
    path.write_bytes(good if words else good.replace(b'"records":70', b'"records":-1'))
    with pytest.raises(RequestError if words else CheckFailed, match=told) as kept:
        opened(tmp_path, **words)
    path.write_bytes(good)
    opened(tmp_path).close()
    assert kept.value.__traceback__ is not None


def swap(path: Path) -> None:
    """Put a copy in its place, as a restored backup is."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def test_a_rename_lets_no_second_run_in(tmp_path: Path) -> None:
    account = started(tmp_path)
    account.commit()
    swap(account.path)
    with pytest.raises(RequestError, match="is in use by another run"):
        opened(tmp_path)
    with pytest.raises(RunError, match="was replaced"):
        account.close()
    opened(tmp_path).close()


def test_a_lock_that_is_removed_ends_the_run_that_held_it(tmp_path: Path) -> None:
    account = started(tmp_path)
    (tmp_path / "agent-000.lock").unlink()
    second = opened(tmp_path)
    spend(account, 0.1)
    with pytest.raises(RunError, match=r"agent-000\.lock was removed while this run held it"):
        account.commit()
    second.close()
    with pytest.raises(RunError, match="was removed"):
        account.close()


@pytest.mark.parametrize("name", ["agent-000.jsonl", "agent-000.lock"])
def test_planted_links_and_pipes_are_not_followed(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine\n")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(RequestError, match=r"cannot open the account .*: it is a symbolic link"):
        opened(tmp_path)
    assert victim.read_bytes() == b"mine\n"
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)  # opening one for writing alone would wait for ever
    with pytest.raises(RequestError, match="it is no plain file"):
        opened(tmp_path)


# what the file holds


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    account = started(tmp_path)
    spend(account, 0.2)
    spend(account, 0.2)
    account.close()
    path = tmp_path / "agent-000.jsonl"
    data = path.read_bytes()
    *lines, last, _ = data.split(b"\n")
    whole = b"\n".join(lines) + b"\n"
    for cut in (1, len(last) // 2, len(last) - 1):
        path.write_bytes(whole + last[:cut])
        path.with_suffix(".lock").unlink()  # which knows of a line only when it is whole on the disk
        account = opened(tmp_path)
        assert account.totals.rho == pytest.approx(0.2 * RHO, rel=1e-12)
        assert path.read_bytes() == whole
        spend(account, 0.1)
        account.close()
        assert audit.read(path, account=True).totals.rho == pytest.approx(0.3 * RHO, rel=1e-12)
    for kept in (data, data[:-1]):  # a charge that lost its newline alone was a charge
        path.write_bytes(kept)
        path.with_suffix(".lock").unlink()
        account = opened(tmp_path)
        assert account.totals.rho == pytest.approx(0.4 * RHO, rel=1e-12)
        account.close()
        assert path.read_bytes() == data
    for part in (b"", data[:40]):  # a header that was never finished is no account
        path.write_bytes(part)
        path.with_suffix(".lock").unlink()
        account = opened(tmp_path, records=71, delta=1e-6)
        assert (account.totals.rho, account.fresh) == (0.0, True)
        account.close()


def test_an_older_copy_between_two_runs_is_told(tmp_path: Path) -> None:
    account = started(tmp_path)
    account.commit()
    path, lock = account.path, account.path.with_suffix(".lock")
    before = path.read_bytes()
    spend(account, 0.2)
    account.close()
    now, mark = path.read_bytes(), lock.read_bytes()
    for content in (before, b"", now[: len(now) // 2], now.replace(b'"round":0', b'"round":1')):
        path.write_bytes(content)
        with pytest.raises(RequestError, match=r"is not the one that was last used here: it had 2 lines"):
            opened(tmp_path)
    path.write_bytes(now)
    for content in (b"x", b"0" * 12 + mark[12:], mark * 2):
        lock.write_bytes(content)
        with pytest.raises(RequestError, match=r"agent-000\.lock is damaged"):
            opened(tmp_path)
    lock.write_bytes(mark)
    account = opened(tmp_path)
    spend(account, 0.1)
    account.close()
    lock.write_bytes(mark)  # of a run that was killed before the mark was: what is behind it counts
    account = opened(tmp_path)
    assert account.totals.rho == pytest.approx(0.3 * RHO, rel=1e-12)
    account.close()


@pytest.mark.parametrize(("line", "told"), [(0, "line 1: delta_clipping is "), (1, "line 2: does not follow")])
def test_a_tampered_account_ends_the_run(line: int, told: str, place: Place, admmnet: Admmnet) -> None:
    account = started(place.account, header_of(records=65))
    spend(account, 0.1)
    spend(account, 0.1)
    account.close()
    lines = place.file().read_text().split("\n")
    lines[line] = lines[line].replace('"epsilon":1.0', '"epsilon":9.0')
    place.file().write_text("\n".join(lines[:line] + lines[line + bool(line) :]))
    before = place.file().read_bytes()
    assert f"{place.file()}: {told}" in admmnet.refused(*place.words("run"), code=1)
    assert not (place.folder / "run").exists()
    assert told in admmnet.refused("account", "show", place.account, code=1)
    assert place.file().read_bytes() == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put(1), None),
        (put(1, "account_filter", kappa=1e-9), None),
        (put(1, "account_filter", kappa=1.5e-8), "account_filter is"),
        (put(1, "account_filter", parts=2), "account_filter is"),
        (put(1, "account_filter", order=float(ORDERS[300])), "account_filter is"),
        (put(1, agent=1), "agent, records, relation and delta are"),
        (put(1, records=71), "agent, records, relation and delta are"),
        (put(1, adjacency="zero-out", neighbours=[]), "agent, records, relation and delta are"),
        (put(1, budget={"epsilon": 1.0, "delta": 2e-4}), "agent, records, relation and delta are"),
        (lambda lines: lines[1].pop("account_filter"), "without a filter that keeps it"),
    ],
)
def test_a_further_run_keeps_to_what_the_first_one_fixed(change: Change, told: str | None, tmp_path: Path) -> None:
    first = builtins(header_of(Filter.keeping(1.0, 1e-4, kappa=1e-8)).line)
    lines = [first, {**deepcopy(first), "kind": "run"}]
    change(lines)
    path = tmp_path / "agent-000.jsonl"
    path.write_bytes(chained(lines))
    if told is None:
        assert len(audit.read(path, account=True).starts) == 2
        return
    with pytest.raises(CheckFailed, match=f"line 2: .*(?:{told}|lets through more than the budget)"):
        audit.read(path, account=True)


@pytest.mark.parametrize("charges", [1, 2])
def test_what_a_run_overspent_is_told_though_a_later_one_may_spend_more(charges: int, tmp_path: Path) -> None:
    limit = Filter.keeping(1.0, 1e-4)
    account = started(tmp_path, header_of(limit))
    account.filter = limit
    for _ in range(charges):
        account.charge(0, Gaussian((0.6 * limit.most_added) ** 0.5, 1.0))
    more = limit.raised(3.0, 1e-4)
    account.begin(header_of(contract=Contract(Promise(3.0, 1e-4), more, more)))
    account.filter = more
    account.charge(0, Gaussian(1e-3, 1.0))
    account.close()
    if charges == 1:
        assert len(audit.read(account.path, account=True).starts) == 2
        return
    with pytest.raises(CheckFailed, match="line 4: epsilon_spent comes to"):
        audit.read(account.path, account=True)


# a run and its files

BYTES = r"was changed, from \d+ to \d+ bytes,"
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (Path.unlink, "was deleted"),
    "replaced": (swap, "was replaced by another file"),
    "cut": (
        lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-1])),
        r"from \d+ to \d+ bytes,",
    ),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"{}\n"), BYTES),
    "changed": (lambda path: path.write_bytes(path.read_bytes()[:-6] + b"~" * 6), "was changed in its last line"),
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_ledger_that_is_not_what_was_written_takes_no_charge(fault: str, kept: bool, tmp_path: Path) -> None:
    spoil, how = FAULTS[fault]
    path = tmp_path / "agent-000.jsonl"
    ledger = Ledger(path, HEADER, durable=False, kept=kept)
    ledger.commit()
    spoil(path)
    if fault == "deleted" and not kept:
        how = "is gone"
    for _ in range(2):  # nor later
        with pytest.raises(RunError, match=rf"the ledger .* {how} while this run used it"):
            ledger.commit()
    with pytest.raises(RunError, match=how):
        ledger.close()


@pytest.mark.parametrize(("file", "fault"), [("account", "cut"), ("account", "replaced"), ("ledger", "changed")])
def test_a_run_ends_before_anything_more_is_sent(
    fault: str, file: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, how = FAULTS[fault]
    paths = {"account": place.file(1), "ledger": place.folder / "run/ledger/agent-001.jsonl"}
    answer: Any = door._carried
    exchange: Any = Transport.exchange
    sent, spoilt = list[int](), list[Path]()

    def answering(doors: Any, asked: Any, round: int) -> Any:
        if round == 1 and not spoilt:
            spoilt.append(paths[file])
            spoil(paths[file])
        return answer(doors, asked, round)

    def exchanging(self: Transport, outgoing: Any, round: int, *rest: Any) -> Any:
        sent.append(round)
        return exchange(self, outgoing, round, *rest)

    monkeypatch.setattr(door, "_carried", answering)
    monkeypatch.setattr(Transport, "exchange", exchanging)
    with pytest.raises(RunError, match=rf"the {file} .*agent-001.* {how}") as caught:
        place.run("run")
    assert caught.value.exit_code == 3
    assert sent == [0]
    assert not (place.folder / "run/summary.json").exists()


def test_runs_and_their_account_agree(place: Place, admmnet: Admmnet) -> None:
    """Each ledger names the account's last line before the run, and at its end."""
    place.run("first")
    early = [place.file(i).read_bytes() for i in range(3)]
    place.run("second", epsilon=3.0)
    first, second = (list(read_run(place.folder / name).ledgers.values()) for name in ("first", "second"))
    assert [one.account for one in first] == [two.header["account"] for two in second]
    assert all(one.account is not None for one in second)
    words = ["account", "show", str(place.account), "--against", *(str(place.folder / n) for n in ("first", "second"))]
    admmnet.ok(*words)
    admmnet.ok(*words[:-1], "--against", words[-1])
    run(RunConfig(data=place.data, topology="path:3", rounds=1, seed=0, out=str(place.folder / "alone")))
    assert "its run used no account" in admmnet.refused(*words[:-2], place.folder / "alone", code=1)
    for i, content in enumerate(early):  # an older copy of all, locks included: only the runs know better
        place.file(i).write_bytes(content)
        place.file(i).with_suffix(".lock").unlink()
    assert "agent-000.jsonl: lacks charges of" in admmnet.refused(*words, code=1)
    admmnet.ok(*words[:-1])
    place.file(1).unlink()
    assert "agent-001.jsonl: is missing, or empty" in admmnet.refused(*words[:-1], code=1)


def test_a_commit_waits_until_the_charges_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account, synced = started(tmp_path), list[bytes]()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(account.path.read_bytes()))
    for number in (1, 2):
        spend(account, 0.01)
        account.commit()
        assert len(synced) == number
        assert synced[-1] == account.path.read_bytes()
    account.close()


# open files


def open_files() -> set[str]:
    return {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


@pytest.mark.parametrize("kept", [True, False])
def test_ledgers_of_few_agents_stay_open_and_need_nothing_more(kept: bool, tmp_path: Path) -> None:
    """Who uses up a process's descriptors does not keep it from charging, and is told where many agents need them."""
    ledger = Ledger(tmp_path / "agent-000.jsonl", HEADER, durable=True, kept=kept)
    assert (str(ledger.path) in open_files()) is kept
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ledger.charge(0, Gaussian(1e-3, 1.0))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        if kept:
            ledger.commit()
        else:
            with pytest.raises(RunError, match="Too many open files; raise ulimit -n, or start more processes"):
                ledger.commit()
        with pytest.raises(RequestError, match=r"cannot open the account .*raise ulimit -n"):
            opened(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ledger.end()
    ledger.close()
    assert str(ledger.path) not in open_files()
    assert audit.read(ledger.path).finished


def test_a_process_asks_for_as_many_open_files_as_it_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        raise_descriptors()
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert now == min(hard if hard != resource.RLIM_INFINITY else DESCRIPTORS, DESCRIPTORS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("agents", "open_"), [(6, True), (7, False)])
def test_many_agents_of_a_process_keep_no_files_open(
    agents: int, open_: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "STAYING", 6)
    seen: list[bool] = []
    out = str(tmp_path / "run")
    settings: dict[str, Any] = {"algorithm": "noisy-gd", "topology": f"star:{agents}", "rounds": 1, "seed": 0}

    def look(event: RoundEvent) -> None:
        seen.append(f"{out}/ledger/agent-001.jsonl" in open_files())

    run(RunConfig(**settings, epsilon=100.0, out=out), on_round=look)
    assert seen == [open_]
