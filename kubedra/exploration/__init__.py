"""Exploration of tests: runs under many schedules of faults, delays and orders, shrunk and repeatable."""
