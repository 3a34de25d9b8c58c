"""Files as text: plain or gzip, in a folder, or downloaded once and verified."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import urllib.request
import zlib
from pathlib import Path

from admmnet.errors import RequestError

ENVIRONMENT = "ADMMNET_DATA"
"""Variable that names the data folder when `--data-dir` does not."""
TIMEOUT = 10.0
"""Seconds a download may be silent."""
_LARGEST = 1 << 28  # bytes; no file that is downloaded comes near


def read_bytes(path: Path) -> bytes:
    """Read a file, unpacked when its name ends with `.gz`.

    Raises
    ------
    RequestError
        If it cannot be read, is no gzip file, is cut off or is empty.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RequestError(f"{path} is not a sound gzip file ({error}): store it anew") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}") from None
    if not data.strip():
        raise RequestError(f"{path} is empty: give a file with at least one record")
    return data


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, without the empty ones at its end.

    Raises
    ------
    RequestError
        As `read_bytes`, or if the bytes are not UTF-8.
    """
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RequestError(f"{path}, line {line}: not UTF-8 text; convert the file to UTF-8") from None
    return text.rstrip().replace("\r\n", "\n").split("\n")


def data_folder(given: str | None) -> Path | None:
    """Folder of the data sets: `--data-dir`, else `ADMMNET_DATA`, else None (the cache is meant)."""
    folder = given or os.environ.get(ENVIRONMENT)
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """Folder of downloads: `$XDG_CACHE_HOME/admmnet`, else `~/.cache/admmnet`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "admmnet"


def find(folder: Path, name: str) -> Path | None:
    """Path of `folder/name` or `folder/name.gz`, the first there is."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def locate(name: str, data_dir: str | None, url: str | None, sha256: str | None) -> Path:
    """Find a file of a known data set, downloading it at most once.

    Parameters
    ----------
    name : str
        Path below the data folder, such as "adult/adult.data".
    data_dir : str or None
        `--data-dir`; a folder that is named (also by `ADMMNET_DATA`) must hold the file.
    url : str or None
        Where to download it from, for a folder that is not named.
    sha256 : str or None
        Digest of the content the download must have.

    Returns
    -------
    Path
        An existing file.

    Raises
    ------
    RequestError
        Saying where the file was expected and what to do.
    """
    folder = data_folder(data_dir)
    if folder is not None:
        path = find(folder, name)
        if path is None:
            origin = "--data-dir" if data_dir else ENVIRONMENT
            raise RequestError(
                f"{folder / name}[.gz] does not exist: {origin} must name the folder that holds {name}"
            )
        return path
    folder = cache_folder()
    path = find(folder, name)
    if path is not None:
        return path
    remedy = f"pass --data-dir DIR (or set {ENVIRONMENT}) with DIR/{name}[.gz] in it"
    if url is None or sha256 is None:
        raise RequestError(f"{name} is not in the cache {folder}: {remedy}")
    return _download(url, sha256, folder / name, remedy)


def _download(url: str, sha256: str, target: Path, remedy: str) -> Path:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(_LARGEST)
    except (OSError, ValueError) as error:  # URLError, HTTPError and time-outs are OSErrors
        raise RequestError(f"{target.name} could not be downloaded from {url} ({error}): {remedy}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise RequestError(
            f"{url} has sha256 {digest[:16]}..., expected {sha256[:16]}...: not kept; {remedy}"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # several ranks may do this at once: each writes a file of its own and renames it into place
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError as error:
        raise RequestError(f"cannot write the cache file {target} ({error.strerror}): {remedy}") from None
    return target
