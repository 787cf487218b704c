"""ServiceAccount: every pod runs as an account of its namespace and has its token mounted.

The default account is `default`. A controller creates it for each namespace, so a pod created right after its namespace
waits a moment.
Facts: plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_references import secret_names
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden
from apiserver.runtime.offload import on_loop

__all__ = ["ServiceAccount"]


_DEFAULT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENFORCED: Final = "kubernetes.io/enforce-mountable-secrets"
_PLACE: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME: Final = "kube-api-access-"
#: Number of lookups of a namespace's default account, and the seconds between them.
_ATTEMPTS: Final = 20
_PAUSE: Final = 0.15
#: An hour and 7 s. The odd value identifies tokens of clients that do not renew them.
_TOKEN_SECONDS: Final = 3607
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
#: Containers whose secret references are limited, with upstream's names for them.
_CONTAINERS: Final = (("initContainers", "init container"), ("containers", "container"))


class ServiceAccount(Plugin):
    name = "ServiceAccount"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, suffix: Callable[[], str] | None = None) -> None:
        self._suffix = suffix or (lambda: "".join(secrets.choice(_LETTERS) for _ in range(5)))

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("", "pods")

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.operation != "CREATE" or attributes.subresource or attributes.obj is None:
            return None
        spec: Json = attributes.obj["spec"]
        if _is_mirror(attributes.obj):
            _check_mirror(attributes, spec)
            return None
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = _DEFAULT
        account = _account(attributes, spec["serviceAccountName"])
        if account is None and spec["serviceAccountName"] == _DEFAULT:
            return self._wait(attributes, spec)
        self._complete(attributes, spec, account)
        return None

    @on_loop
    async def _wait(self, attributes: Attributes, spec: Json) -> None:
        account = None
        for _ in range(_ATTEMPTS - 1):
            await asyncio.sleep(_PAUSE)
            account = _account(attributes, _DEFAULT)
            if account is not None:
                break
        self._complete(attributes, spec, account)

    def _complete(self, attributes: Attributes, spec: Json, account: Json | None) -> None:
        """Set the account's token and pull secrets in a pod. Raise 403 if there is no account."""
        if account is None:
            raise _build_not_found(attributes, spec["serviceAccountName"])
        wanted = (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken"), True)
        if next(choice for choice in wanted if choice is not None):
            self._mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": ref.get("name", "")} for ref in account["imagePullSecrets"]]

    def _mount(self, spec: Json) -> None:
        """Mount the account's token in every container without another mount at its path."""
        volumes = spec.get("volumes") or []
        present = next((volume["name"] for volume in volumes if volume.get("name", "").startswith(_VOLUME)), "")
        name, mounted = present or _VOLUME + self._suffix(), False
        for field, _ in _CONTAINERS:
            for container in spec.get(field) or ():
                mounts = container.get("volumeMounts") or []
                if all(mount.get("mountPath") != _PLACE for mount in mounts):
                    container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _PLACE}]
                    mounted = True
        if mounted and not present:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]

    def validate(self, attributes: Attributes) -> None:
        if attributes.obj is None:
            return
        debugged = attributes.operation == "UPDATE" and attributes.subresource == "ephemeralcontainers"
        if not debugged and (attributes.operation != "CREATE" or attributes.subresource):
            return
        spec = attributes.obj["spec"]
        if _is_mirror(attributes.obj) and not debugged:
            _check_mirror(attributes, spec)
            return
        name, where = spec.get("serviceAccountName", ""), f"{attributes.namespace}/{attributes.name}"
        if not name:
            raise forbidden(attributes, f"no service account specified for pod {where}")
        account = _account(attributes, name)
        if account is None:
            raise _build_not_found(attributes, name)
        if (account["metadata"].get("annotations") or {}).get(_ENFORCED) in _TRUE:
            _limit(attributes, spec, account, debugged=debugged)


def _account(attributes: Attributes, name: str) -> Json | None:
    return attributes.ctx.lookup("", "serviceaccounts", attributes.namespace, name)


def _build_not_found(attributes: Attributes, name: str) -> Exception:
    text = f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
    return forbidden(attributes, text)


def _is_mirror(pod: Json) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


def _check_mirror(attributes: Attributes, spec: Json) -> None:
    """Refuse a mirror pod with a service account, a secret or a token volume."""
    if spec.get("serviceAccountName"):
        raise forbidden(attributes, "a mirror pod may not reference service accounts")
    if next(secret_names(spec), None) is not None:
        raise forbidden(attributes, "a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise forbidden(attributes, "a mirror pod may not use ServiceAccountToken volume projections")


def _limit(attributes: Attributes, spec: Json, account: Json, *, debugged: bool) -> None:
    """Refuse secrets that the account does not list, if it limits its pods to them."""
    whose = f"is not allowed because service account {account['metadata']['name']} does not reference that"
    known = {ref.get("name", "") for ref in account.get("secrets") or ()}
    used: Iterator[tuple[str, str]] = (
        _iter_container_secrets(spec, (("ephemeralContainers", "ephemeral container"),))
        if debugged
        else _iter_pod_secrets(spec)
    )
    for what, secret in used:
        if secret not in known:
            text = f'{what}secret.secretName="{secret}" {whose} secret'
            # For an ephemeral container upstream's refusal has only the error.
            raise StatusError(500, "", text) if debugged else forbidden(attributes, text)
    pulled = {ref.get("name", "") for ref in account.get("imagePullSecrets") or ()}
    for index, ref in enumerate(() if debugged else spec.get("imagePullSecrets") or ()):
        if ref.get("name", "") not in pulled:
            name = ref.get("name", "")
            raise forbidden(attributes, f'imagePullSecrets[{index}].name="{name}" {whose} imagePullSecret')


def _iter_pod_secrets(spec: Json) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        if volume.get("secret") is not None:
            yield "volume with ", volume["secret"].get("secretName", "")
    yield from _iter_container_secrets(spec, _CONTAINERS)


def _iter_container_secrets(spec: Json, fields: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    """Yield each use of a secret: its description, and the secret's name."""
    for field, kind in fields:
        for container in spec.get(field) or ():
            what = f"{kind} {container['name']} with"
            for variable in container.get("env") or ():
                ref = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if ref is not None:
                    yield f"{what} envVar {variable.get('name', '')} referencing ", ref.get("name", "")
            for source in container.get("envFrom") or ():
                if source.get("secretRef") is not None:
                    yield f"{what} envFrom referencing ", source["secretRef"].get("name", "")


def _token_volume() -> Json:
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": ca},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
