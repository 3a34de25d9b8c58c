"""The command line in this process."""

from __future__ import annotations

import pytest

from .command_runs import Admmnet


@pytest.fixture
def admmnet(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    return Admmnet(capsys)
