"""Pairwise masks that cancel in a sum: who shares one with whom, and the words (docs/proofs.md, Theorem 23)."""

from admmnet.masking.masks import Attempt, MaskKey, Masks, partners_of, start_of

__all__ = ["Attempt", "MaskKey", "Masks", "partners_of", "start_of"]
