"""What neighbours and auditors can hold against a run: words that others have signed."""
