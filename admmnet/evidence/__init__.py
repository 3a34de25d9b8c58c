"""What neighbours and auditors can hold against a run: receipts and identities."""
