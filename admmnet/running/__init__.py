"""A run: plan, rounds, measurements, files, checkpoints."""
