"""Secrets of agents and of the relay, and the files that hold them (docs/hosts.md).

An agent has one secret, of its signing key; the key of its encrypted line follows from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.files import read_toml, refusing
from admmnet.identity.keys import Identity, check_identity, statement


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair in Z85."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, identity: Identity) -> Keys:
        """The pair that belongs to a signing key."""
        import zmq
        from zmq.utils import z85

        secret = z85.encode(hashlib.sha256(statement("line", bytes.fromhex(identity.secret))).digest())
        return cls(zmq.curve_public(secret).decode(), secret.decode())


def check_key(key: object, where: str) -> str:
    """Return a public CURVE key; if it is none, the error names ``where``."""
    from zmq.utils import z85

    try:
        if isinstance(key, str) and len(key) == 40 and len(z85.decode(key)) == 32:
            return key
    except (ValueError, KeyError, OverflowError):  # what z85 says of other letters
        pass
    raise RequestError(f"{where} is no key: it must be 40 letters of Z85, as `admmnet network init` writes it")


def secret_path(folder: Path, agent: int | None) -> Path:
    """Key file of an agent, or the relay's, below the folder of the network file."""
    return folder / "keys" / ("relay.secret.toml" if agent is None else f"agent-{agent:03d}.secret.toml")


def write_secret(path: Path, agent: int | None, identity: Identity) -> None:
    """Write the key file of an agent, or the relay's."""
    whose, number = ("the relay", "") if agent is None else (f"agent {agent}", f"agent = {agent}\n")
    head = f"# Key of {whose}. Keep this file on its host alone, readable by its user alone.\n[identity]\n{number}"
    write_private(path, f"{head}public = {as_toml(identity.public)}\nsecret = {as_toml(identity.secret)}\n")


def write_private(path: Path, content: str) -> None:
    """Write a file that its owner alone can read; an existing one is never replaced."""
    with refusing(f"write the key file {path}"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)


def read_secret(path: str | os.PathLike[str], agent: int | None) -> Identity:
    """Signing key in a key file; one that is missing, open to other users, or of another agent is refused."""
    source = Path(path)
    table = private_table(source).get("identity")
    if not isinstance(table, dict) or not isinstance(table.get("secret"), str) or table.get("agent") != agent:
        whose = "the relay" if agent is None else f"agent {agent}"
        raise RequestError(f"{source} is not the key file of {whose}: it has no such table [identity]")
    identity = Identity.of(table["secret"], f"{source}: secret")
    if identity.public != check_identity(table.get("public"), f"{source}: public"):
        raise RequestError(f"{source}: the public half of the key does not belong to the secret one")
    return identity


def private_table(source: Path) -> dict[str, Any]:
    """Tables of a file with secrets; one that other users can read is refused."""
    with refusing(f"read the key file {source}"):
        mode = stat.S_IMODE(source.stat().st_mode)
    # systemd shows the access list of a credential as its group's; its folder is open to the service's user alone
    service = os.environ.get("CREDENTIALS_DIRECTORY")
    given = service is not None and source.resolve().parent == Path(service).resolve()
    if mode & (0o007 if given else 0o077):
        raise RequestError(
            f"the key file {source} is open to other users (mode {mode:04o}): chmod 600 {source}; "
            "if others may have read it, make new keys: admmnet network init"
        )
    return read_toml(source, "key file")


def as_toml(value: str) -> str:
    """Text as TOML: a JSON string of printable letters is one."""
    return json.dumps(value, ensure_ascii=False)
