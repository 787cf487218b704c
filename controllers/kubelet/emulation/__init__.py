"""Emulated nodes: annotations, registration, addresses, devices and their faults."""
