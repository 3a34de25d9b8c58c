"""Signing keys: vectors of RFC 8032, statements that cannot be taken for one another, no core dump of their process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from admmnet.errors import RequestError
from admmnet.identity.keys import SIGNATURE, Identity, check_identity, statement, verify

PARTS = st.lists(st.binary(max_size=4) | st.text(max_size=4) | st.integers(0, 300), max_size=4)
VECTORS = [  # RFC 8032, 7.1: secret, public, message, signature
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard(secret: str, public: str, message: str, signature: str) -> None:
    key = Identity.of(secret, "key")
    assert key.public == public
    assert key.sign(bytes.fromhex(message)).hex() == signature
    assert verify(public, bytes.fromhex(signature), bytes.fromhex(message))


def test_a_signature_holds_for_its_statement_and_its_key_alone() -> None:
    own, other = Identity.fresh(), Identity.fresh()
    said = statement("round", 3, "abc")
    signature = own.sign(said)
    assert len(signature) == SIGNATURE
    assert verify(own.public, signature, said)
    assert not verify(other.public, signature, said)
    assert not verify(own.public, signature, statement("round", 4, "abc"))
    for wrong in (b"", signature[:-1], bytes(SIGNATURE), signature + b"\0"):
        assert not verify(own.public, wrong, said)


@given(PARTS, PARTS)
@example(["1"], [1])
@example(["a", "bc"], ["ab", "c"])
@example([b"s", "1"], [b"", "s1"])
def test_no_two_statements_have_the_same_bytes(one: list[bytes | str | int], other: list[bytes | str | int]) -> None:
    same = [(type(part), part) for part in one] == [(type(part), part) for part in other]
    assert (statement("topic", *one) == statement("topic", *other)) is same
    assert statement("topic", *one) != statement("other topic", *one)


def test_a_secret_is_never_shown() -> None:
    key = Identity.fresh()
    assert key.secret not in repr(key)
    for wrong in (key.secret[:-1], key.secret + "0", key.secret[:-1] + "g", key.secret.upper() + "\n", None):
        with pytest.raises(RequestError, match="64 hexadecimal digits") as error:
            check_identity(wrong, "agent-000.secret.toml: identity")
        assert key.secret[:-1] not in str(error.value)


ASK = """
import ctypes, resource
from admmnet.cli import run_command_line
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
code = run_command_line({words})
print(code, before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
@pytest.mark.parametrize(
    ("words", "dumpable"), [(["agent", "--id", "0", "--network", "none.toml"], 0), (["ledger", "show", "none"], 1)]
)
def test_an_agent_cannot_be_dumped(words: list[str], dumpable: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(words=words)], capture_output=True, text=True, timeout=60, check=True
    )
    code, before, after, limit = map(int, done.stdout.split())
    assert (code, before, after) == (2, 1, dumpable)
    assert limit == 0 or dumpable
