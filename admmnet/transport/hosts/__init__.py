"""Agents on several hosts: network file, keys, and what they agree on (docs/hosts.md)."""
