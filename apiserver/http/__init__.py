"""HTTP, by package.

`server` has sockets and the protocol, `handlers` the chain of handlers, `formats` the encodings of responses,
`documents` discovery, OpenAPI and health, `sinks` records of requests, `admin` the routes under `/-/`.
"""
