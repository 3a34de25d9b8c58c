"""Running from Python and notebooks: `run` and its result."""
