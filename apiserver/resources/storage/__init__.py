"""Kinds of storage.k8s.io: classes, drivers, the drivers of nodes, capacities and attachments.

Facts: pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.storage.attachments import VOLUME_ATTACHMENTS
from apiserver.resources.storage.capacities import CSI_STORAGE_CAPACITIES
from apiserver.resources.storage.classes import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from apiserver.resources.storage.drivers import CSI_DRIVERS
from apiserver.resources.storage.nodes import CSI_NODES

__all__ = ["STORAGE"]

STORAGE: Final[tuple[Resource, ...]] = (
    CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES,
)  # fmt: skip
