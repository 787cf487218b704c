"""Component options, component names, and shared command-line flags."""
