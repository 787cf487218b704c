"""Sinks for the records of answered requests."""
