"""Plan checked trees as Python closures."""
