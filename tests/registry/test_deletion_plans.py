"""The effect of a DELETE on an object: its finalizers, its grace period, and its removal."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Hub, Json
from apiserver.registry.definition.options import DeleteOptions, Preconditions
from apiserver.registry.definition.strategy import Strategy
from apiserver.registry.verbs.delete import _check_preconditions, _plan, options_of
from apiserver.request.messages import Request, User

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


class Rules(Strategy):
    """Rules with the requested grace period, or the kind's own."""

    def __init__(self, grace: int | None, policy: str = "background") -> None:
        self.grace, self.garbage_collection = grace, policy

    def deletion_grace(self, ctx: Any, obj: Json, requested: int | None) -> int | None:
        return requested if requested is not None and self.grace is not None else self.grace


def planned(rules: Strategy, metadata: Json, **options: Any) -> tuple[str, Json | None]:
    """Plan a DELETE; return the action and the metadata to write first."""
    ctx: Any = SimpleNamespace(resource=SimpleNamespace(strategy=rules), now=NOW)
    step = _plan(ctx, Hub({"metadata": deepcopy(metadata)}), DeleteOptions(**options))
    return step.then, None if step.obj is None else step.obj["metadata"]


def at(seconds: int, grace: int, **more: Any) -> Json:
    """Build metadata of an object to remove so many seconds from now."""
    time = NOW.timestamp() + seconds
    shown = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"deletionTimestamp": shown, "deletionGracePeriodSeconds": grace, **more}


HELD: Json = {"finalizers": ["example.com/f"]}


@pytest.mark.parametrize(
    ("metadata", "options", "then", "written"),
    [
        ({}, {}, "remove", None),
        ({"generation": 1}, {}, "remove", None),
        (HELD, {}, "keep", at(0, 0) | HELD),
        (HELD | {"generation": 1}, {}, "keep", at(0, 0) | HELD | {"generation": 2}),
        (HELD | {"generation": 0}, {}, "keep", at(0, 0) | HELD | {"generation": 0}),
        (HELD | at(-9, 0), {}, "keep", at(-9, 0) | HELD),
        (HELD | at(9, 9), {}, "keep", at(0, 0) | HELD),
        ({}, {"propagation": "Orphan"}, "keep", at(0, 0) | {"finalizers": ["orphan"]}),
        ({"finalizers": ["orphan"]}, {"propagation": "Background"}, "remove", None),
        ({"finalizers": ["orphan"]}, {"propagation": "Background", "dry_run": True}, "remove", {}),
    ],
)
def test_what_has_no_grace_period_goes_unless_finalizers_hold_it(
    metadata: Json, options: Json, then: str, written: Json | None
) -> None:
    assert planned(Rules(None), metadata, **options) == (then, written)


@pytest.mark.parametrize(
    ("metadata", "options", "then", "written"),
    [
        ({}, {}, "keep", at(30, 30)),
        ({"generation": 4}, {}, "keep", at(30, 30) | {"generation": 5}),
        ({}, {"grace_period": 1}, "keep", at(1, 1)),
        ({}, {"grace_period": 0}, "remove", at(0, 0)),
        (HELD, {"grace_period": 0}, "keep", at(0, 0) | HELD),
        ({}, {"grace_period": -7}, "keep", at(1, 1)),
        (at(20, 30), {}, "pending", None),
        (at(20, 30), {"grace_period": 30}, "pending", None),
        (at(20, 30), {"grace_period": 31}, "pending", None),
        (at(20, 30), {"grace_period": 29}, "keep", at(19, 29)),
        (at(20, 30, generation=2), {"grace_period": 10}, "keep", at(0, 10, generation=2)),
        (at(20, 30), {"grace_period": 9}, "keep", at(0, 1)),
        (at(20, 30), {"grace_period": 0}, "remove", at(0, 0)),
        (at(20, 30) | HELD, {"grace_period": 0}, "keep", at(0, 0) | HELD),
        (at(0, 0), {}, "remove", None),
        (at(0, 0) | HELD, {}, "keep", at(0, 0) | HELD),
        (at(20, 30), {"grace_period": 5, "propagation": "Orphan"}, "keep", at(0, 1) | {"finalizers": ["orphan"]}),
    ],
)
def test_a_grace_period_is_granted_once_and_can_only_be_shortened(
    metadata: Json, options: Json, then: str, written: Json | None
) -> None:
    assert planned(Rules(30), metadata, **options) == (then, written)


