"""What neighbours and auditors can hold against a run: receipts, identities, signatures."""
