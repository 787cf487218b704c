"""Copies of live clusters: read one without changing it, leave out secrets, replace names, and write manifests."""
