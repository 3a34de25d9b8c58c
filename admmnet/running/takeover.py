"""Encodings that a run takes over from a finished one, at no charge (docs/methods.md, section 12).

What the other run has released, it has paid for. A private run takes it from private runs alone, of no weaker trust,
and stands on the account that they were charged to: that adds up both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from admmnet.config.run_config import RunSettings
from admmnet.data import DataSettings, Records
from admmnet.data.loading import ENCODING
from admmnet.data.schema import measurable, parse_schema
from admmnet.data.settings import FROM
from admmnet.data.table import listed
from admmnet.errors import AdmmnetError, CheckFailed, RequestError
from admmnet.methods.encoding_rule import Taken
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import AccountFile, account_path
from admmnet.privacy.settings import PrivacySettings
from admmnet.record.encoding import Found, read_found
from admmnet.record.folder import MANIFEST, sha256
from admmnet.record.reader import Run, check_account, read_run

if TYPE_CHECKING:
    from admmnet.predict.model import Model

_PRIVATE = "measure the records anew with encode = 'private'"
_ACCOUNT = (
    "it costs nothing on the account that has paid for it alone: name that with --account DIR, or measure the records "
    "anew with encode = 'private'"
)


class Source(Struct, frozen=True):
    """What is taken over, and the run that has released it."""

    folder: Path
    found: Found
    digest: str
    """sha256 of its manifest."""
    model: Model | None = None
    """None where a run goes on, which has held its records against it before."""

    @property
    def taken(self) -> Taken:
        """How rows are made; a run that goes on, and has measured second moments itself, measures them again."""
        own = "whiten" in self.found.stages and self.model is None
        A, source = (None, "") if own else (self.found.whitening, self.found.source)
        return Taken(str(self.folder), self.digest, self.found.encoding, A, source)

    def read_by(self, data: DataSettings) -> DataSettings:
        """Settings by which records stay raw, where the run has encoded raw ones."""
        return data.changed(encode="declared" if self.found.encoding is None else "private")


def source_of(data: DataSettings, settings: PrivacySettings, run: RunSettings, *, simulation: bool) -> Source:
    """Run whose encoding is taken over by ``from:RUN``, read and verified.

    RequestError if it is no finished run that verifies, has measured nothing, or this one may not take that over.
    """
    folder, how = Path(data.encoded_by), f"encode = {data.encode!r}"
    own = _own(run)
    if own is not None:
        found = _found(own, how)
        return Source(folder, found, found.encoding_from)
    from admmnet.predict.model import read_model  # here: a run starts faster

    try:
        other, model = read_run(folder, events=False), read_model(folder)
    except (CheckFailed, RequestError) as error:
        raise RequestError(f"{how}: {error}") from None
    _check_run(other, model.found, how)
    if not simulation:
        _check_paid(other, settings, how)
    return Source(folder, model.found, sha256(folder / MANIFEST), model)


def told_of(data: DataSettings, run: RunSettings) -> str:
    """What is taken over in a few words, the same at every host whatever its folder is called."""
    if not data.encoded_by:
        return data.encode
    try:
        found = _found(_own(run) or Path(data.encoded_by), data.encode)
    except RequestError:  # found out together, when all load
        return f"{FROM} a run that cannot be read"
    # a start that went on may have second moments of its own; before the first round all compare what they have
    told = found.source if found.encoding is None else found.encoding.digest
    return f"{FROM} a run whose encoding has sha256 {told[:16]}"


def _own(run: RunSettings) -> Path | None:
    """Folder of a run that goes on, and has taken over already."""
    here = None if run.resume is None else Path(str(run.out or run.resume))
    return here if here is not None and (here / ENCODING).exists() else None


def _found(folder: Path, how: str) -> Found:
    try:
        return read_found(folder)[1]
    except CheckFailed as error:
        raise RequestError(f"{how}: {error}") from None


def _check_run(run: Run, found: Found, how: str) -> None:
    """Refuse what was not released by noisy sums."""
    if not run.finished:
        raise RequestError(f"{how}: the run is not finished: go on with it, admmnet run --resume {run.path}")
    said = {ledger.header["preprocessing"] for ledger in run.ledgers.values()}
    if "data-dependent" in said:
        raise RequestError(
            f"{how}: its columns were read from the records, which no budget covers: declare them, and {_PRIVATE}"
        )
    if said != {"private"} or not found:
        raise RequestError(f"{how}: the run has measured nothing: name one with stages, or {_PRIVATE}")


def _check_paid(run: Run, settings: PrivacySettings, how: str) -> None:
    """Refuse what protects less than a private run promises, or is not on an account."""
    headers = [ledger.header for ledger in run.ledgers.values()]
    if any(header["mode"] != "private" for header in headers):
        raise RequestError(f"{how}: it is a simulation, which protects nothing, and this run is private: {_PRIVATE}")
    colluders = min((header["colluders"] for header in headers if "colluders" in header), default=None)
    if colluders is not None and (settings.colluders is None or settings.colluders > colluders):
        asked = "no trust" if settings.colluders is None else f"trust against {settings.colluders} colluders"
        raise RequestError(
            f"{how}: its sums were masked against {colluders} colluders, and this run asks for {asked}: {_PRIVATE}, or "
            "take the same --trust and --colluders"
        )
    if settings.account is None:
        raise RequestError(f"{how}: {_ACCOUNT}")


def check_columns(source: Source, data: Records, request: DataSettings) -> None:
    """Refuse records with other features than those of the run; RequestError names them."""
    if source.model is None:
        return
    how, model = f"encode = '{FROM}{source.folder}'", source.model
    here, there = data.feature_names, model.feature_names
    differ = [
        f"{listed([name for name in one if name not in other], 3)} {place} alone"
        for one, other, place in ((here, there, "here"), (there, here, "there"))
        if not set(one) <= set(other)
    ]
    if differ or here != there:
        raise RequestError(f"{how}: its columns are others: {'; '.join(differ) or 'in another order'}: {_PRIVATE}")
    now, then = (
        {rule.prefix: rule for rule in parse_schema(schema).rules if not (data.raw and measurable(rule))}
        for schema in (request.schema, model.config.schema)
    )
    if wrong := [name for name, rule in now.items() if rule != then.get(name)]:
        raise RequestError(
            f"{how}: {listed(wrong, 3)} was declared otherwise there: declare it alike in [data.schema], or {_PRIVATE}"
        )
    for name in ("normalise", "project", *(("data_seed",) if request.project else ())):
        own, other = getattr(request, name), getattr(model.config, name)
        if own != other:
            raise RequestError(f"{how}: it had {name} = {other!r}, this run has {own!r}: take the same, or {_PRIVATE}")


def check_charged(source: Source, accounts: Mapping[int, AccountFile]) -> None:
    """Refuse accounts that lack the run's charges; RequestError names the account."""
    if source.model is None:
        return
    for agent, account in accounts.items():
        try:
            if account.fresh:
                raise CheckFailed(f"{account.path}: is new, and has none of its charges")
            known = {account_path(account.path.parent, agent).name: audit.read(account.path, account=True)}
            check_account(account.path.parent, known, source.folder, agents=[agent])
        except AdmmnetError as error:
            raise RequestError(f"encode = '{FROM}{source.folder}': {error}; {_ACCOUNT}") from None
