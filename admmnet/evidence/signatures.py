"""One signed statement over a whole run folder, and who is to be believed to have made it (docs/signoff.md)."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import load_json, write_whole
from admmnet.identity.keys import SIGNATURE, Identity, statement, verify
from admmnet.record.manifest import MANIFEST, grown_digest, manifest_digest
from admmnet.transport.hosts.keys import read_toml, signer_in
from admmnet.transport.hosts.network import read_network

SIGNED = "signature.json"
_KEYS = {"manifest": 64, "grown": 64, "time": 0, "note": 0, "key": 64, "signature": 2 * SIGNATURE}
LONGEST_NOTE = 1000


def sign_folder(folder: Path, identity: Identity, note: str = "") -> str:
    """Sign a finished folder, which has been verified; return the digest of its manifest, which stands for all files.

    Raises
    ------
    RequestError
        If it has not finished, is of an older version, or is signed already.
    """
    if not (folder / MANIFEST).exists():
        raise RequestError(
            f"{folder} has no {MANIFEST}: only the folder of a finished run, of this version, can be signed"
        )
    if (folder / SIGNED).exists():
        raise RequestError(f"{folder} is signed already: remove {folder / SIGNED} to sign it anew")
    if len(note) > LONGEST_NOTE or not note.isprintable():
        raise RequestError(f"--note must be one line of at most {LONGEST_NOTE} letters")
    said = {
        "manifest": manifest_digest(folder),
        "grown": grown_digest(folder),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "note": note,
        "key": identity.public,
    }
    write_whole({folder / SIGNED: _encode(said | {"signature": identity.sign(_statement(said)).hex()})})
    return said["manifest"]


def check_signature(folder: Path) -> dict[str, str] | None:
    """What was signed of a folder that has been verified; None where nothing was.

    Raises
    ------
    CheckFailed
        If the folder is not the one that was signed, or nobody has signed it so.
    """
    path = folder / SIGNED
    if not path.exists():
        return None
    try:
        data = path.read_bytes()
        said: dict[str, str] = load_json(data)
        good = {key: isinstance(value, str) for key, value in said.items()} == dict.fromkeys(_KEYS, True)
        if not good or _encode(said) != data or any(n and len(said[key]) != n for key, n in _KEYS.items()):
            raise ValueError
        signature = bytes.fromhex(said["signature"])
    except (OSError, ValueError, AttributeError):
        raise CheckFailed(f"{path}: is not in the form that admmnet writes: it was changed") from None
    if not verify(said["key"], signature, _statement(said)):
        raise CheckFailed(f"{path}: its signature is not that of its key: it was changed")
    there = (folder / MANIFEST).exists()
    if not there or (manifest_digest(folder), grown_digest(folder)) != (said["manifest"], said["grown"]):
        raise CheckFailed(f"{path}: signs another folder: {MANIFEST} or a file was changed after it was signed")
    return said


def _statement(said: dict[str, str]) -> bytes:
    return statement("run folder", said["manifest"], said["grown"], said["time"], said["note"])


def _encode(said: dict[str, Any]) -> bytes:
    return (json.dumps(said, indent=1) + "\n").encode()


def known_keys(path: Path) -> dict[str, str]:
    """Public signing keys in a file, and in words whose they are: of a signer, an agent, or all of a network.

    Raises
    ------
    RequestError
        If it is no such file.
    """
    tables = read_toml(path, "key file")
    if "network" in tables:
        found: dict[str, str] = {}
        for peer in read_network(path).peers:
            found[str(peer.identity)] = f"agent {peer.agent} of {path}"
            found |= dict.fromkeys(peer.former, f"agent {peer.agent} of {path}, with a former key")
            found |= dict.fromkeys(peer.revoked, f"agent {peer.agent} of {path}, with a REVOKED key")
        return found
    return {signer_in(path, tables): f"the owner of {path}"}


def fingerprint(key: str) -> str:
    """Short form of a public key, to be read out."""
    digest = hashlib.sha256(bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(digest[place : place + 4] for place in range(0, 32, 4))
