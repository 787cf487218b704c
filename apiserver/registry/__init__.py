"""Resources, their rules and the generic store. Kinds are data; HTTP and SQL belong to other packages."""
