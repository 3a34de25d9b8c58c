"""Accounts and ledgers are not lost in silence: deleted, replaced, cut or planted, in a run or between two."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet import CheckFailed, RequestError, RunConfig, RunError, files, read_run, run
from admmnet.cli import run_command_line
from admmnet.files import DESCRIPTORS, raise_descriptors
from admmnet.holder import door
from admmnet.privacy.events import Gaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.running.accounts import note_begun, open_accounts, records_of
from admmnet.running.events import RoundEvent
from admmnet.transport.local import LocalTransport
from tests.command_runs import Admmnet

from .accounts import HEADER, Place, header_of, opened, spend, started


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    """Put a copy in its place, as a restored backup is."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def add(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")


def change(path: Path) -> None:
    """Another last line of the same length, in place."""
    data = path.read_bytes()
    path.write_bytes(data[:-6] + bytes([data[-6] ^ 1]) + data[-5:])


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "deleted": (delete, "was deleted"),
    "replaced": (replace, "was replaced by another file"),
    "cut": (cut, r"was changed, from \d+ to \d+ bytes,"),
    "longer": (add, r"was changed, from \d+ to \d+ bytes,"),
    "changed": (change, "was changed in its last line"),
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_ledger_that_is_not_what_was_written_takes_no_charge(fault: str, kept: bool, tmp_path: Path) -> None:
    spoil, how = FAULTS[fault]
    path = tmp_path / "agent-000.jsonl"
    ledger = Ledger(LedgerFile(path, durable=False, kept=kept), HEADER)
    ledger.commit()
    spoil(path)
    if fault == "deleted" and not kept:
        how = "is gone"
    for _ in range(2):  # nor later
        with pytest.raises(RunError, match=rf"the ledger .* {how} while this run used it"):
            ledger.commit()
    with pytest.raises(RunError, match=how):
        ledger.close()


