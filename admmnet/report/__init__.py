"""Pictures and pages made from networks and finished runs."""
