"""The baselines: single-site methods from settings to a model or a run folder (docs/baselines.md)."""
