"""Define FlowSchemas and PriorityLevelConfigurations (flowcontrol.apiserver.k8s.io).

Rules: pkg/apis/flowcontrol/validation, pkg/registry/flowcontrol. `apiserver.http.fairness` applies them.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.flowcontrol.levels import PRIORITY_LEVELS
from apiserver.resources.flowcontrol.schemas import FLOW_SCHEMAS

__all__ = ["FLOW_CONTROL"]

FLOW_CONTROL: Final[tuple[Resource, ...]] = (FLOW_SCHEMAS, PRIORITY_LEVELS)
