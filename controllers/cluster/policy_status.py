"""Type checking of ValidatingAdmissionPolicies, reported in `status.typeChecking`.

Facts: upstream's pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import VALIDATING_ADMISSION_POLICIES

if TYPE_CHECKING:
    from controllers.cluster.policy_types import CheckedKind

NAME = "validatingadmissionpolicy-status-controller"
#: Has no effect: stored expressions may use all libraries.
_RELEASE = (1, 36)
_PREFIX = "compilation failed: "


def build(client: Client, informers: Informers, options: Options) -> PolicyStatus:
    """Build the component for the manager."""
    return PolicyStatus(client, informers, options)


class PolicyStatus(ControllerComponent):
    """The policy status controller. Keys are those of policies."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._policies = informers.of(VALIDATING_ADMISSION_POLICIES)
        self._controller = Controller(
            NAME, self.reconcile, workers=options.workers(NAME), queue="validatingadmissionpolicy-status"
        )
        self._controller.follow(self._policies)

    async def reconcile(self, key: str) -> None:
        policy = self._policies.get(key)
        if policy is None:
            return
        metadata, status = policy["metadata"], policy.get("status") or {}
        if metadata.get("generation", 0) <= status.get("observedGeneration", 0):
            return
        # Imported late because it loads CEL.
        from controllers.cluster.policy_types import Types

        types = Types(self._client)
        about = await types.of_policy(policy)
        kind = policy["spec"].get("paramKind")
        params = None
        if kind is not None:
            group, _, version = kind.get("apiVersion", "").rpartition("/")
            params = await types.of(group, version, kind.get("kind", ""))
        body = {
            "apiVersion": VALIDATING_ADMISSION_POLICIES.api_version,
            "kind": VALIDATING_ADMISSION_POLICIES.kind,
            "metadata": {"name": metadata["name"]},
            "status": {
                "observedGeneration": metadata["generation"],
                "typeChecking": _type_checking(list(_warnings(policy, about, params))),
            },
        }
        try:
            await self._client.patch(
                VALIDATING_ADMISSION_POLICIES,
                metadata["name"],
                body,
                type="apply",
                subresource="status",
                field_manager=NAME,
                force=True,
            )
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise


def _type_checking(warnings: list[Json]) -> Json:
    return {"expressionWarnings": warnings} if warnings else {}


def _warnings(policy: Json, about: list[CheckedKind], params: CheckedKind | None) -> Iterator[Json]:
    """Yield the type errors of each expression, against each matched type."""
    for index, rule in enumerate(policy["spec"].get("validations") or ()):
        for field in ("expression", "messageExpression"):
            if not rule.get(field):
                continue
            found = [
                f"{one.text}: {text}\n"
                for one in about
                if (text := _find_type_error(policy, rule[field], one, params)) != ""
            ]
            if found:
                yield {"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(found)}


def _find_type_error(policy: Json, expression: str, about: CheckedKind, params: CheckedKind | None) -> str:
    """Return the type error of an expression about objects of a type, or ""."""
    from apiserver.cel.engine import Compiled, CompileFailure
    from apiserver.cel.environments.admission import (
        ANY_RESULT,
        Declared,
        admission_language,
        compile_admission,
        with_types,
        with_variable,
    )

    has_params = policy["spec"].get("paramKind") is not None
    language = admission_language(_RELEASE, Declared(params=has_params, variables=True), stored=True)
    types = {"object": about.type.type, "oldObject": about.type.type}
    structs = about.type.structs()
    if params is not None:
        types["params"] = params.type.type
        structs = {**structs, **params.type.structs()}
    language = with_types(language, types, structs)
    for variable in policy["spec"].get("variables") or ():
        compiled: Compiled | None = None
        try:
            compiled = compile_admission(variable["expression"], language, ANY_RESULT)
        except CompileFailure:
            compiled = None
        language = with_variable(language, variable["name"], None if compiled is None else compiled.output)
    try:
        compile_admission(expression, language, ANY_RESULT)
    except CompileFailure as error:
        return str(error).removeprefix(_PREFIX)
    return ""
