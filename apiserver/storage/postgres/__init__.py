"""The revision log on Postgres."""
