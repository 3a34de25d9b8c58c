"""Agents as processes that speak ZeroMQ."""
