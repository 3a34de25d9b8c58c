"""Decentralised, differentially private learning on a graph: ADMM agents, proven privacy, a ledger each.

The library does what the command does::

    from admmnet import RunConfig, run

    result = run(RunConfig(algorithm="pp-admm", epsilon=1.0, seed=0))
    print(result.summary["test_error"]["consensus"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.config.run_config import RunConfig
    from admmnet.config.toml import load_config
    from admmnet.errors import AdmmnetError, BudgetError, CheckFailed, PrivacyWarning, RequestError, RunError, StopRun
    from admmnet.estimators.network import NetworkClassifier, NetworkRegressor
    from admmnet.graph import load_topology
    from admmnet.library import RunFolder, RunResult, read_run, run
    from admmnet.methods.base import Method
    from admmnet.running.events import RoundEvent
    from admmnet.version import __version__

__all__ = [
    "AdmmnetError",
    "BudgetError",
    "CheckFailed",
    "Method",
    "NetworkClassifier",
    "NetworkRegressor",
    "PrivacyWarning",
    "RequestError",
    "RoundEvent",
    "RunConfig",
    "RunError",
    "RunFolder",
    "RunResult",
    "StopRun",
    "__version__",
    "load_config",
    "load_topology",
    "read_run",
    "run",
]

_HOMES = dict.fromkeys(__all__, "errors") | {
    "Method": "methods.base",
    "NetworkClassifier": "estimators.network",
    "NetworkRegressor": "estimators.network",
    "RoundEvent": "running.events",
    "RunConfig": "config.run_config",
    "RunFolder": "library",
    "RunResult": "library",
    "__version__": "version",
    "load_config": "config.toml",
    "load_topology": "graph",
    "read_run": "library",
    "run": "library",
}
__getattr__, __dir__ = lazily(__name__, _HOMES)
