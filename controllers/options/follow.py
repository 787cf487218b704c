"""Options that a component's own process takes from the server that it belongs to."""

from __future__ import annotations

from dataclasses import replace

from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.emulation import connect, read_gates


async def follow_server(client: Client, options: Options, *, is_release_set: bool) -> tuple[Client, Options]:
    """Return a client and options for the server's release, feature gates and version of resource.k8s.io.

    A release that the user has set stays, with its own gates. Gates that the user has set precede those of the server.
    Raise StatusError and TransportError.
    """
    if is_release_set:
        return await connect(client, options.emulated_version), options
    connected = await connect(client)
    gates = {**await read_gates(connected), **options.gates}
    return connected, replace(options, emulated_version=connected.release, gates=gates)
