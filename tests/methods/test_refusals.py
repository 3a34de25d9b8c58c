"""Settings of methods that do not go together: refused, and the message names what does."""

from __future__ import annotations

from typing import Any

import pytest

from admmnet import RequestError, RunConfig

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("dp-dsgd", {"sample_rate": 1.5}, "sample_rate = 1.5"),
    ("dp-dsgd", {"method": "published"}, "it has the form proven alone"),
    ("dp-dsgd", {"loss": "squared"}, "no bound on a record's gradient"),
    ("ssp", {"loss": "logistic"}, "noisy-gd"),
    ("ssp", {"rounds": 3}, "rounds"),
    ("noisy-gd", {"trust": "masked"}, "needs colluders"),
    ("noisy-gd", {"colluders": 1}, "colluders goes with trust = 'masked'"),
    ("dvp", {"trust": "masked", "colluders": 1}, "take noisy-gd or ssp"),
    ("ipp-admm", {"max_releases": 3, "rounds": 4}, "max_releases = 3 goes with gate = 'gaussian'"),
    ("ipp-admm", {"gate": "joining", "method": "published"}, "gate = 'joining' goes with"),
    ("m-admm-gaussian", {"method": "published"}, "add accountant = 'proven'"),
    ("pp-admm", {"accountant": "published"}, "published arithmetic"),
    ("pp-admm", {"account": "a", "method": "published"}, "account goes with method = 'proven'"),
    ("pp-admm", {"release": "output", "method": "published"}, "release"),
    ("pp-admm", {"noise_share": 0.5}, "noise_share"),
    ("pp-admm", {"loss": "huber", "method": "published"}, "twice differentiable"),
    ("admm", {"method": "proven"}, "has no privacy"),
    ("ipp-admm", {"gate": "off", "gate_share": 0.2}, "gate_share"),
    ("ipp-admm", {"gate": "gaussian", "max_releases": 9, "rounds": 4}, "at most rounds = 4"),
    ("ipp-admm", {"loss_clip": 3.0}, "loss_clip"),
    ("ipp-admm", {"gate_sensitivity": "mean"}, "gate_sensitivity"),
    ("dp-dsgd", {"mixing": "network", "gossip_steps": 2}, "mixing"),
    ("lt-admm", {"gossip_steps": 2}, "with dp-dsgd"),
    ("primal-dp-scd", {"account": "a"}, "account"),
    ("primal-dp-scd", {"loss": "hinge", "method": "published"}, "curvature"),
    ("banco", {"loss": "squared"}, "gradient by 1"),
    ("sdca", {"loss": "huber"}, "must be one of"),
    ("dp-sgd", {"regularisation": 0.0}, "above 0"),
]


@pytest.mark.parametrize(("algorithm", "settings", "words"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused(algorithm: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunConfig(algorithm=algorithm, **settings)
