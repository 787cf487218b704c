"""Share the strategy of the kinds that configure admission, from the API or from manifest files.

Manifest files use names with a reserved suffix (`SUFFIX`). The API rejects these names where manifests are enabled.
Facts: pkg/registry/admissionregistration/*/strategy.go; pkg/apis/admissionregistration/validation/static_suffix.go.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.strategy import Strategy

__all__ = ["GATE", "SUFFIX", "ConfigurationStrategy"]


GATE: Final = "ManifestBasedAdmissionControlConfig"
SUFFIX: Final = ".static.k8s.io"
_RESERVED: Final = (
    f'names ending with "{SUFFIX}" are reserved for static manifest-based configurations and cannot be managed via the'
    " API"
)


class ConfigurationStrategy(Strategy):
    """Strategy of admission configuration.

    `content_errors` validate the object, from the API or from a file. `access_errors` check the permissions of the
    writer.
    """

    asks_authorizer = True
    checks_finalizer_names = False
    compares_metadata = False

    def content_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        raise NotImplementedError

    def access_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        return []

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors, name = self.content_errors(ctx, obj, None), obj["metadata"].get("name", "")
        if name.endswith(SUFFIX) and ctx.features.enabled(GATE):
            errors.append(invalid(Path("metadata") / "name", name, _RESERVED))
        return errors or self.access_errors(ctx, obj, None)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.content_errors(ctx, obj, old) or self.access_errors(ctx, obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return [] if ctx.features.enabled(GATE) else self.warnings_on_update(ctx, obj, obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        reserved = obj["metadata"].get("name", "").endswith(SUFFIX)
        return [f"metadata.name: {_RESERVED}"] if reserved else []
