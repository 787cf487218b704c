"""`/-/explain`: why a pod is pending, which claims hold devices, and which changes would help."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from pydantic import ConfigDict, Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class Explanation(Model):
    """An explanation. The other fields are those of a pod, claim, node or podgroup (docs/howto/explain.md)."""

    model_config = ConfigDict(extra="allow")

    kind: str
    report: str = Field(description="the explanation as text")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["explain"])

    async def explain_object(kind: str, namespace: str, name: str) -> Explanation:
        explain = operations.explain()
        if explain is None:
            raise HTTPException(
                409, "no components run in this server: `kubedra explain --kubeconfig FILE` reads from outside"
            )
        try:
            found: dict[str, Any] = await explain(kind, namespace, name)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        return Explanation.model_validate(found)

    @router.get("/-/explain/pod/{namespace}/{name}", summary="Why a pod is pending, and changes that would help")
    async def pod(namespace: str, name: str) -> Explanation:
        """Return the verdict of every node, of every device for each request, the queue, and the tried changes."""
        return await explain_object("pod", namespace, name)

    @router.get(
        "/-/explain/claim/{namespace}/{name}", summary="The allocated devices of a claim, or why its pods are pending"
    )
    async def claim(namespace: str, name: str) -> Explanation:
        return await explain_object("claim", namespace, name)

    @router.get("/-/explain/node/{name}", summary="The devices of a node and the claims that hold them")
    async def node(name: str) -> Explanation:
        return await explain_object("node", "", name)

    @router.get(
        "/-/explain/podgroup/{namespace}/{name}", summary="Why a pod group is pending, and changes that would help"
    )
    async def podgroup(namespace: str, name: str) -> Explanation:
        """Return the missing pods, and the placements that were tried for the group with their results."""
        return await explain_object("podgroup", namespace, name)

    return router
