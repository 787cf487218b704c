"""How the cost of one request grows with its size: as the size, or faster."""
