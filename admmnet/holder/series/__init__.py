"""Single-site methods as series of steps, answered an epoch at a time: docs/methods.md."""
