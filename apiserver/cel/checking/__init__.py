"""The type checker, and structural schemas as declarations."""
