"""What applies to one allocated device.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


def base_request(reference: str) -> str:
    """The request of a reference `request` or `request/subrequest`."""
    return reference.partition("/")[0]


def config_for_result(configs: Iterable[Object], result: Object) -> list[Object]:
    """The configurations of an allocation that apply to one of its results, for whichever driver they are."""
    request = result.get("request", "")
    wanted = {request, base_request(request)}
    return [
        config
        for config in configs
        if config.get("opaque") is not None and (not config.get("requests") or wanted & set(config["requests"]))
    ]