@pytest.mark.parametrize("file", ["account", "ledger"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_ends_before_anything_more_is_sent(
    fault: str, file: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, how = FAULTS[fault]
    paths = {"account": place.file(1), "ledger": place.folder / "run/ledger/agent-001.jsonl"}
    answer: Any = door._carried
    sent: list[int] = []
    exchange: Any = LocalTransport.exchange

    def answering(doors: Any, asked: Any, round: int) -> Any:
        if round == 1 and not answering.spoilt:  # type: ignore[attr-defined]
            answering.spoilt = True  # type: ignore[attr-defined]
            spoil(paths[file])
        return answer(doors, asked, round)

    def exchanging(self: LocalTransport, outgoing: Any, round: int, *rest: Any) -> Any:
        sent.append(round)
        return exchange(self, outgoing, round, *rest)

    answering.spoilt = False  # type: ignore[attr-defined]
    monkeypatch.setattr(door, "_carried", answering)
    monkeypatch.setattr(LocalTransport, "exchange", exchanging)
    with pytest.raises(RunError, match=rf"the {file} .*agent-001.* {how}") as caught:
        place.run("run")
    assert caught.value.exit_code == 3
    assert sent == [0]
    assert not (place.folder / "run/summary.json").exists()


def test_a_rename_lets_no_second_run_in(tmp_path: Path) -> None:
    account = started(tmp_path)
    account.commit()
    replace(account.path)
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


def test_an_older_copy_between_two_runs_is_told(place: Place, admmnet: Admmnet) -> None:
    place.run("first")
    before = place.file().read_bytes()
    place.run("second", epsilon=3.0)
    now = place.file().read_bytes()
    for content in (before, b"", now[: len(now) // 2]):
        place.file().write_bytes(content)
        assert "agent-000.jsonl is not the one that was last used here: it had" in admmnet.refused(
            *place.words("third", "--epsilon", "5")
        )
    place.file().write_bytes(now)
    lock = place.file().with_suffix(".lock")
    mark = lock.read_bytes()
    for content in (b"x", b"0" * 12 + mark[12:], mark * 2):
        lock.write_bytes(content)
        assert f"{lock} is damaged" in admmnet.refused(*place.words("third", "--epsilon", "5"))
    lock.write_bytes(mark)
    admmnet.ok(*place.words("third", "--epsilon", "5"))


@pytest.mark.parametrize("lacks", [[2], [0, 1, 2]])
def test_a_missing_account_is_told(lacks: list[int], place: Place) -> None:
    """Its lock is gone, too."""
    place.run("first")
    assert json.loads((place.account / "records.json").read_text())["begun"] == [0, 1, 2]
    for agent in lacks:
        place.file(agent).unlink()
        place.file(agent).with_suffix(".lock").unlink()
    with pytest.raises(RequestError, match=rf"agent-00{lacks[0]}\.jsonl is missing, or empty"):
        place.run("second", epsilon=3.0)
    assert not place.file(lacks[0]).exists()


def test_an_agent_alone_misses_its_account(place: Place) -> None:
    """A host of its own, whose folder holds one account."""
    config = RunConfig(algorithm="pp-admm", rounds=1, delta=1e-4, account=str(place.account))
    counts = {0: 70, 1: 70, 2: 70}
    given = config.sections.method, records_of(config.request, 3, config.mode), counts, [2]
    accounts = open_accounts(*given)
    accounts[2].begin(header_of(agent=2))
    accounts[2].close()
    note_begun(place.account, accounts)
    open_accounts(*given)[2].close()
    place.file(2).write_bytes(b"")
    place.file(2).with_suffix(".lock").unlink()
    for _ in range(2):
        with pytest.raises(RequestError, match=r"agent-002\.jsonl is missing, or empty, but by .*records\.json"):
            open_accounts(*given)
        place.file(2).unlink(missing_ok=True)


@pytest.mark.parametrize("content", ["[]", '{"begun": 3}', '{"begun": [[0]]}', '{"begun": ["0"]}'])
def test_damaged_records_are_told(content: str, place: Place) -> None:
    place.run("first")
    (place.account / "records.json").write_text(content)
    with pytest.raises(RequestError, match=r"cannot open the account .*records\.json is damaged"):
        place.run("second", epsilon=3.0)


def test_a_refused_first_run_leaves_nothing_that_must_be_complete(place: Place) -> None:
    assert run_command_line(place.words("first", "--eta", "1e-9", "--proximal", "0")) == 4
    place.file(1).unlink()
    place.run("second")


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


# an account against the runs that used it


def test_runs_and_their_account_agree(place: Place, admmnet: Admmnet) -> None:
    """Each ledger names the account's last line before the run, and at its end."""
    place.run("first")
    early = [place.file(i).read_bytes() for i in range(3)]
    place.run("second", epsilon=3.0)
    first, second = (list(read_run(place.folder / name).ledgers.values()) for name in ("first", "second"))
    assert [one.account for one in first] == [two.header["account"] for two in second]
    assert all(one.account is not None for one in second)
    words = ["account", "show", str(place.account), "--against"]
    words += [str(place.folder / name) for name in ("first", "second")]
    admmnet.ok(*words)
    for i, content in enumerate(early):  # an older copy of all, locks included: only the runs know better
        place.file(i).write_bytes(content)
        place.file(i).with_suffix(".lock").unlink()
    assert "agent-000.jsonl: lacks charges of" in admmnet.refused(*words, code=1)
    admmnet.ok(*words[:-1])
    place.file(1).unlink()
    assert "agent-001.jsonl: is missing, or empty" in admmnet.refused(*words[:-1], code=1)


def test_an_account_that_began_anew_is_told(place: Place, admmnet: Admmnet) -> None:
    place.run("first", epsilon=2.0)
    shutil.rmtree(place.account)
    place.run("second", epsilon=1.0)  # the same records, the first run forgotten
    assert "lacks charges of" in admmnet.refused(
        "account", "show", place.account, "--against", place.folder / "first", code=1
    )
    run(RunConfig(data=place.data, topology="path:3", rounds=1, seed=0, out=str(place.folder / "alone")))
    assert "its run used no account" in admmnet.refused(
        "account", "show", place.account, "--against", place.folder / "alone", code=1
    )


def test_the_head_of_an_end_line_is_of_the_account(place: Place) -> None:
    place.run("first")
    path = place.folder / "first/ledger/agent-000.jsonl"
    data = path.read_bytes()
    head = audit.read(path).account
    assert head is not None
    path.write_bytes(data.replace(b'"account":"' + head.encode(), b'"account":"' + head[:-1].encode() + b"g"))
    with pytest.raises(CheckFailed, match="account: expected text matching"):
        audit.read(path)
    (place.folder / "alone").mkdir()
    ledger = Ledger(LedgerFile(place.folder / "alone/agent-000.jsonl", durable=False), HEADER)
    ledger.end()
    ledger.close()
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data.replace(b',"previous"', b',"account":"' + head.encode() + b'","previous"'))
    with pytest.raises(CheckFailed, match="is not the end of"):  # without account there is no head
        audit.read(ledger.path)


# open files


def _event() -> Gaussian:
    return Gaussian(1e-3, 1.0)


def open_files() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {os.readlink(path) for path in links if path.is_symlink()}


def test_ledgers_of_few_agents_stay_open_and_need_nothing_more(tmp_path: Path) -> None:
    """Who uses up a process's descriptors does not keep it from charging."""
    ledger = Ledger(LedgerFile(tmp_path / "agent-000.jsonl", durable=True), HEADER)
    assert str(ledger.path) in open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ledger.charge(0, _event())
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        ledger.commit()
        with pytest.raises(OSError, match="Too many open files"):
            (tmp_path / "more").open("w")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ledger.end()
    ledger.close()
    assert str(ledger.path) not in open_files()
    assert audit.read(ledger.path).finished


def test_too_many_files_are_not_too_little_space(tmp_path: Path) -> None:
    ledger = Ledger(LedgerFile(tmp_path / "agent-000.jsonl", durable=True, kept=False), HEADER)
    assert str(ledger.path) not in open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ledger.charge(0, _event())
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(RunError, match="Too many open files; raise ulimit -n, or start more processes"):
            ledger.commit()
        with pytest.raises(RequestError, match=r"cannot open the account .*raise ulimit -n"):
            opened(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ledger.end()
    ledger.close()


def test_a_process_asks_for_as_many_open_files_as_it_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        raise_descriptors()
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert now == min(hard if hard != resource.RLIM_INFINITY else DESCRIPTORS, DESCRIPTORS)
        raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == now
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
