"""The run folder: what a run leaves behind, and reading it again (docs/ledger.md)."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import re
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, TextIO, cast

import numpy as np
from msgspec import Meta

from admmnet.data.figures import mean_of
from admmnet.errors import CheckFailed, RequestError, printable
from admmnet.files import refusing, write_whole
from admmnet.forms import decode, encode, read_form
from admmnet.privacy.ledger.form import Digest, EndLine, EventLine, HeaderLine, Line, Total
from admmnet.record.forms import FileForm
from admmnet.record.journal import JOURNAL
from admmnet.transport import World
from admmnet.transport.collective import share
from admmnet.types import Matrix, Vector, Whole

PUBLIC_COLUMNS = ("round", "agent", "test_error", "releases", "bytes_sent")
_ARRAYS = ("theta.npy", "consensus.npy", "feature_names.npy")
_MOST_MEMBERS = 100
"""Of a model.npz: `zipfile` makes an object of each; numbers of a model may look like a few."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Said by file systems of clusters that know no locks: there nothing keeps two runs apart."""
DRAFTS = "end"
"""Folder with drafts of the last files; no manifest covers it."""
MANIFEST = "manifest.json"
FILES = (
    *("config.toml", "encoding.json", "ledger", "metrics.csv", "model.npz", "noise.npy", "part.json", "receipts"),
    *("summary.json", "whitening.npy"),
)
"""What a manifest covers, folders with all that is in them; anything else in a run folder was put there by somebody."""
SUMMARY = "summary.json"
"""File with the figures of a run, written last: where it is, the run has finished."""
PART = "part.json"
"""File of a folder that holds the ledger of one agent alone: {"agent": 3, "agents": 5}."""


class FileEntry(FileForm, frozen=True, kw_only=True):
    """One file of a manifest."""

    sha256: Digest
    size: Whole


class Manifest(FileForm, frozen=True, kw_only=True):
    """manifest.json: size and sha256 of every file of a finished run folder."""

    schema: Literal[3]
    files: dict[str, FileEntry]


class PartFile(FileForm, frozen=True, kw_only=True):
    """part.json: the folder holds the ledger of one agent alone."""

    agent: Whole
    agents: Annotated[int, Meta(ge=1)]


def default_folder(algorithm: str) -> Path:
    """Return runs/<time>-<algorithm>, with a number behind it where that exists; of module:Class it has the class."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{algorithm.rpartition(':')[2]}"
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder


def agreed_folder(world: World, algorithm: str) -> Path:
    """Name of a new run folder: the first process's where all write one folder, else this process's own.

    RequestError if the first process names anything but a folder such as ``default_folder`` does.
    """
    own = default_folder(algorithm)
    if not world.shared_folder:
        return own
    said = share(world, str(own))[0]
    pattern = rf"runs/\d{{8}}-\d{{6}}-{re.escape(algorithm.rpartition(':')[2])}(-\d+)?"
    if not isinstance(said, str) or re.fullmatch(pattern, Path(said).as_posix()) is None:
        raise RequestError("the first process names no new folder in runs/: name one with --out")
    return Path(said)


def create_folder(folder: Path) -> None:
    """Make the run folder; RequestError if it exists and holds more than drafts, or cannot be made."""
    with refusing(f"make the run folder {folder}", "; name another one with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(not path.name.startswith(".") and path.name != JOURNAL for path in folder.iterdir()):
            raise RequestError(f"the run folder {folder} is not empty: name another one with --out")


def is_begun(folder: Path) -> bool:
    """Whether a run goes on with this folder, as it has its settings."""
    return (folder / "config.toml").is_file()


def hold(folder: Path, *, first: bool) -> BinaryIO:
    """Keep every other run out of a run folder, as long as the file that is returned stays open.

    All processes of a run share the lock; the first one takes it before the others, and only if nobody has it: a
    process of an interrupted run that still lives could write behind the charges of the one that is resumed.
    RequestError if another run is at work there.
    """
    file = (folder / "config.toml").open("r+b")
    try:
        for pause in (0.01, 0.05, 0.2, None) if first else ():  # whoever looks with ``is_held`` has it for an instant
            with suppress(BlockingIOError) if pause else nullcontext():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(pause or 0.0)
        fcntl.flock(file, fcntl.LOCK_SH | (fcntl.LOCK_NB if first else 0))
    except BlockingIOError:
        file.close()
        raise RequestError(
            f"the run folder {folder} is in use by another run, or by a process of it: wait for its end, or end it"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            file.close()
            raise
    return file


def is_held(folder: Path) -> bool | None:
    """Whether a run is at work in a folder; None where nobody can tell."""
    try:
        with (folder / "config.toml").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def open_folder(out: str | None, algorithm: str, settings: str | None, world: World, opened: ExitStack) -> Path:
    """Run folder, made with its ``settings`` if the run is new; no other run has it until ``opened`` is closed.

    An agent on a host of its own keeps it beyond that: it lives from start to start. In ``as_one``.
    """
    if out is None:
        out = str(agreed_folder(world, algorithm))
    folder, first = Path(out), world.rank == 0 or not world.shared_folder

    if settings is not None and first:
        create_folder(folder)
        write_whole({folder / "config.toml": settings.encode()})
    if first:
        if not (world.shared_folder or (folder / PART).exists()):
            write_part(folder, world.rank, world.size)
        (folder / "ledger").mkdir(exist_ok=True)
        if world.journal is None:
            opened.enter_context(hold(folder, first=True))
        else:
            world.journal.hold(folder)
        if (folder / SUMMARY).exists():  # finished while this process loaded its records
            raise RequestError(f"the run in {folder} is finished: there is nothing to resume")
        (folder / MANIFEST).unlink(missing_ok=True)  # of a run that died before its summary
    if world.shared_folder:
        share(world)
    if not first:
        opened.enter_context(hold(folder, first=False))
    return folder


def write_part(folder: Path, agent: int, agents: int) -> None:
    """Say that a run folder is one agent's own: it holds its ledger and no other."""
    write_whole({folder / PART: encode(PartFile(agent=agent, agents=agents), indent=2)})


