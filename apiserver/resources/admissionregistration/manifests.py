"""Load admission policies and webhooks from a directory of files (gate ManifestBasedAdmissionControlConfig).

    manifests = Manifests("ValidatingAdmissionPolicy", directory, features)       or ManifestError
    manifests.objects("validatingadmissionpolicies")

Manifests are no objects of the API and cannot be listed, changed or deleted there. `apiserver.admission.policies.index`
and `apiserver.admission.webhooks.hooks` define their scope and order.
Facts: apiserver, pkg/admission/plugin/manifest and the loaders beside it; pkg/admission/plugin of Kubernetes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from apiserver.api.codec.bodies import read_type_meta
from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.errors.field_errors import aggregate, go_quote
from apiserver.api.objects import Json
from apiserver.registry.body.convert import ExpectedBody, to_hub
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource
from apiserver.request.messages import User
from apiserver.resources.admissionregistration import POLICIES, WEBHOOKS
from apiserver.resources.admissionregistration.configurations import SUFFIX, ConfigurationStrategy
from apiserver.runtime.clock import now

if TYPE_CHECKING:
    from apiserver.api.codec.bodies import Body
    from apiserver.api.features.gates import Features

__all__ = ["PLUGINS", "File", "ManifestError", "Manifests", "read_files"]


_VERSION: Final = "v1"
_API_VERSION: Final = f"admissionregistration.k8s.io/{_VERSION}"
_ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})
_SEPARATOR: Final = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_KINDS: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (*POLICIES, *WEBHOOKS)}
#: The kinds in a plugin's directory. The second kind binds the first.
PLUGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "ValidatingAdmissionPolicy": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "MutatingAdmissionPolicy": ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    "ValidatingAdmissionWebhook": ("ValidatingWebhookConfiguration",),
    "MutatingAdmissionWebhook": ("MutatingWebhookConfiguration",),
}
_SERVER: Final = User("system:apiserver", "", ("system:masters", "system:authenticated"))


class ManifestError(ValueError):
    """Manifest files cannot be used. The message is one line."""


class File(NamedTuple):
    path: Path
    text: bytes


def read_files(directory: Path) -> list[File]:
    """Return the manifest files of a directory by name, without empty ones. Raise OSError.

    Pipes are skipped because reading one might never end.
    """
    paths = sorted(path for path in directory.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
    return [file for file in (File(path, path.read_bytes()) for path in paths) if file.text]


class Manifests:
    """The manifests of one admission plugin. Raise ManifestError if they cannot be used."""

    def __init__(self, plugin: str, directory: Path, features: Features) -> None:
        self.plugin, self.directory, self._features = plugin, directory, features
        self._listeners: list[Callable[[], None]] = []
        self._objects: Mapping[str, Sequence[Json]] = {}
        #: Parsed objects by file content. Most reloads change only one of many files.
        self._known: Mapping[bytes, Sequence[tuple[str, Json]]] = {}
        self.files: Sequence[File] = ()
        try:
            self.take(read_files(directory))
        except OSError as error:
            text = f'failed to read manifest directory "{directory}": {(error.strerror or "").lower()}'
            raise ManifestError(text) from error

    @property
    def digest(self) -> str:
        """Return a digest of all files; "" without files."""
        if not self.files:
            return ""
        return f"sha256:{hashlib.sha256(b''.join(file.text + bytes(1) for file in self.files)).hexdigest()}"

    def objects(self, plural: str) -> Sequence[Json]:
        """Return the objects of a resource in hub form, by name."""
        return self._objects.get(plural, ())

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` after each further change."""
        self._listeners.append(notify)

    def take(self, files: Sequence[File]) -> None:
        """Replace the manifests by those of `files`. Raise ManifestError and change nothing if they are invalid."""
        found: dict[str, dict[str, tuple[Json, Path]]] = {kind: {} for kind in PLUGINS[self.plugin]}
        known: dict[bytes, Sequence[tuple[str, Json]]] = {}
        for file in files:
            try:
                known[file.text] = said = self._known.get(file.text) or tuple(self._read(file.text))
                for kind, obj in said:
                    _add(found[kind], kind, obj, file.path)
            except (DecodeError, ManifestError) as error:
                raise ManifestError(f"error loading {file.path}: {error}") from None
        policies, *bindings = found.values()
        for name, (binding, _) in (item for each in bindings for item in each.items()):
            if binding["spec"]["policyName"] not in policies:
                policy = binding["spec"]["policyName"]
                raise ManifestError(
                    f'binding "{name}" references policy "{policy}" which does not exist in the manifest directory'
                )
        self.files, self._known = files, known
        self._objects = {
            _KINDS[kind].plural: [named[name][0] for name in sorted(named)] for kind, named in found.items()
        }
        for tell in self._listeners:
            tell()

    def _read(self, text: bytes) -> Iterable[tuple[str, Json]]:
        """Yield the objects of a file with their kinds, including list items. Raise DecodeError or ManifestError."""
        for document in _SEPARATOR.split(text):
            if document.strip():
                body = loads(document.strip(), "application/yaml")
                yield from self._objects_of(body.value, *interpret(body), body)

    def _objects_of(self, value: Any, version: str, kind: str, body: Body | None) -> Iterable[tuple[str, Json]]:
        if not kind:
            raise ManifestError("Object 'Kind' is missing")
        single = kind.removesuffix("List")
        if (version, kind) == ("v1", "List"):
            for item in _items(value):
                if not isinstance(item, dict):
                    raise ManifestError("failed to decode list item: Object 'Kind' is missing")
                yield from self._objects_of(item, *read_type_meta(item), None)
        elif version != _API_VERSION or single not in _KINDS:
            raise ManifestError(f"no kind {go_quote(kind)} is registered for version {go_quote(version)}")
        elif single not in PLUGINS[self.plugin]:
            raise ManifestError(f"unsupported resource type *{_VERSION}.{kind}")
        elif single != kind:
            for item in _items(value):
                yield single, self._object(single, item, None)
        else:
            yield kind, self._object(kind, value, body)

    def _object(self, kind: str, value: Any, body: Body | None) -> Json:
        """Decode, default and validate an object as a create would. Raise DecodeError or ManifestError."""
        resource = _KINDS[kind]
        version = next(each for each in resource.versions if each.name == _VERSION)
        decoded = decode(version.schema, value, body)
        if decoded.problems:
            raise ManifestError(f"strict decoding error: {', '.join(decoded.problems)}")
        ctx = Context(now=now(), user=_SERVER, features=self._features, resource=resource, version=_VERSION)
        obj = to_hub(ctx, ExpectedBody(resource, version), decoded.obj, reset=False)
        strategy = cast(ConfigurationStrategy, resource.strategy)
        errors = strategy.validate_metadata(ctx, obj["metadata"], False) + strategy.content_errors(ctx, obj, None)
        if errors:
            raise ManifestError(f"{kind} {go_quote(obj['metadata'].get('name', ''))}: {aggregate(errors)}")
        return obj


