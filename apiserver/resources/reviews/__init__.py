"""Kinds that can only be created: the response contains the answer, and nothing is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.types import authentication, authorization
from apiserver.registry.definition.resource import Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.reviews.access import review_access, review_local_access, review_own_access, review_own_rules
from apiserver.resources.reviews.identity import review_self, review_token

__all__ = ["AUTHENTICATION_REVIEWS", "AUTHORIZATION_REVIEWS"]


def _review(schema: Struct, create: Callable[..., Awaitable[Json]], *, namespaced: bool = False) -> Resource:
    assert schema.gvk is not None
    group, version, kind = schema.gvk
    singular = kind.lower()
    return Resource(
        group=group,
        kind=kind,
        plural=singular + "s",
        singular=singular,
        namespaced=namespaced,
        versions=(Version(name=version, schema=schema),),
        strategy=Strategy(),
        storage_prefix=singular + "s",
        columns=(),
        verbs=("create",),
        create=create,
    )


AUTHENTICATION_REVIEWS: Final = (
    _review(authentication.SelfSubjectReview, review_self),
    _review(authentication.TokenReview, review_token),
)
AUTHORIZATION_REVIEWS: Final = (
    _review(authorization.LocalSubjectAccessReview, review_local_access, namespaced=True),
    _review(authorization.SelfSubjectAccessReview, review_own_access),
    _review(authorization.SelfSubjectRulesReview, review_own_rules),
    _review(authorization.SubjectAccessReview, review_access),
)
