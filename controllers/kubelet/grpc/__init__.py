"""Drivers behind unix sockets.

`connection` maintains a gRPC connection. `plugins` stores the registered drivers. `registry` watches the directory in
which drivers register. `wiping` deletes the slices of vanished drivers.
"""
