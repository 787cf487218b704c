"""Shared types of the engine: sources, expression trees, types, values, declarations."""
