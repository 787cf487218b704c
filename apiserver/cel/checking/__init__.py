"""Check types, and declare structural schemas as CEL types."""
