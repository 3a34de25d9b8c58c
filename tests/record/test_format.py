"""How figures print, and that they print nowhere else."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.record import format

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("value", "epsilon", "number"),
    [
        (1.0, "1", "1"),
        (1.0000000001, "1", "1"),
        (0.9999999999, "1", "1"),
        (1.00000001, "1.001", "1"),
        (0.999934, "1", "0.9999"),
        (0.00012, "0.00012", "0.00012"),
        (0.0, "0", "0"),
        (None, "-", "-"),
        (NAN, "-", "-"),
        (INF, "infinite", "infinite"),
        (1e-9, "1e-09", "1e-09"),
        (123456.7, "1.235e+05", "1.235e+05"),
        (123410.0, "1.235e+05", "1.234e+05"),
        (2.85714e-6, "2.858e-06", "2.857e-06"),
    ],
)
def test_an_epsilon_is_rounded_up_and_a_number_to_the_nearest(value: float | None, epsilon: str, number: str) -> None:
    assert (format.epsilon(value), format.number(value)) == (epsilon, number)


def test_no_epsilon_looks_smaller_than_it_is() -> None:
    for value in [0.99482411, 1.00001, 0.12340001, 12.34567, 99999.1, 3e-7, *np.geomspace(1e-5, 1e5, 500).tolist()]:
        assert value * (1.0 - 1e-9) <= float(format.epsilon(value)) <= value * 1.001, value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (format.percent, 0.146549, "14.65%"),
        (format.percent, NAN, "-"),
        (format.count, 35000, "35,000"),
        *((format.size, 10**k * 225, said) for k, said in ((0, "0.23 kB"), (3, "225 kB"), (4, "2.25 MB"))),
        *((format.size, value, said) for value, said in ((0, "0 kB"), (999_499, "999 kB"), (999_500, "0.9995 MB"))),
        (format.seconds, 0.0, "0 s"),
        (format.seconds, 0.523, "0.52 s"),
        (format.seconds, 59.4, "59 s"),
        (format.seconds, 59.7, "1 min 0 s"),
        (format.seconds, 3599.0, "59 min 59 s"),
        (format.seconds, 7512.0, "2 h 5 min"),
        (format.parameter, 0.000284, "0.000284"),
        (format.parameter, 7000, "7000"),
        (format.parameter, True, "True"),
        (format.parameter, "poisson", "poisson"),
    ],
)
def test_every_other_kind(kind: Callable[[Any], str], value: object, text: str) -> None:
    assert kind(value) == text
    assert kind(None) == "-"


def test_a_test_figure_is_by_its_metric() -> None:
    assert format.error(0.1465, "error") == "14.65%"
    assert format.error(0.1465, "mean-squared-error") == "0.1465"


PACKAGE = Path(format.__file__).parents[1]
SCREENS = ("record", "evidence", "predict", "report", "cli")


def test_no_screen_formats_a_figure_itself() -> None:
    files = [*(path for part in SCREENS for path in (PACKAGE / part).rglob("*.py")), PACKAGE / "library.py"]
    files.remove(Path(format.__file__))
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                spec = ast.unparse(node.format_spec)
                assert not re.search(r"[,_gef%]'$|[.][0-9]+'$", spec) or node.conversion != -1, f"{path}: {spec}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "format":
                raise AssertionError(f"{path}: line {node.lineno}: format()")
