"""Checkpoints, and going on from them (docs/run-folder.md, "Checkpoints")."""
