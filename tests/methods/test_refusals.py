"""Settings of methods that do not go together: refused, and the message names what does."""

from __future__ import annotations

from typing import Any

import pytest

from admmnet import RequestError, RunConfig

MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
JOINING: dict[str, Any] = {"gate": "joining", "rounds": 4}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("dp-dsgd", {"sample_rate": 1.5}, "sample_rate = 1.5"),
    ("dp-dsgd", {"clip_norm": 0.0}, "clip_norm = 0"),
    ("dp-dsgd", {"method": "published"}, "it has the form proven alone"),
    ("dp-dsgd", {"loss": "squared"}, "no bound on a record's gradient"),
    ("noisy-gd", {"method": "published"}, "published"),
    ("noisy-gd", {"loss": "squared"}, "squared"),
    ("ssp", {"loss": "logistic"}, "noisy-gd"),
    ("ssp", {"rounds": 3}, "rounds"),
    ("noisy-gd", {"trust": "masked"}, "needs colluders"),
    ("noisy-gd", {"colluders": 1}, "colluders goes with trust = 'masked'"),
    ("noisy-gd", MASKED | {"colluders": -1}, "at least 0"),
    ("noisy-gd", {"trust": "blind"}, "one of local, masked"),
    *((name, MASKED, "take noisy-gd or ssp") for name in ("pp-admm", "ipp-admm", "admm", "dvp")),
    ("ipp-admm", {"max_releases": 3, "rounds": 4}, "max_releases = 3 goes with gate = 'gaussian'"),
    ("ipp-admm", JOINING | {"gate_radius": 2.0}, "gate_radius = 2.0 goes with gate = 'gaussian'"),
    ("ipp-admm", JOINING | {"method": "published"}, "gate = 'joining' goes with"),
    ("m-admm-gaussian", {"method": "published"}, "add accountant = 'proven'"),
]


@pytest.mark.parametrize(("algorithm", "settings", "words"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused(algorithm: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunConfig(algorithm=algorithm, **settings)
