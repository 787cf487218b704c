"""API errors (Status), field errors, and values as they appear in error texts."""
