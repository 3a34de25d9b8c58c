"""One signed statement over a whole run folder, and who is to be believed to have made it (docs/signoff.md)."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import refusing, write_whole
from admmnet.forms import encode, read_form
from admmnet.identity.keys import SIGNATURE, Identity, check_identity, statement, verify
from admmnet.record.file_forms import Signed
from admmnet.record.forms import Summary
from admmnet.record.manifest import MANIFEST, manifest_digest
from admmnet.transport.hosts.keys import as_toml, private_table, read_toml, write_private
from admmnet.transport.hosts.network import read_network

SIGNED = "signature.json"
LONGEST_NOTE = 1000


def sign_folder(
    folder: Path, summary: Summary | None, identity: Identity, note: str = "", *, simulation: bool = False
) -> str:
    """Sign a folder that has been verified; return the digest of its manifest, which stands for all files.

    ``summary`` is the folder's; ``simulation`` says that the signer knows it to be that of a simulation. RequestError
    if it has not finished, is signed already, or its mode is not as its signer says.
    """
    if summary is None:
        raise RequestError(f"{folder} has no summary.json: only the folder of a finished run can be signed")
    if summary.mode == "simulation" and not simulation:
        raise RequestError(
            f"{folder} is the folder of a simulation, which protects nothing: add --simulation to sign it as one"
        )
    if summary.mode == "private" and simulation:
        raise RequestError(f"{folder} is the folder of a private run: leave out --simulation")
    if (folder / SIGNED).exists():
        raise RequestError(f"{folder} is signed already: remove {folder / SIGNED} to sign it anew")
    if len(note) > LONGEST_NOTE or not note.isprintable():
        raise RequestError(f"--note must be one line of at most {LONGEST_NOTE} letters")
    said = Signed(
        manifest=manifest_digest(folder),
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        note=note,
        simulation=simulation,
        key=identity.public,
        signature="0" * 2 * SIGNATURE,
    )
    signature = identity.sign(_statement(said)).hex()
    write_whole({folder / SIGNED: encode(structs.replace(said, signature=signature), indent=1)})
    return said.manifest


def check_signature(folder: Path) -> Signed | None:
    """What was signed of a folder that has been verified; None where nothing was.

    CheckFailed if the folder is not the one that was signed, or nobody has signed it so.
    """
    path = folder / SIGNED
    if not path.exists():
        return None
    said = read_form(Signed, path, indent=1)
    if not verify(said.key, bytes.fromhex(said.signature), _statement(said)):
        raise CheckFailed(f"{path}: its signature does not match its key: it was changed")
    there = (folder / MANIFEST).exists()
    if not there or manifest_digest(folder) != said.manifest:
        raise CheckFailed(f"{path}: signs another folder: {MANIFEST} or a file was changed after it was signed")
    return said


def _statement(said: Signed) -> bytes:
    mode = "simulation" if said.simulation else "private"
    return statement("run folder", said.manifest, said.time, said.note, mode)


def known_keys(path: Path) -> dict[str, str]:
    """Public signing keys in a file, and in words whose they are: of a signer, an agent, or all of a network.

    RequestError if it is no such file.
    """
    tables = read_toml(path, "key file")
    if "network" in tables:
        found: dict[str, str] = {}
        for peer in read_network(path).peers:
            found[str(peer.identity)] = f"agent {peer.agent} of {path}"
        return found
    return {signer_in(path, tables): f"the owner of {path}"}


def write_signer(folder: Path, identity: Identity) -> tuple[Path, Path]:
    """Write the two files of somebody who signs and is no agent: the secret one, and the one to give away."""
    secret, public = folder / "signer.secret.toml", folder / "signer.public.toml"
    pair = f"public = {as_toml(identity.public)}\nsecret = {as_toml(identity.secret)}\n"
    write_private(secret, f"# Whoever has this file signs in your name: keep it to yourself.\n[signer]\n{pair}")
    with refusing(f"write the key file {public}"), public.open("x", encoding="utf-8") as file:
        file.write(f"# Public: checks its owner's signatures.\n[signer]\npublic = {as_toml(identity.public)}\n")
    return secret, public


def read_signer(path: Path) -> Identity:
    """Signing key in the secret file of a signer or an agent, which must be its owner's alone."""
    tables = private_table(path)
    table = tables.get("signer", tables.get("identity"))
    if not isinstance(table, dict) or "secret" not in table:
        raise RequestError(f"{path} holds no secret of a signer: `admmnet ledger key` makes one, signer.secret.toml")
    return Identity.of(table["secret"], f"{path}: secret")


def signer_in(path: Path, tables: dict[str, Any]) -> str:
    """Public signing key of a signer or an agent, from the tables of its file."""
    table = tables.get("signer", tables.get("identity"))
    if not isinstance(table, dict):
        raise RequestError(f"{path} is no network file, and has no key of a signer or agent ([signer], [identity])")
    return check_identity(table.get("public"), f"{path}: public")


def fingerprint(key: str) -> str:
    """Short form of a public key, to be read out."""
    digest = hashlib.sha256(bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(digest[place : place + 4] for place in range(0, 32, 4))
