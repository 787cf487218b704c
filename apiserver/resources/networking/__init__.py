"""Kinds of networking.k8s.io: ingresses and their classes, network policies, and service addresses.

Facts: pkg/apis/networking/validation, pkg/registry/networking. No traffic is carried.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.networking.addresses import IP_ADDRESSES, SERVICE_CIDRS
from apiserver.resources.networking.classes import INGRESS_CLASSES
from apiserver.resources.networking.ingresses import INGRESSES
from apiserver.resources.networking.policies import NETWORK_POLICIES

__all__ = ["NETWORKING"]

NETWORKING: Final[tuple[Resource, ...]] = (
    INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES, SERVICE_CIDRS,
)  # fmt: skip
