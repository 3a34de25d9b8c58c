"""finish.json: who has the last files of a run on its disk, each signed; and taking them over (docs/hosts.md)."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import write_whole
from admmnet.forms import decode, encode, read_form
from admmnet.graph.simple import Graph
from admmnet.identity.keys import statement, verify
from admmnet.methods.aggregate import mean_of
from admmnet.record.file_forms import Finish, PartFile
from admmnet.record.folder import PART, STARTS, SUMMARY, sha256
from admmnet.record.forms import Summary
from admmnet.record.manifest import MANIFEST, make_manifest
from admmnet.transport.starts import Certificate, Certificates, Rules, Staged, scope_of
from admmnet.types import Matrix

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError)
"""Of an archive that somebody else has made: RuntimeError where it is encrypted, or packed in another way."""
FINISH = "finish.json"
DRAFTS = f"{STARTS}/end"
PUBLIC = ("model.npz", "noise.npy", "encoding.json", "whitening.npy", "metrics.csv", SUMMARY, FINISH)
"""Files that are the same at every agent, or public; its ledger and receipts stay an agent's own."""

OWN = ("encoding.json", "whitening.npy")
"""Those of them that an agent has written before the first round, where records were measured; the first names the
second."""


def quorum(agents: int) -> int:
    """Fewest agents that make an end: more than half, so that there is one end."""
    return agents // 2 + 1


def digest_of_end(theta: Matrix, summary: Summary) -> str:
    """sha256 of what is one for all agents: every model, shape (N, ...), the rounds, and all ledgers."""
    ledgers = [word for name, digest in sorted(summary.ledgers.items()) for word in (name, digest)]
    return hashlib.sha256(statement("end", summary.rounds, theta.astype("<f8").tobytes(), *ledgers)).hexdigest()


def staged_statement(run: str, agent: int, digest: str) -> bytes:
    """What an agent signs when its last files are on its disk as drafts; ``run`` is the name of the start."""
    return statement("staged", run, agent, digest)


def signers(run: str, digest: str, keys: Mapping[int, str], said: Iterable[Staged]) -> dict[int, str]:
    """Agents that have signed an end in a start of this name, each with its signature."""
    found = {}
    for one in said:
        with suppress(ValueError):
            signed = staged_statement(run, one.agent, digest)
            if one.digest == digest and verify(keys[one.agent], bytes.fromhex(one.seal), signed):
                found[one.agent] = one.seal
    return found


def check_finish(finish: Finish, keys: Mapping[int, str], where: object) -> None:
    """Raise CheckFailed for an end that fewer than a quorum of the agents with these signing keys have signed."""
    for name, signature in finish.staged.items():
        key = keys.get(int(name))
        signed = staged_statement(finish.run, int(name), finish.digest)
        if key is None or not verify(key, bytes.fromhex(signature), signed):
            raise CheckFailed(f"{where}: agent {name} has not signed this end")
    if len(finish.staged) < quorum(len(keys)):
        raise CheckFailed(f"{where}: {len(finish.staged)} of {len(keys)} agents have signed, {quorum(len(keys))} must")


def _keys_of_start(finish: Finish, keys: Mapping[str, Mapping[int, str]]) -> Mapping[int, str] | None:
    """Keys of all agents, if the members of a start that was formed elsewhere have signed it for a known run."""
    for run, own in keys.items():
        rules = Rules(Graph(len(own)), quorum(len(own)), 0, scope_of(finish.network, run))
        genuine = lambda agent, signature, said, own=own: verify(own[agent], signature, said)  # noqa: E731
        named = finish.start is not None and finish.start.name == finish.run
        if named and Certificates(rules, genuine).start_of(finish.start) is not None:
            return own
    return None


def check_end(files: Mapping[str, bytes], keys: Mapping[str, Mapping[int, str]], where: object) -> Summary:
    """Hold last files of a run against their finish.json, and that against the keys of starts; return their summary.

    CheckFailed says that the end is of another run or start, is not signed by a quorum, or is not that of these files.
    """
    finish = decode(Finish, files.get(FINISH, b""), f"{where}/{FINISH}", indent=2)
    own = keys.get(finish.run) or _keys_of_start(finish, keys)
    if own is None:
        raise CheckFailed(f"{where}/{FINISH}: is of another run: no start here is called {finish.run[:16]}")
    check_finish(finish, own, f"{where}/{FINISH}")
    summary = decode(Summary, files.get(SUMMARY, b""), f"{where}/{SUMMARY}", indent=2)
    if digest_of_end(theta_of(files, where), summary) != finish.digest:
        raise CheckFailed(f"{where}: model, rounds or ledgers are not those that the agents have signed")
    return summary


