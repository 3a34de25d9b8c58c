"""admmnet ledger key, sign and verify --key: one signature over a whole run folder."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from admmnet import run
from admmnet.identity.keys import Identity
from admmnet.record.format import epsilon
from admmnet.transport.hosts.keys import write_secret
from admmnet.transport.hosts.network import make_network, write_network
from tests.command_runs import Admmnet
from tests.people_runs import small
from tests.transport.test_network_file import plain

RUN: dict[str, Any] = {"topology": "path:3", "seed": 0}


@pytest.fixture(scope="module")
def finished(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(people, tmp_path_factory.mktemp("finished") / "run", **RUN, receipts=True)).folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def ledger(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys, "ledger")


@pytest.fixture
def officer(tmp_path: Path, ledger: Admmnet) -> Path:
    ledger.ok("key", "-o", tmp_path / "officer")
    return tmp_path / "officer"


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path, ledger: Admmnet) -> None:
    shown = ledger.ok("key", "-o", tmp_path / "officer").out
    secret, public = (tmp_path / "officer" / f"signer.{name}.toml" for name in ("secret", "public"))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert "fingerprint" in shown
    assert "secret =" not in public.read_text() + shown
    assert "cannot write the key file" in ledger.refused("key", "-o", tmp_path / "officer")


def test_a_signed_folder_says_by_whom_and_what(folder: Path, officer: Path, ledger: Admmnet) -> None:
    secret, public = officer / "signer.secret.toml", officer / "signer.public.toml"
    assert "signed:     no\n" in ledger.ok("verify", folder).out
    assert "it is not signed" in ledger.refused("verify", folder, "--key", public, code=1)
    shown = ledger.ok("sign", folder, "--key", secret, "--note", "agreed, Eva", "--simulation").out
    assert "everything holds, and is signed by" in shown
    assert "--key FILE checks its owner" in ledger.ok("verify", folder).out
    for key in (public, secret):
        shown = ledger.ok("verify", folder, "--key", key).out
        assert f"by the owner of {key}" in shown
        assert "their note: agreed, Eva" in shown
    assert "is signed already" in ledger.refused("sign", folder, "--key", secret, "--simulation")
    ledger.ok("key", "-o", officer / "other")
    assert "was signed with another key" in ledger.refused(
        "verify", folder, "--key", officer / "other" / "signer.public.toml", code=1
    )


def test_a_published_accountant_is_signed_with_a_warning(
    people: str, tmp_path: Path, officer: Path, ledger: Admmnet
) -> None:
    settings = {"algorithm": "ipp-admm", "method": "published", "epsilon": 1.0, "receipts": True}
    found = run(small(people, tmp_path / "run", **RUN, **settings))
    spent = epsilon(found.summary["privacy"]["epsilon_spent"])
    shown = ledger.ok("sign", found.folder, "--key", officer / "signer.secret.toml", "--simulation").out
    assert f"arithmetic, which guarantees nothing; the proven cost is epsilon {spent}\n" in shown


def edits(folder: Path) -> dict[str, tuple[str, str]]:
    """What somebody changes in a signature, and what is said then."""
    said = json.loads((folder / "signature.json").read_text())
    return {
        said["time"]: ("2001-01-01T00:00:00Z", "does not match its key"),
        said["note"]: ("agreed to all", "does not match its key"),
        said["key"]: (Identity.fresh().public, "does not match its key"),
        said["manifest"]: ("0" * 64, "does not match its key"),
        said["signature"]: (said["signature"][:-2] + "zz", "signature.json: "),
        '"note"': ('"notes"', "signature.json: "),
        "\n": ("\r\n", "signature.json: "),
    }


def test_whatever_is_changed_afterwards_is_found(folder: Path, officer: Path, ledger: Admmnet) -> None:
    ledger.ok("sign", folder, "--key", officer / "signer.secret.toml", "--note", "agreed", "--simulation")
    path = folder / "signature.json"
    good = path.read_bytes()
    for old, (new, message) in edits(folder).items():
        path.write_bytes(good.replace(old.encode(), new.encode()))
        assert message in ledger.refused("verify", folder, code=1)
    path.write_bytes(b"[" * 10_000)
    assert "signature.json: " in ledger.refused("verify", folder, code=1)
    path.write_bytes(good)
    ledger.ok("verify", folder)


def test_another_folder_under_the_same_signature(
    people: str, folder: Path, officer: Path, tmp_path: Path, ledger: Admmnet
) -> None:
    """In which everything else fits: only the signature shows that it is another one."""
    ledger.ok("sign", folder, "--key", officer / "signer.secret.toml", "--simulation")
    other = tmp_path / "other"
    run(small(people, other, **RUN, epsilon=0.5))
    ledger.ok("verify", other)
    shutil.copy(folder / "signature.json", other)
    assert "signs another folder" in ledger.refused("verify", other, code=1)


def test_what_cannot_be_signed(folder: Path, officer: Path, tmp_path: Path, ledger: Admmnet) -> None:
    secret, public = officer / "signer.secret.toml", officer / "signer.public.toml"
    (tmp_path / "empty.toml").write_text("")
    for words, message in [
        ((folder, "--key", tmp_path / "none.toml"), "cannot read the key file"),
        ((folder, "--key", public), "is open to other users"),
        ((tmp_path / "nothing", "--key", secret), "is no run folder"),
        ((folder, "--key", secret, "--note", "two\nlines"), "--note must be one line"),
        ((folder, "--key", secret, "--note", "x" * 1001), "--note must be one line"),
    ]:
        assert message in ledger.refused("sign", *words, "--simulation")
    public.chmod(0o600)
    assert "holds no secret of a signer" in ledger.refused("sign", folder, "--key", public, "--simulation")
    assert "is no network file, and has no key" in ledger.refused("verify", folder, "--key", tmp_path / "empty.toml")
    told = ledger.refused("sign", folder, "--key", officer, "--simulation")
    assert f"{officer} is a folder: name the key file in it, {secret}" in told
    assert f"{officer} is a folder: name the key file in it, {public}" in ledger.refused(
        "verify", folder, "--key", officer
    )
    told = ledger.refused("sign", folder, "--key", folder, "--simulation")
    assert f"{folder} is a folder without *.secret.toml: name a key file" in told
    assert "is a folder without network.toml" in ledger.refused("verify", folder, "--network", officer)
    model = folder / "model.npz"
    model.write_bytes(model.read_bytes() + b"x")
    ledger.refused("sign", folder, "--key", secret, "--simulation", code=1)
    for name in ("summary.json", "manifest.json"):
        (folder / name).unlink()
    assert "only the folder of a finished run" in ledger.refused("sign", folder, "--key", secret, "--simulation")
    assert not (folder / "signature.json").exists()


def test_an_agent_may_sign_and_the_network_file_says_who_it_is(folder: Path, tmp_path: Path, ledger: Admmnet) -> None:
    peers, identities = plain(3)
    write_secret(tmp_path / "agent.toml", 1, identities[1])
    ledger.ok("sign", folder, "--key", tmp_path / "agent.toml", "--simulation")
    write_network(make_network("path:3", [(0, 1), (1, 2)], peers, "ipc://relay"), tmp_path / "network.toml")
    assert "agent 1 of" in ledger.ok("verify", folder, "--key", tmp_path / "network.toml").out
    write_network(make_network("path:3", [(0, 1), (1, 2)], plain(3)[0], "ipc://relay"), tmp_path / "stranger.toml")
    assert "was signed with another key" in ledger.refused(
        "verify", folder, "--key", tmp_path / "stranger.toml", code=1
    )


def test_folders_without_receipts_are_not_compared(people: str, folder: Path, tmp_path: Path, ledger: Admmnet) -> None:
    other = tmp_path / "other"
    run(small(people, other, **RUN))
    assert "; 9 receipts agree" in ledger.ok("verify", folder).out
    assert "keeps no receipts" in ledger.refused("verify", folder, "--against", other)
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert "9 receipts agree with those of 1 other folder" in ledger.ok("verify", folder, "--against", copy).out
