"""The vocabulary of the engine: sources, expression trees, types, values, declarations."""
