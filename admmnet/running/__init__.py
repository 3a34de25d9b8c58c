"""A run: plan, rounds, measurements, files, journal."""
