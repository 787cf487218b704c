"""The history of objects, read from the revision log (docs/adr/0041-history.md)."""
