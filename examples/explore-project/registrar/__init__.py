"""A controller with a bug that only some schedules show."""
