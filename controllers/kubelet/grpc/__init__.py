"""Drivers behind unix sockets: `connection` keeps a gRPC connection, `plugins` is the book of registered drivers,
`registry` watches the directory in which they announce themselves, `wiping` removes the slices of those that are gone.
"""
