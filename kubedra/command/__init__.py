"""Commands of `kubedra` that do not import the server's packages."""
