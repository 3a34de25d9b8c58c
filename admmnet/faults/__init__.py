"""Simulated trouble: losses, absences, changing graphs, a virtual clock (docs/simulate.md)."""
