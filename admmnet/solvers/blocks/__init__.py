"""Local problems of many agents solved together (docs/scale.md)."""
