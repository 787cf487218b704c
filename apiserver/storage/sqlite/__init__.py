"""The revision log on SQLite."""