def theta_of(files: Mapping[str, bytes], where: object) -> Matrix:
    """Models among last files; CheckFailed if they cannot be read, or their mean is another one."""
    try:
        with np.load(io.BytesIO(files.get("model.npz", b"")), allow_pickle=False) as model:
            theta: Matrix = model["theta"]
            consensus = model["consensus"]
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise CheckFailed(f"{where}/model.npz: cannot be read: {error}") from None
    if theta.dtype != np.float64 or theta.ndim < 2:
        raise CheckFailed(f"{where}/model.npz: theta is no array of float64 with a row for each agent")
    rules = ("mean", "screened") if theta.ndim == 2 else ("mean",)
    means = [mean_of(theta, rule) for rule in rules]
    if not any(consensus.shape == mean.shape and np.allclose(consensus, mean, 1e-9, equal_nan=True) for mean in means):
        raise CheckFailed(f"{where}/model.npz: consensus is no mean of the models")
    return theta


def keep_drafts(folder: Path, files: Mapping[str, bytes]) -> None:
    """Have the last files on the disk, under their names in a folder of drafts; RunError if the disk refuses."""
    (folder / DRAFTS).mkdir(parents=True, exist_ok=True)
    write_whole({folder / DRAFTS / name: content for name, content in files.items()})


def drafts_of(folder: Path) -> dict[str, bytes]:
    """Drafts of the last files that others may have; none where there are none."""
    there = {name: (folder / DRAFTS / name) for name in PUBLIC if (folder / DRAFTS / name).exists()}
    found = {name: path.read_bytes() for name, path in there.items()}
    return {**found, "metrics.csv": (folder / "metrics.csv").read_bytes()} if SUMMARY in found else {}


def public_files(folder: Path) -> dict[str, bytes]:
    """Files of a finished run that others may have; none where it has no finish.json."""
    there = [name for name in PUBLIC if (folder / name).exists()]
    return {name: (folder / name).read_bytes() for name in there} if FINISH in there else {}


def adopt(folder: Path, files: Mapping[str, bytes], keys: Mapping[str, Mapping[int, str]], where: object) -> None:
    """Finish an agent's folder with the ``public_files`` of another agent; its ledger and receipts stay.

    ``keys`` are those of all agents by the names of the starts that the folder knows. RequestError says that the folder
    is no agent's own, or is finished, CheckFailed that the files, which come from ``where``, are of no end of this run,
    or that the others know another ledger.
    """
    if (folder / SUMMARY).exists():
        raise RequestError(f"the run in {folder} is finished: there is nothing to adopt")
    if not (folder / PART).exists():
        raise RequestError(f"{folder} is no agent's own run folder: it has no {PART}")
    part = read_form(PartFile, folder / PART)
    summary = check_end(files, keys, where)
    for name, digest in summary.ledgers.items():
        path = folder / name
        if path.exists() and sha256(path) != digest:
            raise CheckFailed(
                f"{path}: is not the ledger with which agent {part.agent} finished: the others know one with sha256 "
                f"{digest[:16]}; put that back"
            )
    own = OWN if (folder / OWN[0]).exists() else ()  # no signature covers them: an agent keeps its own
    new = {folder / name: content for name, content in files.items() if name in PUBLIC and name not in own}
    last = {path: new.pop(path) for path in (folder / FINISH, folder / SUMMARY)}
    manifest = make_manifest(folder, new | {folder / SUMMARY: last[folder / SUMMARY]})
    write_whole(new | {folder / MANIFEST: manifest} | last)


def finish_of(
    run: str, summary: Summary, digest: str, staged: Mapping[int, str], network: str, start: Certificate | None
) -> bytes:
    """finish.json of an end that these agents have signed, in a start of this name, with what its members signed."""
    names = {str(i): signature for i, signature in sorted(staged.items())}
    rounds = summary.rounds
    return encode(Finish(run=run, rounds=rounds, digest=digest, staged=names, network=network, start=start), indent=2)
