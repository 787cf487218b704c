"""The release of kubedra."""

__version__ = "0.1.0"
