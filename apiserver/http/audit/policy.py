"""An audit policy (audit.k8s.io/v1): the first matching rule sets the level of a request."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from apiserver.request.info import RequestInfo
from apiserver.request.messages import User

__all__ = ["AuditOptions", "Level", "Policy", "PolicyError", "read_policy"]


class PolicyError(ValueError):
    """An unusable policy; the message is one line."""


class Level(IntEnum):
    """The detail that is recorded of a request; each level includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        return _LEVELS[self]


_LEVELS: Final = ("None", "Metadata", "Request", "RequestResponse")
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class _Resources(_Model):
    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_need_resources(self) -> Self:
        if self.resource_names and not self.resources:
            raise ValueError("using resourceNames requires at least one resource")
        return self

    def fit(self, info: RequestInfo) -> bool:
        if self.group not in (info.group, "*"):
            return False
        if not self.resources:
            return True
        if self.resource_names and info.name not in self.resource_names:
            return False
        whole = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        ways = {whole, "*", f"{info.resource}/*"} | ({f"*/{info.subresource}"} if info.subresource else set())
        return not ways.isdisjoint(self.resources)


class _Rule(_Model):
    level: Literal["None", "Metadata", "Request", "RequestResponse"]
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[_Resources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = Field((), alias="nonResourceURLs")
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool | None = None

    @field_validator("non_resource_urls")
    @classmethod
    def _paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if path != "*" and not path.startswith("/"):
                raise ValueError(f"{path!r}: non-resource URL rules must begin with a '/' character")
            if "*" in path[:-1]:
                raise ValueError(f"{path!r}: non-resource URL wildcards '*' must be the final character of the rule")
        return paths

    @model_validator(mode="after")
    def _one_sort(self) -> Self:
        if self.non_resource_urls and (self.resources or self.namespaces):
            raise ValueError("rules cannot apply to both regular resources and non-resource URLs")
        return self

    def fits(self, user: User | None, info: RequestInfo, path: str) -> bool:
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.user_groups and (user is None or set(user.groups).isdisjoint(self.user_groups)):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not info.resource or (self.namespaces and info.namespace not in self.namespaces):
                return False
            return not self.resources or any(each.fit(info) for each in self.resources)
        if self.non_resource_urls:
            return not info.resource and _fits_path(path, self.non_resource_urls)
        return True


def _fits_path(path: str, patterns: Iterable[str]) -> bool:
    return any(path == each or (each.endswith("*") and path.startswith(each.rstrip("*"))) for each in patterns)


class AuditOptions(NamedTuple):
    """The level and the options for the event of a request."""

    level: Level
    omitted: frozenset[str] = frozenset()
    without_managed_fields: bool = False


class Policy(_Model):
    """The rules of a policy file."""

    api_version: Literal["audit.k8s.io/v1"]
    kind: Literal["Policy"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    rules: tuple[_Rule, ...] = Field(min_length=1)
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool = False

    def of(self, user: User | None, info: RequestInfo, path: str) -> AuditOptions:
        """Return the level and options of a request; without a matching rule nothing is recorded."""
        for rule in self.rules:
            if rule.fits(user, info, path):
                without = self.omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields
                level = Level(_LEVELS.index(rule.level))
                return AuditOptions(level, frozenset((*self.omit_stages, *rule.omit_stages)), without)
        return AuditOptions(Level.NONE)


def read_policy(file: Path) -> Policy:
    """Read the policy from a file of YAML or JSON. Raise PolicyError."""
    try:
        return Policy.model_validate(yaml.safe_load(file.read_bytes()))
    except OSError as error:
        raise PolicyError(f"{file}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise PolicyError(f"{file}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"]).lstrip(".")
        raise PolicyError(
            f"{file}: {f'{where}: ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from error
