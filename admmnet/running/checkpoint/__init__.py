"""Checkpoints, and going on from them (docs/ledger.md, "Checkpoints")."""
