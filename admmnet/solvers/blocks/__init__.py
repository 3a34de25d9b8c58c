"""Local problems of many agents solved together (docs/simulate.md)."""
