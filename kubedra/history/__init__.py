"""The commands `history`, `timeline` and `get`."""
