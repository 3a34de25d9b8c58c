"""Keywords of run and RunConfig, made by `python -m tests.config.keywords`: see admmnet/settings.py."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict

from networkx import Graph

from admmnet.methods.base import Method

class Settings(TypedDict, total=False):
    data_dir: str | PathLike[str] | None
    data_seed: int
    test_fraction: float | None
    no_test: bool
    split: str
    label: str | float | None
    separator: str | None
    positive: str | float | None
    task: str
    features: int | None
    no_intercept: bool
    data_dependent: bool
    normalise: str
    project: int | None
    centre: str | float | None
    encode: str
    encode_share: float | Literal["auto"]
    whiten: str
    whiten_share: float | Literal["auto"]
    record_epsilon: str | None
    topology: str | PathLike[str] | Graph[Any] | None
    topology_seed: int | None
    agents: int | None
    transport: str
    block: int | Literal["auto"]
    connect_deadline: float
    heartbeat_deadline: float
    round_deadline: float | Literal["auto"]
    shutdown_deadline: float
    topology_schedule: str | PathLike[str] | None
    drop: float
    offline: str | None
    trouble_seed: int | None
    loss: str | Callable[..., Any]
    loss_width: float | Literal["auto"]
    regularisation: float | Literal["auto"]
    algorithm: str | type[Method]
    method: str | None
    rounds: int | Literal["auto"]
    answer: str
    accountant: str | None
    epsilon: float
    delta: float | Literal["auto"]
    account: str | PathLike[str] | None
    no_account: bool
    account_order: bool
    group_size: int
    trust: str
    colluders: int | None
    budgets: Mapping[str, Any]
    seed: int | None
    simulate: bool
    private: bool
    out: str | PathLike[str] | None
    measure_every: int | Literal["auto"]
    kernel: str
    show: str
    resume: str | PathLike[str] | None
    eta: float | Literal["auto"]
    proximal: float | Literal["auto"]
    beta: float | Literal["auto"]
    inexact_share: float | Literal["auto"]
    release: str | None
    noise_share: float
    gate: str
    gate_share: float | Literal["auto"]
    gate_threshold: float | Literal["auto"]
    max_releases: int | Literal["auto"]
    loss_clip: float
    gate_sensitivity: str
    growth: float | Literal["auto"]
    gamma: float | Literal["auto"]
    step_size: float | Literal["auto"]
    clip_norm: float | None
    gossip_steps: int
    mixing: str
    sample_rate: float
    local_steps: int
    penalty: float
    edge_step: float | Literal["auto"]
    ridge: float | Literal["auto"]
    epochs: int | Literal["auto"]
    logistic_margin: float | Literal["auto"]
    sampling: str
    accounting: str
    clip: float | Literal["auto"]
    batch: int | Literal["auto"]
    dual_noise: bool | Literal["auto"]
    learning_rate: float | Literal["auto"]
    schedule: str
    noise: str

class AllSettings(Settings, total=False):
    data: str | PathLike[str]
    test: str | PathLike[str] | None
    schema: Mapping[str, Any] | PathLike[str] | str
