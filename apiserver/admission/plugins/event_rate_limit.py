"""EventRateLimit: rate limits for Events: per server, namespace, user, or source and object.

The plugin is off by default and needs a configuration. A limit's bucket fills by `qps` per second up to `burst`.
Facts: plugin/pkg/admission/eventratelimit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_supported
from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.config_files import EVENT_LIMITS, ConfigurationError, read_configuration
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["EventRateLimit", "read_event_limits"]


_KINDS: Final = {"eventratelimit.admission.k8s.io/v1alpha1": EVENT_LIMITS}
_REMEMBERED: Final = 4096
_SERVER: Final = "Server"


def _about(attributes: Attributes) -> str:
    event = attributes.obj or {}
    source, thing = event.get("source") or {}, event.get("involvedObject") or {}
    return "".join(
        (
            source.get("component", ""), source.get("host", ""),
            *(thing.get(field, "") for field in ("kind", "namespace", "name", "uid", "apiVersion")),
        )
    )  # fmt: skip


#: The bucket key of each type of limit.
_KEYS: Final[Mapping[str, Callable[[Attributes], str]]] = {
    "Namespace": lambda attributes: attributes.namespace,
    _SERVER: lambda attributes: "",
    "SourceAndObject": _about,
    "User": lambda attributes: attributes.ctx.user.name,
}


def read_event_limits(text: bytes) -> tuple[Json, ...]:
    """Read the limits of a configuration. Raise ValueError."""
    limits: list[Json] = read_configuration(text, _KINDS).obj.get("limits") or []
    path, errors = Path("limits"), list[FieldError]()
    if not limits:
        errors.append(invalid(path, [], "must not be empty"))
    for index, limit in enumerate(limits):
        at = path[index]
        if limit.get("type", "") not in _KEYS:
            errors.append(not_supported(at / "type", limit.get("type", ""), tuple(_KEYS)))
        errors += [
            invalid(at / field, limit.get(field, 0), "must be positive")
            for field in ("burst", "qps")
            if limit.get(field, 0) <= 0
        ]
        if limit.get("type") != _SERVER and limit.get("cacheSize", 0) < 0:
            errors.append(invalid(at / "cacheSize", limit["cacheSize"], "must not be negative"))
    if errors:
        raise ConfigurationError.of(errors)
    return tuple(limits)


class _Limit:
    """One limit: the tokens of each key and the time of their count. The least recently used keys are evicted."""

    def __init__(self, spec: Json) -> None:
        self._type, self._rate, self._most = spec["type"], float(spec["qps"]), float(spec["burst"])
        self._keys, self._size = _KEYS[self._type], spec.get("cacheSize") or _REMEMBERED
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def problem(self, attributes: Attributes) -> str:
        """Take one token. Return the error message if there is none."""
        key, moment = self._keys(attributes), attributes.ctx.now.timestamp()
        left, since = self._left.pop(key, (self._most, moment))
        left = min(self._most, left + max(moment - since, 0.0) * self._rate)
        taken = left >= 1
        self._left[key] = (left - taken, moment)
        if len(self._left) > self._size:
            self._left.popitem(last=False)
        return "" if taken else f"limit reached on type {self._type} for key {key}"


class EventRateLimit(Plugin):
    name = "EventRateLimit"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, limits: Sequence[Json] = ()) -> None:
        self._limits = [_Limit(limit) for limit in limits]

    def handles(self, resource: Resource) -> bool:
        return bool(self._limits) and (resource.group, resource.plural) == ("", "events")

    def validate(self, attributes: Attributes) -> None:
        """Raise 429 if a limit is reached. A dry run takes no token."""
        if attributes.ctx.dry_run:
            return
        problems = [problem for limit in self._limits if (problem := limit.problem(attributes))]
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise StatusError(429, "TooManyRequests", f"Too many requests: {text}")