@pytest.mark.parametrize(
    ("policy", "given", "options", "kept"),
    [
        ("background", [], {}, []),
        ("background", [], {"propagation": "Foreground"}, ["foregroundDeletion"]),
        ("background", [], {"orphan": True}, ["orphan"]),
        ("background", ["foregroundDeletion"], {"orphan": False}, []),
        ("background", ["a", "orphan"], {}, ["a", "orphan"]),
        ("background", ["orphan", "a"], {"propagation": "Orphan"}, ["orphan", "a"]),
        ("background", ["orphan", "a"], {"propagation": "Foreground"}, ["a", "foregroundDeletion"]),
        ("background", ["orphan", "foregroundDeletion"], {}, ["orphan"]),
        ("background", ["a"], {"propagation": "Background"}, ["a"]),
        ("orphan", [], {}, ["orphan"]),
        ("orphan", ["foregroundDeletion"], {}, ["foregroundDeletion"]),
        ("orphan", [], {"propagation": "Background"}, []),
        ("orphan", ["a"], {}, ["a", "orphan"]),
        ("unsupported", [], {"propagation": "Orphan"}, []),
        ("unsupported", ["orphan"], {"propagation": "Background"}, ["orphan"]),
    ],
)
def test_the_propagation_policy_decides_which_finalizers_of_the_collector_stay(
    policy: str, given: list[str], options: Json, kept: list[str]
) -> None:
    then, written = planned(Rules(None, policy), {"finalizers": given} if given else {}, **options, dry_run=True)
    assert then == ("keep" if kept else "remove")
    assert (written or {}).get("finalizers", []) == kept


def test_an_update_removes_an_object_that_waits_for_nothing_but_its_finalizers() -> None:
    class Kind(Rules):
        def may_remove(self, obj: Json) -> bool:
            return not obj.get("spec")

    rules = Kind(None)
    going = {"metadata": at(0, 0) | HELD}
    assert rules.is_finalized({"metadata": at(0, 0)}, going)
    for new, old in (
        ({"metadata": at(0, 0) | HELD}, going),
        ({"metadata": {}}, {"metadata": HELD}),
        ({"metadata": at(0, 9)}, {"metadata": at(0, 9) | HELD}),
        ({"metadata": at(0, 0), "spec": {"finalizers": ["kubernetes"]}}, going),
    ):
        assert not rules.is_finalized(new, old)


_STALE: Any = (
    (Preconditions("v"), "UID", "v", "u", "The object might have been deleted and then recreated"),
    (Preconditions("u", "4"), "ResourceVersion", "4", "5", "The object might have been modified"),
)


def test_preconditions_are_of_the_uid_and_of_the_version() -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "5"}
    resource: Any = SimpleNamespace(kind="Thing", plural="things", group="g", hub_group="h", strategy=Rules(None))
    for met in (None, Preconditions(), Preconditions("u"), Preconditions("u", "5")):
        _check_preconditions(resource, metadata, met)
    for wanted, what, asked, found, hint in _STALE:
        resource.strategy.storage_preconditions = False
        with pytest.raises(StatusError) as refused:
            _check_preconditions(resource, metadata, wanted)
        assert (refused.value.code, refused.value.message) == (
            409,
            f'Operation cannot be fulfilled on Thing.h "a": the {what} in the precondition ({asked}) does not match the {what} in record ({found}). {hint}',
        )
        resource.strategy.storage_preconditions = True
        with pytest.raises(StatusError) as refused:
            _check_preconditions(resource, metadata, wanted)
        assert refused.value.message == (
            f'Operation cannot be fulfilled on things.g "a": Precondition failed: {what} in precondition: {asked},'
            f" {what} in object meta: {found}"
        )


@pytest.mark.parametrize(
    ("media", "body", "code", "words"),
    [
        ("application/json", b'{"gracePeriodSeconds":5}', 0, ""),
        ("", b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":5}', 0, ""),
        ("application/yaml", b"gracePeriodSeconds: 5", 0, ""),
        ("application/json", b'{"kind":"DeleteOptions","apiVersion":"any.group/v9","gracePeriodSeconds":5}', 0, ""),
        ("text/plain", b"{}", 415, "accepted media types include"),
        ("application/json", b"{", 400, "couldn't get version/kind; json parse error: "),
        ("application/json", b'{"gracePeriodSeconds":"x"}', 400, "gracePeriodSeconds"),
        (
            "application/json",
            b'{"kind":"Pod","apiVersion":"v1"}',
            400,
            'no kind "Pod" is registered for version "v1" in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion',
        ),
        ("application/json", b'{"kind":"Pod"}', 400, 'no kind "Pod" is registered for version "meta.k8s.io/v1" in'),
        ("application/json", b'{"apiVersion":"a/b/c"}', 400, "unexpected GroupVersion string: a/b/c"),
    ],
)
def test_a_body_is_options_of_a_deletion_and_nothing_else(media: str, body: bytes, code: int, words: str) -> None:
    request = Request("DELETE", "/", "gracePeriodSeconds=9", {"content-type": media}, body, User("u"))
    if not code:
        assert options_of(request) == DeleteOptions(grace_period=5), "the query counts without a body alone"
        return
    with pytest.raises(StatusError) as refused:
        options_of(request)
    assert refused.value.code == code
    assert words in refused.value.message


def test_without_a_body_the_query_says_it_and_null_says_nothing() -> None:
    user = User("u")
    assert options_of(Request("DELETE", "/", "gracePeriodSeconds=9", {}, b"", user)) == DeleteOptions(grace_period=9)
    assert options_of(Request("DELETE", "/", "", {}, b"", user)) == DeleteOptions()
    assert options_of(Request("DELETE", "/", "gracePeriodSeconds=9", {}, b"null", user)) == DeleteOptions()
