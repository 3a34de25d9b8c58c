"""A run: plan, rounds, what is measured, what is written, checkpoints."""
