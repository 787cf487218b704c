"""The request and the configuration of an allocated device.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


def base_request(reference: str) -> str:
    """Return the request of a reference `request` or `request/subrequest`."""
    return reference.partition("/")[0]


def config_for_result(configs: Iterable[Object], result: Object) -> list[Object]:
    """Return the configurations of an allocation for one of its results, of any driver."""
    request = result.get("request", "")
    names = {request, base_request(request)}
    return [
        config
        for config in configs
        if config.get("opaque") is not None and (not config.get("requests") or names & set(config["requests"]))
    ]
