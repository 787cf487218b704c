"""Regular expressions with RE2's syntax and guarantees."""
