"""Losses and certified solvers of the local problems: arrays in, arrays out."""
