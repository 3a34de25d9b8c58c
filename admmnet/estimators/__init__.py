"""Runs on records in memory, in the manner of scikit-learn."""
