"""The planner: checked trees as closures."""
