"""ResourcePoolStatusRequests: a question about pools that is answered once (api.md 4.7, 9.3). Their errors are those of
upstream's generated rules.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path, duplicate, invalid, required, too_long, too_many
from apiserver.api.names import dns_subdomain_caseless, long_name
from apiserver.api.types.resource.v1alpha3 import (
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
)
from apiserver.registry.context import Context
from apiserver.registry.resource import Resource, Subresource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.conditions import validate_conditions
from apiserver.resources.devices.columns import POOL_STATUS_COLUMNS
from apiserver.resources.equality import semantic_equal
from apiserver.resources.internal import internal
from apiserver.resources.statuses import keep_metadata_for_status

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 1000
POOLS_LIMIT: Final = 1000
CONDITIONS_LIMIT: Final = 10
ERROR_LIMIT: Final = 256
POOL_NAME_LIMIT: Final = 253
_COUNTS: Final = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def default(obj: Json, now: datetime) -> None:
    obj["spec"].setdefault("limit", LIMIT_DEFAULT)


def _at_least(path: Path, value: int | None, least: int) -> list[FieldError]:
    return (
        [invalid(path, value, f"must be greater than or equal to {least}")]
        if value is not None and value < least
        else []
    )


def _driver(path: Path, name: str) -> list[FieldError]:
    return [invalid(path, name, text) for text in dns_subdomain_caseless(name)] if name else [required(path)]


def _pool_name(path: Path, name: str) -> list[FieldError]:
    errors = [too_long(path, POOL_NAME_LIMIT)] if len(name.encode()) > POOL_NAME_LIMIT else []
    for index, segment in enumerate(name.split("/")):
        if not segment:
            errors.append(invalid(path, name, f"segment {index}: must not be empty"))
            continue
        errors += [invalid(path, segment, f"segment {index}: {text}") for text in long_name(segment)]
    return errors


def _pool(path: Path, pool: Json) -> list[FieldError]:
    errors = _driver(path / "driver", pool.get("driver", ""))
    errors += _pool_name(path / "poolName", pool["poolName"]) if pool.get("poolName") else [required(path / "poolName")]
    generation = pool.get("generation", 0)
    errors += _at_least(path / "generation", generation, 0) if generation else [required(path / "generation")]
    errors += _at_least(path / "resourceSliceCount", pool.get("resourceSliceCount"), 1)
    for field in _COUNTS:
        errors += _at_least(path / field, pool.get(field), 0)
    if pool.get("nodeName") is not None:
        errors += [invalid(path / "nodeName", pool["nodeName"], text) for text in long_name(pool["nodeName"])]
    if len((pool.get("validationError") or "").encode()) > ERROR_LIMIT:
        errors.append(too_long(path / "validationError", ERROR_LIMIT))
    return errors


def _answer(status: Json) -> list[FieldError]:
    """The rules that hold for every answer, the first and those that may not replace it."""
    conditions, pools = status.get("conditions") or [], status.get("pools") or []
    count = status.get("poolCount")
    errors = [required(_STATUS / "poolCount")] if count is None else _at_least(_STATUS / "poolCount", count, 0)
    if len(pools) > POOLS_LIMIT:
        errors.append(too_many(_STATUS / "pools", len(pools), POOLS_LIMIT))
    else:
        for index, pool in enumerate(pools):
            errors += _pool((_STATUS / "pools")[index], pool)
    if len(conditions) > CONDITIONS_LIMIT:
        return [*errors, too_many(_STATUS / "conditions", len(conditions), CONDITIONS_LIMIT)]
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        if condition.get("type", "") in seen:
            errors.append(duplicate((_STATUS / "conditions")[index], condition))
        seen.add(condition.get("type", ""))
    return errors


class ResourcePoolStatusRequestStrategy(Strategy):
    revalidates_metadata = False
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj.pop("status", None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        errors = _driver(_SPEC / "driver", spec.get("driver", ""))
        if spec.get("poolName") is not None:
            errors += _pool_name(_SPEC / "poolName", spec["poolName"])
        limit = spec.get("limit")
        if limit is None:
            return [*errors, required(_SPEC / "limit")]
        if limit > LIMIT_MOST:
            errors.append(invalid(_SPEC / "limit", limit, f"must be less than or equal to {LIMIT_MOST}"))
        return errors + _at_least(_SPEC / "limit", limit, 1)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        unchanged = semantic_equal(ResourcePoolStatusRequestSpec, obj["spec"], old["spec"])
        return [] if unchanged else [invalid(_SPEC, None, "field is immutable")]

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status, before = obj.get("status"), old.get("status")
        if before is not None:
            if status is not None and semantic_equal(ResourcePoolStatusRequestStatus, status, before):
                return []
            shown = None if status is None else internal(ResourcePoolStatusRequestStatus, status)
            return [invalid(_STATUS, shown, "field is immutable"), *(_answer(status) if status is not None else ())]
        return (
            []
            if status is None
            else validate_conditions(_STATUS / "conditions", status.get("conditions") or []) + _answer(status)
        )


RESOURCE_POOL_STATUS_REQUESTS: Final = Resource(
    group="resource.k8s.io",
    kind="ResourcePoolStatusRequest",
    plural="resourcepoolstatusrequests",
    singular="resourcepoolstatusrequest",
    namespaced=False,
    versions=(
        Version(
            name="v1alpha3",
            schema=ResourcePoolStatusRequest,
            introduced=(1, 36),
            removed=(1, 42),
            on_by_default=False,
            default=default,
        ),
    ),
    strategy=ResourcePoolStatusRequestStrategy(),
    storage_prefix="resourcepoolstatusrequests",
    columns=POOL_STATUS_COLUMNS,
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
    unconditional_update=False,
)
