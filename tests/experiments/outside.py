"""A method as another package brings it."""

from __future__ import annotations

from admmnet.methods.pp_admm import PPADMM


class Outside(PPADMM):
    """PP-ADMM under another name."""

    name = "outside"
