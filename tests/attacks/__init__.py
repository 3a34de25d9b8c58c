"""Attacks on runs: each fails, and each succeeds once what stops it is taken out."""
