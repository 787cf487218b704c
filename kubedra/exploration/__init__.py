"""Explore the schedules of a test: order, delays, faults and failures of components, by seed; shrink and replay them."""
