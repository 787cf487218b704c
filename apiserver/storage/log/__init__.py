"""Types, rows, schema and upgrades of the revision log, common to both databases."""
