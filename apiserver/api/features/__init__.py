"""Feature gates by release, and the fields that they drop."""
