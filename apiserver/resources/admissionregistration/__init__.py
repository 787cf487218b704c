"""The kinds of admissionregistration.k8s.io: policies and bindings (`POLICIES`)."""

from __future__ import annotations

from typing import Final

from apiserver.registry.resource import Resource
from apiserver.resources.admissionregistration.bindings import MUTATING_BINDINGS, VALIDATING_BINDINGS
from apiserver.resources.admissionregistration.policies import MUTATING_POLICIES, VALIDATING_POLICIES

__all__ = ["POLICIES"]

#: In the order in which discovery lists them.
POLICIES: Final[tuple[Resource, ...]] = (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)
