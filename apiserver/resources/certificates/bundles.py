"""ClusterTrustBundles."""

from __future__ import annotations

from typing import Final

from apiserver.api.credentials.certificates import authority_problem
from apiserver.api.credentials.pem import blocks
from apiserver.api.errors.field_errors import FieldError, Path, invalid, too_long
from apiserver.api.objects import Json
from apiserver.api.types.certificates import BUNDLES_V1ALPHA1, BUNDLES_V1BETA1
from apiserver.api.validation.changes import changes
from apiserver.api.values.names import object_name
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.certificates.signers import signer_name
from apiserver.resources.common.columns import NAME

__all__ = ["CLUSTER_TRUST_BUNDLES"]


_LIMIT: Final = 1024 * 1024
_SPEC: Final = Path("spec")
_BUNDLE: Final = _SPEC / "trustBundle"
_CHANGES: Final = changes(BUNDLES_V1BETA1.ClusterTrustBundleSpec)


def _name(name: str, signer: str, *, prefix: bool) -> list[str]:
    """Validate a name: it begins with the signer's name, or has no colon without a signer."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return object_name("subdomain", name, prefix)
    start = signer.replace("/", ":") + ":"
    if not name.startswith(start):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {start}"]
    return object_name("subdomain", name.removeprefix(start), prefix)


def _anchors(text: str) -> list[FieldError]:
    if len(text.encode()) > _LIMIT:
        return [too_long(_BUNDLE, _LIMIT)]
    wrong: list[str] = []
    seen: dict[bytes, list[int]] = {}
    for index, block in enumerate(blocks(text.encode())):
        if block.kind != "CERTIFICATE":
            wrong.append(f"entry {index} has bad block type: {block.kind}")
        elif block.headers:
            wrong.append(f"entry {index} has PEM block headers")
        elif problem := authority_problem(block.data):
            wrong.append(f"entry {index} {problem}")
        else:
            seen.setdefault(block.data, []).append(index)
    if not wrong:
        wrong = [] if seen else ["at least one trust anchor must be provided"]
        for indices in seen.values():
            if len(indices) > 1:
                wrong.append(f"duplicate trust anchor (indices [{' '.join(map(str, indices))}])")
    return [invalid(_BUNDLE, "<value omitted>", text) for text in wrong]


class TrustBundleStrategy(Strategy):
    name_rule = "path-segment"

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        metadata, signer = obj["metadata"], obj["spec"].get("signerName", "")
        return [
            invalid(Path("metadata") / field, metadata[field], text)
            for field in ("generateName", "name")
            if metadata.get(field)
            for text in _name(metadata[field], signer, prefix=field == "generateName")
        ]

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        signer = obj["spec"].get("signerName", "")
        errors = signer_name(_SPEC / "signerName", signer) if signer else []
        return errors + _anchors(obj["spec"].get("trustBundle", ""))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        same = spec.get("trustBundle", "") == before.get("trustBundle", "")
        signer = spec.get("signerName", "")
        errors = signer_name(_SPEC / "signerName", signer) if signer else []
        errors += [] if same else _anchors(spec.get("trustBundle", ""))
        return errors + _CHANGES.errors(_SPEC, spec, before)


CLUSTER_TRUST_BUNDLES: Final = Resource(
    group="certificates.k8s.io", kind="ClusterTrustBundle", plural="clustertrustbundles",
    singular="clustertrustbundle", namespaced=False, gate="ClusterTrustBundle",
    versions=(
        prerelease("v1beta1", BUNDLES_V1BETA1.ClusterTrustBundle, (1, 33), deprecated=(1, 37), removed=(1, 40)),
        prerelease("v1alpha1", BUNDLES_V1ALPHA1.ClusterTrustBundle, (1, 26), deprecated=(1, 34), removed=(1, 37)),
    ),
    strategy=TrustBundleStrategy(), storage_prefix="clustertrustbundles",
    columns=(
        NAME,
        Column(name="SignerName", cell=lambda obj: obj["spec"].get("signerName") or "<none>",
            description="Signer of the bundle's trust anchors."),
    ),
    field_labels={"spec.signerName": lambda obj: obj["spec"].get("signerName", "")},
    field_error_style="plain", unconditional_update=False,
)  # fmt: skip
