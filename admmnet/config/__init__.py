"""The settings of a run: fields, files, defaults and checks."""
