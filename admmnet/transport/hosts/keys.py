"""Secrets of agents, for CURVE and for signing, and the files that hold them (docs/hosts.md)."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.files import load_toml, refusing
from admmnet.identity.keys import Identity, check_identity

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""Alphabet of ZeroMQ's RFC 32: five letters for four bytes."""


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair in Z85."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def fresh(cls) -> Keys:
        """Draw a key pair from the operating system's randomness."""
        import zmq

        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())


@dataclass(frozen=True)
class Secrets:
    """What an agent alone knows."""

    keys: Keys | None
    """None in networks without CURVE."""
    identity: Identity


def check_key(key: object, where: str) -> str:
    """Return a Z85 key of 32 bytes; if it is none, the error names `where` but not the key."""
    if isinstance(key, str) and len(key) == 40 and set(key) <= set(Z85):
        words = [key[start : start + 5] for start in range(0, 40, 5)]
        if all(sum(85**k * Z85.index(letter) for k, letter in enumerate(word[::-1])) < 2**32 for word in words):
            return key
    raise RequestError(f"{where} is no key: it must be 40 letters of Z85, as `admmnet network init` writes it")


def secret_path(folder: Path, agent: int) -> Path:
    """Key file of one agent below the folder of its network file."""
    return folder / "keys" / f"agent-{agent:03d}.secret.toml"


def write_secrets(path: Path, agent: int, secrets: Secrets) -> None:
    """Write a key file that its owner alone can read; an existing one is never replaced."""
    tables = "".join(
        f"[{name}]\nagent = {agent}\n{_lines(pair)}"
        for name, pair in (("key", secrets.keys), ("identity", secrets.identity))
        if pair is not None
    )
    head = f"# Keys of agent {agent}. Keep this file on the host of agent {agent} alone, readable by its user alone.\n"
    _write_private(path, head + tables)


def _lines(pair: Keys | Identity) -> str:
    return f"public = {as_toml(pair.public)}\nsecret = {as_toml(pair.secret)}\n"


def read_secrets(path: str | os.PathLike[str], agent: int) -> Secrets:
    """Secrets of an agent from its key file.

    One that is missing, open to other users, of another agent, or whose keys do not belong together is refused.
    """
    source = Path(path)
    tables = _private(source)
    if "identity" not in tables or not set(tables) <= {"key", "identity"}:
        raise RequestError(f"{source}: a key file has the tables [identity] and, for CURVE, [key]")
    identity = _identity(source, *_pair(source, "identity", tables["identity"], agent))
    return Secrets(_curve_pair(source, tables["key"], agent) if "key" in tables else None, identity)


def write_signer(folder: Path, identity: Identity) -> tuple[Path, Path]:
    """Write the two files of somebody who signs and is no agent: the secret one, and the one to give away."""
    secret, public = folder / "signer.secret.toml", folder / "signer.public.toml"
    _write_private(
        secret, f"# Whoever has this file signs in your name: keep it to yourself.\n[signer]\n{_lines(identity)}"
    )
    with refusing(f"write the key file {public}"), public.open("x", encoding="utf-8") as file:
        file.write(f"# Public: checks its owner's signatures.\n[signer]\npublic = {as_toml(identity.public)}\n")
    return secret, public


def read_signer(path: Path) -> Identity:
    """Signing key in the secret file of a signer or an agent, which must be its owner's alone."""
    tables = _private(path)
    table = tables.get("signer", tables.get("identity"))
    if not isinstance(table, dict) or "secret" not in table:
        raise RequestError(f"{path} holds no secret of a signer: `admmnet ledger key` makes one, signer.secret.toml")
    return _identity(path, table.get("public"), table["secret"])


def signer_in(path: Path, tables: dict[str, Any]) -> str:
    """Public signing key of a signer or an agent, from the tables of its file."""
    table = tables.get("signer", tables.get("identity"))
    if not isinstance(table, dict):
        raise RequestError(f"{path} is no network file, and has no key of a signer or agent ([signer], [identity])")
    return check_identity(table.get("public"), f"{path}: public")


def _private(source: Path) -> dict[str, Any]:
    """Tables of a file with secrets; one that other users can read is refused."""
    with refusing(f"read the key file {source}"):
        mode = stat.S_IMODE(source.stat().st_mode)
        if source.is_dir():
            raise _is_folder(source, "key file", "*.secret.toml")
    # systemd shows the access list of a credential as its group's; its folder is open to the service's user alone
    service = os.environ.get("CREDENTIALS_DIRECTORY")
    given = service is not None and source.resolve().parent == Path(service).resolve()
    if mode & (0o007 if given else 0o077):
        raise RequestError(
            f"the key file {source} is open to other users (mode {mode:04o}): chmod 600 {source}; "
            "if others may have read it, make new keys: admmnet network revoke"
        )
    return read_toml(source, "key file")


def _is_folder(path: Path, what: str, pattern: str) -> RequestError:
    """Error for a folder in place of a file, which names the file in it."""
    found = sorted(path.glob(pattern))
    if not found:
        return RequestError(f"{path} is a folder without {pattern}: name a {what}")
    others = f", or another of its {len(found)}" if len(found) > 1 else ""
    return RequestError(f"{path} is a folder: name the {what} in it, {found[0]}{others}")


def _write_private(path: Path, content: str) -> None:
    with refusing(f"write the key file {path}"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)


def _curve_pair(source: Path, table: object, agent: int) -> Keys:
    import zmq

    public, secret = _pair(source, "key", table, agent)
    keys = Keys(check_key(public, f"{source}: public"), check_key(secret, f"{source}: secret"))
    if zmq.curve_public(keys.secret.encode()).decode() != keys.public:
        raise RequestError(f"{source}: the public key does not belong to the secret one")
    return keys


def _identity(source: Path, public: object, secret: object) -> Identity:
    if not isinstance(secret, str):
        raise RequestError(f"{source}: secret must be text")
    identity = Identity.of(secret, f"{source}: secret")
    if identity.public != check_identity(public, f"{source}: public"):
        raise RequestError(f"{source}: the public half of the signing key does not belong to the secret one")
    return identity


def _pair(source: Path, name: str, table: object, agent: int) -> tuple[object, object]:
    if not isinstance(table, dict) or set(table) != {"agent", "public", "secret"}:
        raise RequestError(f"{source}: the table [{name}] of a key file has agent, public and secret")
    if table["agent"] != agent or isinstance(table["agent"], bool):
        raise RequestError(f"{source} is the key file of agent {table['agent']!r}, not of agent {agent}")
    return table["public"], table["secret"]


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Content of a TOML file."""
    try:
        return load_toml(path.read_bytes())
    except FileNotFoundError:
        raise RequestError(f"there is no {what} {path}; `admmnet network init` makes one") from None
    except IsADirectoryError:
        raise _is_folder(path, what, "*.public.toml" if what == "key file" else "network.toml") from None
    except OSError as error:
        raise RequestError(f"cannot read the {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestError(f"{path} is not a TOML file: not UTF-8 text") from None
    except ValueError as error:
        # the message of a broken key file must not show a part of the key: TOML's says the place alone
        raise RequestError(f"{path} is not a TOML file: {error}") from None


def as_toml(value: str) -> str:
    """Text as TOML: a JSON string of printable letters is one."""
    return json.dumps(value, ensure_ascii=False)