def ledger_name(agent: int, agents: int) -> str:
    """Name of an agent's ledger in the run folder, and in its summary, also where it shares a file with others."""
    return f"ledger/agent-{agent:0{max(3, len(str(agents - 1)))}d}.jsonl"


def columns(*, training: bool) -> tuple[str, ...]:
    """Columns of metrics.csv, without or with those that are computed from training records, in simulations alone."""
    return PUBLIC_COLUMNS + ("train_loss", "objective", "consensus_gap") * training


def open_metrics(path: Path, start: int, *, training: bool) -> TextIO:
    """metrics.csv, a row an agent and round, agent -1 being the network: with the rows of rounds before ``start``."""
    kept = [",".join(columns(training=training)) + "\n"]
    if start and path.exists():
        _, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept += [line for line in lines if line.endswith("\n") and int(line.split(",", 1)[0]) < start]
    write_whole({path: "".join(kept).encode()})  # a crash here loses no round
    return path.open("a", encoding="utf-8", newline="\n")


def model_bytes(theta: Matrix, feature_names: Sequence[str], classes: Sequence[str] = ()) -> bytes:
    """model.npz: theta (N, d) of released vectors, their mean, the d features' names; no pickle.

    Of three ``classes`` or more theta (N, K d) is written as (N, K, d), and their names besides.
    """
    arrays: dict[str, Any] = {"feature_names": np.array(feature_names, dtype=np.str_)}
    if classes:
        arrays["classes"] = np.array(classes, dtype=np.str_)
        theta = theta.reshape(len(theta), len(classes), -1)
    content = io.BytesIO()
    np.savez(content, theta=theta, consensus=mean_of(theta), **arrays)
    return content.getvalue()


def model_arrays(content: bytes, where: object) -> dict[str, Any]:
    """Arrays of a model.npz as ``model_bytes`` makes it, which a stranger may have made; CheckFailed if it is none.

    Its members are stored unpacked, and each array fills its own: none takes more room than the file.
    """
    try:
        if content.count(b"PK\x01\x02") > _MOST_MEMBERS:
            raise ValueError("it has too many members")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            names = sorted(one.filename for one in members)
            if names not in (sorted(_ARRAYS), sorted([*_ARRAYS, "classes.npy"])):
                raise ValueError("it has other members")
            if any(one.compress_type or one.file_size != one.compress_size for one in members):
                raise ValueError("its members are packed")
            arrays = {one.filename.removesuffix(".npy"): _array(archive.read(one)) for one in members}
        theta, consensus, features = arrays["theta"], arrays["consensus"], arrays["feature_names"]
        classes = arrays.get("classes", np.zeros(0, np.str_))
        shapes = f"theta {theta.shape}, consensus {consensus.shape}, feature_names {features.shape}"
        if (
            not theta.dtype == consensus.dtype == np.float64
            or not features.dtype.kind == classes.dtype.kind == "U"
            or not theta.shape[1:] == consensus.shape == (*classes.shape * bool(len(classes)), *features.shape)
            or not features.ndim == classes.ndim == 1
            or not theta.size
        ):
            raise ValueError(f"{shapes} must be (N, d), (d,), and d texts, or with K classes (N, K, d), (K, d)")
    except Exception as error:  # the parsers raise AttributeError, TokenError, RecursionError, ... on garbage
        raise CheckFailed(f"{where} is no sound model ({printable(str(error), 300)})") from None
    return arrays


