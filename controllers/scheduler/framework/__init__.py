"""What a plugin is: its values, statuses, events and metrics."""
