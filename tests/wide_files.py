"""A file of sparse rows with many features, as texts and clicks have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from admmnet.solvers.certificate import WIDE


def write_wide(path: Path, rows: int = 90, width: int = WIDE + 20, filled: int = 12, seed: int = 4) -> str:
    """Write a libsvm file whose last feature is in the first row; a few explicit zeros are among its entries."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(width)
    lines = []
    for row in range(rows):
        places = np.sort(rng.choice(width, filled, replace=False))
        if row == 0:
            places[-1] = width - 1
        values = np.round(rng.random(filled), 3)
        values[::5] = 0.0
        label = "+1" if normal[places] @ values > 0 else "-1"
        lines.append(" ".join([label, *(f"{j + 1}:{v:g}" for j, v in zip(places, values, strict=True))]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
