"""admmnet ledger key, sign and verify --key: one signature over a whole run folder."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run, run
from admmnet.cli import run_command_line
from admmnet.errors import CheckFailed
from admmnet.evidence.signatures import check_signature, sign_folder
from admmnet.identity.keys import Identity
from admmnet.record.manifest import check_manifest, make_manifest
from admmnet.transport.hosts.keys import Secrets, write_secrets
from admmnet.transport.hosts.network import make_network, write_network
from tests.people_runs import small
from tests.transport.test_network_file import plain

RUN: dict[str, Any] = {"topology": "path:3", "seed": 0}


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("finished") / "run", **RUN, receipts=True)).folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def ledger(*words: object) -> int:
    return run_command_line(["ledger", *map(str, words)])


@pytest.fixture
def officer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert ledger("key", "-o", tmp_path / "officer") == 0
    capsys.readouterr()
    return tmp_path / "officer"


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger("key", "-o", tmp_path / "officer") == 0
    secret, public = (tmp_path / "officer" / f"signer.{name}.toml" for name in ("secret", "public"))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    shown = capsys.readouterr().out
    assert "fingerprint" in shown
    assert "secret =" not in public.read_text() + shown
    assert ledger("key", "-o", tmp_path / "officer") == 2
    assert "cannot write the key file" in capsys.readouterr().err


def test_a_signed_folder_says_by_whom_and_what(folder: Path, officer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, public = officer / "signer.secret.toml", officer / "signer.public.toml"
    assert ledger("verify", folder, "--key", public) == 1
    assert "nobody has signed it" in capsys.readouterr().err
    assert ledger("sign", folder, "--key", secret, "--note", "agreed, Eva", "--simulation") == 0
    shown = capsys.readouterr().out
    assert "everything holds, and is signed by" in shown
    assert ledger("verify", folder) == 0
    assert "--key FILE checks whose that is" in capsys.readouterr().out
    for key in (public, secret):
        assert ledger("verify", folder, "--key", key) == 0
        shown = capsys.readouterr().out
        assert f"by the owner of {key}" in shown
        assert "their note: agreed, Eva" in shown
    assert ledger("sign", folder, "--key", secret, "--simulation") == 2
    assert "is signed already" in capsys.readouterr().err
    assert ledger("key", "-o", officer / "other") == 0
    assert ledger("verify", folder, "--key", officer / "other" / "signer.public.toml") == 1
    assert "was signed with another key" in capsys.readouterr().err


def edits(folder: Path) -> dict[str, tuple[str, str]]:
    """What somebody changes in a signature, and what is said then."""
    said = json.loads((folder / "signature.json").read_text())
    return {
        said["time"]: ("2001-01-01T00:00:00Z", "is not that of its key"),
        said["note"]: ("agreed to all", "is not that of its key"),
        said["key"]: (Identity.fresh().public, "is not that of its key"),
        said["manifest"]: ("0" * 64, "is not that of its key"),
        said["grown"]: ("0" * 64, "is not that of its key"),
        said["signature"]: (said["signature"][:-2] + "zz", "signature.json: "),
        '"note"': ('"notes"', "signature.json: "),
        "\n": ("\r\n", "signature.json: "),
    }


def test_whatever_is_changed_afterwards_is_found(
    folder: Path, officer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ledger("sign", folder, "--key", officer / "signer.secret.toml", "--note", "agreed", "--simulation") == 0
    path = folder / "signature.json"
    good = path.read_bytes()
    for old, (new, message) in edits(folder).items():
        path.write_bytes(good.replace(old.encode(), new.encode()))
        assert ledger("verify", folder) == 1
        assert message in capsys.readouterr().err
    path.write_bytes(b"[" * 10_000)
    assert ledger("verify", folder) == 1
    assert "signature.json: " in capsys.readouterr().err
    path.write_bytes(good)
    assert ledger("verify", folder) == 0


def test_what_a_lost_agent_writes_after_the_signature_is_found(folder: Path) -> None:
    """The manifest leaves it free, as the agent may live; the signature does not."""
    identity = Identity.fresh()
    summary = read_run(folder).summary
    (folder / "manifest.json").write_bytes(make_manifest(folder, {}, (1,)))
    sign_folder(folder, summary, identity, simulation=True)
    assert check_signature(folder) is not None
    with (folder / "receipts" / "agent-001.jsonl").open("ab") as file:
        file.write(b"{}\n")
    check_manifest(folder, (1,))
    with pytest.raises(CheckFailed, match="a file was changed after it was signed"):
        check_signature(folder)


def test_another_folder_under_the_same_signature(
    people: str, folder: Path, officer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In which everything else fits: only the signature shows that it is another one."""
    assert ledger("sign", folder, "--key", officer / "signer.secret.toml", "--simulation") == 0
    other = tmp_path / "other"
    run(small(people, other, **RUN, epsilon=0.5))
    assert ledger("verify", other) == 0
    shutil.copy(folder / "signature.json", other)
    assert ledger("verify", other) == 1
    assert "signs another folder" in capsys.readouterr().err


