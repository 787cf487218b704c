"""HTTP, in packages: `server` (sockets and the protocol), `handlers` (the way of a request), `formats` (the bytes of
answers), `documents` (discovery, OpenAPI, health), `sinks` (records of requests), `admin` (routes under `/-/`).
"""
