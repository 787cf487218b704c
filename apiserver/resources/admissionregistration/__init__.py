"""The kinds of admissionregistration.k8s.io: policies and bindings (`POLICIES`), webhooks (`WEBHOOKS`)."""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.admissionregistration.bindings import MUTATING_BINDINGS, VALIDATING_BINDINGS
from apiserver.resources.admissionregistration.policies import MUTATING_POLICIES, VALIDATING_POLICIES
from apiserver.resources.admissionregistration.webhooks import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

__all__ = ["POLICIES", "WEBHOOKS"]

#: In discovery order.
POLICIES: Final[tuple[Resource, ...]] = (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)
WEBHOOKS: Final[tuple[Resource, ...]] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
