"""The release, the feature gates and the version of resource.k8s.io of a server.

Components in processes of their own read them from the server, so that they act as the control plane that they belong
to. /version and the discovery of a group are readable for every authenticated client, /metrics only with permission.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import GATES, RELEASES, FeatureError, Features
from controllers.runtime.client import Client
from controllers.runtime.device_form import VERSIONS
from controllers.runtime.kinds import DEVICES_GROUP, RESOURCE_CLAIMS, at_release

log = logging.getLogger("controllers")
_GATE: Final = re.compile(r'^kubernetes_feature_enabled\{(?:[^}]*,)?name="([^"]+)"[^}]*\} ([01])$', re.MULTILINE)


async def connect(client: Client, release: tuple[int, int] | None = None) -> Client:
    """Return a client on the same transport for the server's release, or a given one, and its device version.

    Raise StatusError and TransportError.
    """
    found = await read_release(client) if release is None else release
    version = pick_device_version(found, await _served_versions(client))
    return Client(client.transport, client.user_agent, release=found, device_version=version)


async def read_release(client: Client) -> tuple[int, int]:
    """Return the server's release, clamped to the supported ones. Raise StatusError and TransportError."""
    version = await client.request("GET", "/version")
    digits = "".join(letter for letter in version["minor"] if letter.isdigit())
    return min(max((int(version["major"]), int(digits)), RELEASES[0]), RELEASES[-1])


def pick_device_version(release: tuple[int, int], served: tuple[str, ...]) -> str:
    """Return the served version of resource.k8s.io to use; "" for the one of the release."""
    usual = at_release(RESOURCE_CLAIMS, release).version
    if usual in served:
        return ""
    return next((version for version in VERSIONS if version in served), "")


async def _served_versions(client: Client) -> tuple[str, ...]:
    try:
        group = await client.request("GET", f"/apis/{DEVICES_GROUP}")
    except StatusError as error:
        if error.code not in (403, 404):
            raise
        return ()
    return tuple(version["version"] for version in group.get("versions") or ())


async def read_gates(client: Client) -> Mapping[str, bool]:
    """Return the server's gates that differ from the defaults of its release.

    Log a warning and return none without permission for /metrics. Raise StatusError and TransportError.
    """
    try:
        body = await client.request_bytes("GET", "/metrics", accept="text/plain")
    except StatusError as error:
        log.warning(
            "the feature gates of the server are unknown (%s): the defaults of %d.%d apply; set --feature-gates",
            error.message, *client.release,
        )  # fmt: skip
        return {}
    found = {}
    for name, state in _GATE.findall(body.decode()):
        stage = GATES[name].at(client.release) if name in GATES else None
        if stage is not None and not stage.locked and stage.on != (state == "1"):
            found[name] = state == "1"
    try:
        Features(client.release, found)
    except FeatureError as error:
        log.warning("the feature gates of the server are not used: %s", error)
        return {}
    return found
