"""Child processes, private files, and the record of a running server."""
