"""kubedra's own routes, under `/-/`: the FastAPI part of the server."""
