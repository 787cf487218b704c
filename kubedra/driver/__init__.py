"""Drivers for dynamic resource allocation in Python."""