def _items(value: Json) -> list[Any]:
    """Return the items of a list. Raise ManifestError."""
    items = value.get("items")
    if items is not None and not isinstance(items, list):
        raise ManifestError("failed to decode list: items are no list")
    return items or []


def _add(named: dict[str, tuple[Json, Path]], kind: str, obj: Json, path: Path) -> None:
    """Add an object. Raise ManifestError for fields that the API allows and manifests do not."""
    name = obj["metadata"]["name"]
    if not name.endswith(SUFFIX):
        raise ManifestError(f'"{name}" in file "{path}" must have a name ending with "{SUFFIX}"')
    if name in named:
        raise ManifestError(f'duplicate name "{name}" found in file "{path}" (previously seen in "{named[name][1]}")')
    spec = obj.get("spec") or {}
    if "paramKind" in spec:
        raise ManifestError(f'{kind} "{name}": spec.paramKind is not supported for static manifests')
    if kind.endswith("Binding") and not spec["policyName"].endswith(SUFFIX):
        raise ManifestError(f'binding "{name}": spec.policyName "{spec["policyName"]}" must end with "{SUFFIX}"')
    if "paramRef" in spec:
        raise ManifestError(f'binding "{name}": spec.paramRef is not supported for static manifests')
    for webhook in obj.get("webhooks") or ():
        if "service" in webhook["clientConfig"]:
            raise ManifestError(
                f'webhook "{webhook["name"]}" in "{name}" (file "{path}"): clientConfig.service is not supported for'
                " static manifests; use clientConfig.url instead"
            )
    named[name] = obj, path
