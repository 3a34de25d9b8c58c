"""Decentralised, differentially private learning on a graph."""
