"""The growth of a request's cost with its size: linear, or faster."""
