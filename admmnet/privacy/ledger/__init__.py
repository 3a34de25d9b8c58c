"""The ledger: its lines, its file, accounts over many runs, and the recomputation of what they say."""