def _array(data: bytes) -> Any:
    """Array of a .npy file; ValueError if the bytes behind its header are more or less than those of its shape."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version")
    shape, turned, kind = np.lib.format.read_array_header_1_0(file)
    array = np.frombuffer(data, kind, offset=file.tell()).reshape(shape, order="F" if turned else "C").copy()
    if array.shape != shape:  # it has a negative length
        raise ValueError(f"an array has the shape {shape}")
    return array


def npy_bytes(array: Vector | Matrix) -> bytes:
    """Array as a .npy file, without pickle."""
    content = io.BytesIO()
    np.save(content, np.ascontiguousarray(array), allow_pickle=False)
    return content.getvalue()


def last_files(folder: Path, files: Mapping[str, bytes]) -> dict[Path, bytes]:
    """Last files of a run: behind all others the manifest, and the summary, which says that the run has finished."""
    last = {name: content for name, content in files.items() if name != SUMMARY}
    last |= {MANIFEST: make_manifest(folder, files), SUMMARY: files[SUMMARY]}
    return {folder / name: content for name, content in last.items()}


def make_manifest(folder: Path, new: Mapping[str, bytes]) -> bytes:
    """Canonical bytes of the manifest of a folder, to which files ``new`` are about to be added."""
    files = {name: _entry(path) for name, path in _covered(folder).items() if name not in new}
    for name, content in new.items():
        files[name] = FileEntry(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    return encode(Manifest(schema=3, files=dict(sorted(files.items()))), indent=1)


def _entry(path: Path) -> FileEntry:
    return FileEntry(sha256=sha256(path), size=path.stat().st_size)


def check_manifest(folder: Path, *, finished: bool) -> None:
    """Hold every file of a folder against the manifest, which is there with the summary alone.

    CheckFailed names the first file that is missing, changed, or not in it.
    """
    path = folder / MANIFEST
    if not path.exists():
        if finished:
            raise CheckFailed(f"{path}: is missing, though {SUMMARY} names it")
        return
    if not finished:
        died = "it was removed, or the run died in its last moment (--resume goes on)"
        raise CheckFailed(f"{folder / SUMMARY}: is missing, though {MANIFEST} is there: {died}")
    there = _covered(folder)
    for name, entry in read_form(Manifest, path, indent=1).files.items():
        file = there.pop(name, None)
        if file is None:
            raise CheckFailed(f"{folder / name}: is missing, {MANIFEST} lists it")
        if file.is_symlink() or not file.is_file():
            raise CheckFailed(f"{file}: is no plain file")
        if _entry(file) != entry:
            raise CheckFailed(f"{file}: its size and sha256 are not those in {MANIFEST}: it was changed")
    for name in sorted(there):
        raise CheckFailed(f"{folder / name}: is not in {MANIFEST}: it was put there later")


def _covered(folder: Path) -> dict[str, Path]:
    """Every file, link or whatever else there is in the folder that a manifest covers, by name."""
    there = [path for name in FILES if (path := folder / name).is_symlink() or path.exists()]
    inside = [file for path in there if path.is_dir() and not path.is_symlink() for file in path.rglob("*")]
    files = [path for path in (*there, *inside) if path.is_symlink() or not path.is_dir()]
    return {path.relative_to(folder).as_posix(): path for path in files}


def sha256(path: Path) -> str:
    """sha256 of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ledger_files(folder: Path) -> list[Path]:
    """Ledgers of a run, in the order of their agents; none where there is no run."""
    return sorted((folder / "ledger").glob("agent-*.jsonl"))


class Followed(NamedTuple):
    """A ledger as far as it is written, unverified: header, last total stated, round of the last charge."""

    header: HeaderLine
    total: Total | None
    round: int | None

    @property
    def spent(self) -> float | None:
        """Epsilon spent by the accountant that guards the budget; None without a budget, or where it is infinite."""
        if self.header.budget.epsilon is None or self.total is None:
            return None if self.header.budget.epsilon is None else 0.0
        return self.total.epsilon_published if self.header.accountant == "published" else self.total.epsilon_spent


def followed(folder: Path) -> list[Followed]:
    """Ledgers of a run that may still be written, as far as they can be read."""
    found = []
    for path in ledger_files(folder):
        with suppress(OSError, CheckFailed):
            first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
            header = decode(HeaderLine, first)
            ends = (one for line in reversed(lines) if (one := _line_of(line)) is not None)
            last = next(ends, None)
            charge = next(ends, None) if isinstance(last, EndLine) else last
            at = charge.at if isinstance(charge, EventLine) else None
            found.append(Followed(header, None if last is None else last.total, at))
    return found


def _line_of(line: bytes) -> EventLine | EndLine | None:
    with suppress(CheckFailed):
        found = decode(cast(Any, Line), line)
        return found if isinstance(found, EventLine | EndLine) else None
    return None


def measured(folder: Path) -> Iterator[tuple[int, int, int, float | None]]:
    """Round, agent, releases and test error of each whole row of metrics.csv; whatever is no row is left out."""
    try:
        lines = (folder / "metrics.csv").read_bytes().split(b"\n")[:-1]
    except OSError:
        return
    for row in (line.split(b",") for line in lines):
        with suppress(ValueError, IndexError):  # the header, or what is no row
            yield int(row[0]), int(row[1]), int(row[3]), float(row[2]) if row[2] else None
