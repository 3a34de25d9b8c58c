"""Who says what: signing keys of agents, and statements that anybody can hold them to (docs/hosts.md)."""
