"""The watch caches that the server reads from."""
