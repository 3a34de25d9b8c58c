"""Ends that others have signed: an agent signs what it has made itself, once a run, and takes what most signed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from admmnet.cli import run_command_line
from admmnet.errors import RequestError
from admmnet.record.finish import TAKEN, public_files, read_end
from admmnet.record.folder import SUMMARY
from admmnet.running.ending import fits, staged, take_end
from admmnet.running.starts import HostJournal
from admmnet.transport.zmq.wire import End
from tests.people_runs import summary_of
from tests.run_folders import Files, double_model, ended, put, unended

LEDGER = "ledger/agent-002.jsonl"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders 0, 1 and 2 of the agents of a run."""
    folder = tmp_path_factory.mktemp("ended")
    ended(folder)
    return folder


def drop_ledger(files: Files) -> None:
    put(SUMMARY, "ledgers", value={k: v for k, v in json.loads(files[SUMMARY])["ledgers"].items() if k != LEDGER})(
        files
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda files: None, None),
        (put(SUMMARY, "seconds", "total", value=9.0), None),  # of an end to which the others came later
        (drop_ledger, "without this agent"),
        (put(SUMMARY, "ledgers", LEDGER, value="0" * 64), "does not match the ledger"),
        (double_model, "has another model"),
    ],
)
def test_an_agent_signs_no_end_that_is_not_its_own(
    change: Callable[[Files], None], told: str | None, finished: Path, tmp_path: Path
) -> None:
    own, files = unended(finished / "2", tmp_path / "2"), public_files(finished / "0")
    models = HostJournal(own, 2, 3, seeded=False).models
    change(files)
    end = End(read_end(files)[1], files)
    assert fits(own, 2, models, End("0" * 64, files)) == "its files are not those that were signed"
    fault, drafts = fits(own, 2, models, end), staged(own)
    if told is not None:
        assert told in str(fault)
        assert drafts is None
    else:
        assert (fault, drafts and drafts.digest) == (None, end.digest)
        assert fits(own, 2, [], end) == "it has another model than this agent has made with its ledger"


def test_an_agent_signs_one_end_of_a_run(finished: Path, tmp_path: Path) -> None:
    journal = HostJournal(own := unended(finished / "2", tmp_path / "2"), 2, 3, seeded=False)
    signed = journal.signed
    assert len(signed) == 64
    assert (journal.sign(signed), journal.sign("0" * 64)) == (True, False)
    assert not HostJournal(own, 2, 3, seeded=False).sign("0" * 64)


@pytest.mark.parametrize("drafts", [False, True])
def test_what_most_signed_is_taken(drafts: bool, finished: Path, tmp_path: Path) -> None:
    """By drafts of its own the folder is whole; by the files of others without what nobody has signed."""
    own, files = unended(finished / "2", tmp_path / "2"), public_files(finished / "0")
    end = End(read_end(files)[1], files, files["finish.json"])
    if drafts:
        assert fits(own, 2, HostJournal(own, 2, 3, seeded=False).models, end) is None
    take_end(own, end)
    assert run_command_line(["ledger", "verify", str(own), "--against", str(finished / "1")]) == 0
    assert summary_of(own)["notes"] == [TAKEN]
    with pytest.raises(RequestError, match="is finished"):
        take_end(own, end)