def test_what_cannot_be_signed(folder: Path, officer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, public = officer / "signer.secret.toml", officer / "signer.public.toml"
    (tmp_path / "empty.toml").write_text("")
    for words, message in [
        ((folder, "--key", tmp_path / "none.toml"), "cannot read the key file"),
        ((folder, "--key", public), "is open to other users"),
        ((tmp_path / "nothing", "--key", secret), "is no run folder"),
        ((folder, "--key", secret, "--note", "two\nlines"), "--note must be one line"),
        ((folder, "--key", secret, "--note", "x" * 1001), "--note must be one line"),
    ]:
        assert ledger("sign", *words, "--simulation") == 2
        assert message in capsys.readouterr().err
    public.chmod(0o600)
    assert ledger("sign", folder, "--key", public, "--simulation") == 2
    assert "holds no secret of a signer" in capsys.readouterr().err
    assert ledger("verify", folder, "--key", tmp_path / "empty.toml") == 2
    assert "is no network file, and has no key" in capsys.readouterr().err
    model = folder / "model.npz"
    model.write_bytes(model.read_bytes() + b"x")
    assert ledger("sign", folder, "--key", secret, "--simulation") == 1
    for name in ("summary.json", "manifest.json"):
        (folder / name).unlink()
    assert ledger("sign", folder, "--key", secret, "--simulation") == 2
    assert "only the folder of a finished run" in capsys.readouterr().err
    assert not (folder / "signature.json").exists()


def test_an_agent_may_sign_and_the_network_file_says_who_it_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, base = Identity.fresh(), plain()
    write_secrets(tmp_path / "agent.toml", 1, Secrets(None, own))
    assert ledger("sign", folder, "--key", tmp_path / "agent.toml", "--simulation") == 0
    for lists, who in {
        "identity": "agent 1 of",
        "former": "with a former key",
        "revoked": "with a REVOKED key",
    }.items():
        entry = f'identity = "{own.public}"' if lists == "identity" else f'{lists} = ["{own.public}"]'
        file = tmp_path / f"{lists}.toml"
        write_network(make_network("path:3", base.edges, base.peers, curve=False), file)
        text = file.read_text()
        listed = f'identity = "{base.peers[1].identity}"'
        file.write_text(text.replace(listed, entry if lists == "identity" else f"{listed}\n{entry}"))
        assert ledger("verify", folder, "--key", file) == 0
        assert who in capsys.readouterr().out
    write_network(make_network("path:3", base.edges, base.peers, curve=False), tmp_path / "stranger.toml")
    assert ledger("verify", folder, "--key", tmp_path / "stranger.toml") == 1
    assert "was signed with another key" in capsys.readouterr().err


def test_folders_without_receipts_are_not_compared(
    people: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    run(small(people, other, **RUN))
    assert ledger("verify", folder) == 0
    assert "; 9 receipts agree" in capsys.readouterr().out
    assert ledger("verify", folder, "--against", other) == 2
    assert "keeps no receipts" in capsys.readouterr().err
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert ledger("verify", folder, "--against", copy) == 0
    assert "9 receipts agree with those of 1 other folder" in capsys.readouterr().out
