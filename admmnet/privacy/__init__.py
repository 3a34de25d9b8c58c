"""What was released and what it costs: events, mechanisms, accountants, ledgers, calibration."""
