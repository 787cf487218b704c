"""Commands of `kubedra` that need no server package."""
