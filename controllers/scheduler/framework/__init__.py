"""The plugin framework: plugins, statuses, events and metrics."""
