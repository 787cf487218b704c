"""The authorizers of a server, from --authorization-mode and its companions or from --authorization-config.

Facts: apiserver, pkg/apis/apiserver/validation; pkg/kubeapiserver/options/authorization.go and authorizer/reload.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from apiserver.api.errors.field_errors import Path as Where
from apiserver.api.helpers.config_files import AUTHORIZATION, ConfigurationError, read_configuration
from apiserver.api.objects import Json
from apiserver.api.values.durations import go_duration_problem, parse_duration
from apiserver.api.values.names import dns_subdomain
from apiserver.authorization.webhook import Condition, WebhookCallSettings

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features

__all__ = ["MODES", "AuthorizerConfig", "WebhookSettings", "of_modes", "read_authorizers"]


MODES: Final = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
_GROUP: Final = "apiserver.config.k8s.io"
_KINDS: Final = {f"{_GROUP}/{version}": AUTHORIZATION for version in ("v1", "v1beta1", "v1alpha1")}
_MOST_CONDITIONS: Final = 64
_LONGEST: Final = 30.0
#: The webhook settings without a flag.
_NAME: Final = "default"


class WebhookSettings(NamedTuple):
    """The settings of one webhook authorizer."""

    kubeconfig: Path
    call_settings: WebhookCallSettings
    conditions: tuple[Condition, ...] = ()


class AuthorizerConfig(NamedTuple):
    """The configuration of one authorizer."""

    type: str
    name: str
    webhook: WebhookSettings | None = None


def of_modes(modes: Sequence[str], webhook: WebhookSettings | None = None) -> tuple[AuthorizerConfig, ...]:
    """Return the authorizers of --authorization-mode."""
    return tuple(
        AuthorizerConfig(mode, _NAME, webhook) if mode == "Webhook" else AuthorizerConfig(mode, mode.lower())
        for mode in modes
    )


def read_authorizers(
    text: bytes, features: Features, required_types: Collection[str] = ()
) -> tuple[AuthorizerConfig, ...]:
    """Read a configuration file.

    `required_types` are the types at the server's start; they must remain.
    Raises ConfigurationError.
    """
    try:
        authorizers = read_configuration(text, _KINDS).obj.get("authorizers") or []
    except ConfigurationError as error:
        raise ConfigurationError(f"failed to load AuthorizationConfiguration from file: {error}") from None
    reader = _Reader(features)
    found = tuple(reader.read(authorizers))
    if reader.errors:
        raise ConfigurationError.of(reader.errors)
    problems = [
        f"expected name {each.type.lower()} for authorizer {each.type} instead of {each.name}"
        for each in found
        if each.type != "Webhook" and each.name != each.type.lower()
    ]
    missing = sorted(set(required_types) - {each.type for each in found} - {"Webhook"})
    if missing:
        problems.append(f"missing required types: [{' '.join(missing)}]")
    if problems:
        raise ConfigurationError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return found


class _Reader:
    """Validator of a list of authorizers. It collects the problems in `errors`."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self.errors: list[FieldError] = []

    def read(self, authorizers: list[Json]) -> Iterator[AuthorizerConfig]:
        if not authorizers:
            self.errors.append(required(Where("authorizers"), "at least one authorization mode must be defined"))
        types: set[str] = set()
        names: set[str] = set()
        for index, spec in enumerate(authorizers):
            where = Where("authorizers")[index]
            type_ = spec.get("type", "")
            if not type_:
                self.errors.append(required(where / "type"))
            elif type_ not in MODES:
                self.errors.append(not_supported(where / "type", type_, sorted(MODES)))
            elif type_ in types and type_ != "Webhook":
                self.errors.append(duplicate(where / "type", type_))
            else:
                types.add(type_)
                self._name(where / "name", spec.get("name", ""), names)
                yield AuthorizerConfig(type_, spec.get("name", ""), self._webhook(where, type_, spec.get("webhook")))

    def _name(self, where: Where, name: str, names: set[str]) -> None:
        if not name:
            self.errors.append(required(where))
        elif name in names:
            self.errors.append(duplicate(where, name))
        elif problems := dns_subdomain(name):
            self.errors.append(invalid(where, name, f"authorizer name is invalid: {', '.join(problems)}"))
        names.add(name)

    def _webhook(self, where: Where, type_: str, spec: Json | None) -> WebhookSettings | None:
        if type_ != "Webhook":
            if spec is not None:
                self.errors.append(invalid(where / "webhook", "non-null", "may only be specified when type=Webhook"))
            return None
        if spec is None:
            self.errors.append(required(where / "webhook", "required when type=Webhook"))
            return None
        timeout = self._seconds(where / "timeout", spec.get("timeout"), 0.0, _LONGEST)
        allowed = self._seconds(where / "authorizedTTL", spec.get("authorizedTTL"), 300.0)
        others = self._seconds(where / "unauthorizedTTL", spec.get("unauthorizedTTL"), 30.0)
        version = spec.get("subjectAccessReviewVersion", "")
        self._one_of(where / "subjectAccessReviewVersion", version, ("v1", "v1beta1"))
        conditions = spec.get("matchConditions") or []
        seen = spec.get("matchConditionSubjectAccessReviewVersion", "")
        if seen or conditions:
            text = "required if match conditions are specified"
            self._one_of(where / "matchConditionSubjectAccessReviewVersion", seen, ("v1",), text)
        policy = spec.get("failurePolicy", "")
        self._one_of(where / "failurePolicy", policy, ("NoOpinion", "Deny"))
        kubeconfig = self._connection(where / "connectionInfo", spec.get("connectionInfo") or {})
        compiled = self._conditions(where / "matchConditions", conditions)
        call_settings = WebhookCallSettings(
            version,
            timeout,
            allowed if spec.get("cacheAuthorizedRequests") is not False else 0.0,
            others if spec.get("cacheUnauthorizedRequests") is not False else 0.0,
            policy == "Deny",
            self._features.enabled("AuthorizeWithSelectors"),
        )
        return WebhookSettings(Path(kubeconfig), call_settings, compiled)

    def _seconds(self, where: Where, text: str | None, default: float, most: float | None = None) -> float:
        problem = go_duration_problem(text) if text else ""
        if problem:
            self.errors.append(invalid(where, text, problem))
            return default or 1.0
        seconds = -parse_duration(text[1:]).total_seconds() if text and text[0] == "-" else 0.0
        if text and not seconds:
            seconds = parse_duration(text).total_seconds()
        if not seconds:
            if not default:
                self.errors.append(required(where))
            return default
        if seconds < 0 or (most is not None and seconds > most):
            limit = "must be > 0s" if most is None else f"must be > 0s and <= {most:.0f}s"
            self.errors.append(invalid(where, text, limit))
        return seconds

    def _one_of(self, where: Where, value: str, values: tuple[str, ...], missing: str = "") -> None:
        if not value:
            self.errors.append(required(where, missing))
        elif value not in values:
            self.errors.append(not_supported(where, value, values))

    def _connection(self, where: Where, spec: Json) -> str:
        type_, file = spec.get("type", ""), spec.get("kubeConfigFile")
        place = where / "kubeConfigFile"
        if not type_:
            self.errors.append(required(where / "type"))
        elif type_ == "InClusterConfig":
            if file is not None:
                self.errors.append(invalid(place, file, "can only be set when type=KubeConfigFile"))
            else:
                self.errors.append(invalid(where / "type", type_, "a server has no such configuration for itself"))
        elif type_ != "KubeConfigFile":
            self.errors.append(not_supported(where / "type", type_, ("InClusterConfig", "KubeConfigFile")))
        elif not file:
            self.errors.append(required(place))
        elif not file.startswith("/"):
            self.errors.append(invalid(place, file, "must be an absolute path"))
        else:
            try:
                if not S_ISREG(Path(file).stat().st_mode):
                    self.errors.append(invalid(place, file, "must be a regular file"))
            except OSError as error:
                reason = f"error loading file: stat {file}: {(error.strerror or '').lower()}"
                self.errors.append(invalid(place, file, reason))
        return file or ""

    def _conditions(self, where: Where, conditions: list[Json]) -> tuple[Condition, ...]:
        if len(conditions) > _MOST_CONDITIONS:
            self.errors.append(too_many(where, len(conditions), _MOST_CONDITIONS))
            return ()
        found: dict[str, Condition] = {}
        for index, spec in enumerate(conditions):
            place, source = where[index] / "expression", spec.get("expression", "")
            if not source.strip():
                self.errors.append(required(place))
            elif source in found:
                self.errors.append(duplicate(place, source))
            elif (condition := self._condition(place, source)) is not None:
                found[source] = condition
        return tuple(found.values())

    def _condition(self, where: Where, source: str) -> Condition | None:
        from apiserver.authorization.webhook import conditions_language
        from apiserver.cel.engine import CompileFailure
        from apiserver.cel.environments.admission import BOOL_RESULT, compile_admission

        try:
            return Condition(
                source, compile_admission(source, conditions_language(self._features.release), BOOL_RESULT)
            )
        except CompileFailure as error:
            self.errors.append(invalid(where, source, str(error)))
            return None
