"""Saved models on rows they have not seen."""
