"""Command-line flags and settings of the server: parsing only."""
