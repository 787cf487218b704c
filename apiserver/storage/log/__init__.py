"""The revision log: its types, rows, schema and upgrades, whichever database holds it."""
