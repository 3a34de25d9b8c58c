"""Simulated trouble: losses, absences, changing graphs (docs/simulate.md)."""
