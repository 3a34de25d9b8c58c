"""What other agents of a run can learn from the messages that reach them: docs/network-ledger.md.

No budget, no calibration and no filter reads these figures.
"""
