"""The methods: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admmnet.errors import RequestError
from admmnet.methods.blame import blaming
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.settings import PrivacySettings
from admmnet.registry import Registry
from admmnet.settings import FLAGGED, TABLES, settings_in

if TYPE_CHECKING:
    from admmnet.methods.base import Method


TAKEN = (
    {"algorithms", "as_json", "canary", "confidence", "config", "debug", "dry_run", "executor", "part"}
    | {"epsilons", "explain", "failure", "grid", "h", "help", "id", "jobs", "json", "log", "log_level", "metrics"}
    | {"name", "network", "network_file", "number", "plot", "quick", "quiet", "records", "reference_norm", "resplit"}
    | {"sample_complexity", "secret", "seeds", "started", "trials", "tune", "tune_seeds", "version"}
)
"""Names that no setting of a method from outside can have: flags of commands; the run's settings add theirs."""


def _adapted(found: Any, _: str) -> type[Method]:
    from admmnet.methods.base import Method

    if not (isinstance(found, type) and issubclass(found, Method)):
        raise TypeError("it is no subclass of Method")
    from admmnet.methods.sums import SumMethod

    if found.maskable and not issubclass(found, SumMethod):
        raise TypeError("it says maskable, but is no SumMethod: only their sums are masked")
    kind = found.Settings
    if not (isinstance(kind, type) and issubclass(kind, MethodSettings)):
        raise TypeError("its Settings are no class that extends MethodSettings")
    common = settings_in(MethodSettings)
    names = {name for base in kind.__mro__ if base not in MethodSettings.__mro__ for name in vars(base)}
    for name, own in settings_in(kind).items():
        who = f"{kind.__name__}.{name}"
        if name in (names if name in common else TAKEN) or own.home != common.get(name, own).home:
            raise RequestError(f"{who} has the name of something else, a setting of every run or a flag: rename it")
        if own.base not in FLAGGED and name not in common:
            raise RequestError(f"{who} is of no type that a flag can have: use bool, int, float or str, or None, too")
        if own.table not in TABLES:
            raise RequestError(f"{who} is in the table [{own.table}]: take one of {', '.join(TABLES)}")
    return found


METHODS: Registry[type[Method]] = Registry(
    "algorithm",
    "admmnet.methods",
    {
        "admm": "admmnet.methods.consensus:ADMM",
        "pp-admm": "admmnet.methods.pp_admm:PPADMM",
        "ipp-admm": "admmnet.methods.ipp_admm:IPPADMM",
        "dvp": "admmnet.methods.rivals:DVP",
        "m-admm": "admmnet.methods.rivals:MADMM",
        "r-admm": "admmnet.methods.rivals:RADMM",
        "dvp-gaussian": "admmnet.methods.rivals:GaussianDVP",
        "m-admm-gaussian": "admmnet.methods.rivals:GaussianMADMM",
        "r-admm-gaussian": "admmnet.methods.rivals:GaussianRADMM",
        "noisy-gd": "admmnet.methods.noisy_sums:NoisyGD",
        "dp-dsgd": "admmnet.methods.dp_dsgd:DPDSGD",
        "lt-admm": "admmnet.methods.dp_dsgd:LTADMM",
        "ssp": "admmnet.methods.noisy_sums:SSP",
        "sdca": "admmnet.methods.single_site.coordinate:SDCA",
        "dp-scd": "admmnet.methods.single_site.coordinate:DPSCD",
        "seq-dp-scd": "admmnet.methods.single_site.coordinate:SeqDPSCD",
        "primal-dp-scd": "admmnet.methods.single_site.coordinate:PrimalDPSCD",
        "sgd": "admmnet.methods.single_site.descent:SGD",
        "dp-sgd": "admmnet.methods.single_site.descent:DPSGD",
        "song-sgd": "admmnet.methods.single_site.descent:SongSGD",
        "banco": "admmnet.methods.single_site.descent:BANCO",
    },
    _adapted,
)
"""Methods of the network and of one site."""


def single_sites() -> list[str]:
    """Names of the methods of one holder: what ``admmnet baseline`` runs."""
    own = [name for name, place in METHODS.own.items() if ".single_site." in str(place)]  # loads none of them
    others = METHODS.sound(name for name in METHODS if name not in METHODS.own)
    return [*own, *(name for name, method in others if method.verb == "none")]


def fixed(settings: Given) -> Given:
    """Replace every ``auto`` that depends on nothing but other settings."""
    method = METHODS[settings.algorithm]
    with blaming(method):
        return only_filled(settings, method.fixed(method.with_loss(settings)))


def only_filled(before: Given, after: Given) -> Given:
    """Return settings as a method has filled them in: mode, seed, records and promise are not its to change.

    RequestError if anything differs but settings of its own section that were left open.
    """
    kind = type(before)
    own = settings_in(kind).keys() - settings_in(PrivacySettings).keys()
    for name in ("chosen_method", *settings_in(kind)):
        was, now = getattr(before, name), getattr(after, name, None)
        if type(after) is not kind or (now != was and not (name in own and was in ("auto", None))):
            raise RequestError(
                f"algorithm = {before.algorithm!r} changes {name} from {was!r} to {now!r}: a method may only "
                "fill in its own settings that are left open"
            )
    return after
