"""Metadata of every kind: errors with their causes, and the fields that the server sets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.definition import metadata as rules

FINE: Json = {"name": "a", "namespace": "n"}
OWNER: Json = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text for error in errors]


def checked(more: Json, *, namespaced: bool = True, rule: str = "subdomain", kind_rules: bool = True) -> list[str]:
    """Return the errors of valid metadata with these changes."""
    fine = FINE if namespaced else {"name": "a"}
    return texts(rules.validate_metadata(fine | more, namespaced, rule, kind_rules=kind_rules))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"generation": 0}, []),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"namespace": ""}, ["metadata.namespace: Required value"]),
        ({"generateName": "g-"}, []),
        ({"finalizers": ["kubernetes", "orphan", "a.io/b"]}, []),
        ({"finalizers": ["foregroundDeletion"]}, []),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set'
            ],
        ),
        (
            {"finalizers": ["a.io/b", "c"]},
            [
                'metadata.finalizers[1]: Invalid value: "c": name is neither a standard finalizer name nor is it fully qualified'
            ],
        ),
    ],
)
def test_what_is_wrong_with_metadata_is_told(more: Json, said: list[str]) -> None:
    assert checked(more) == said


def test_each_wrong_name_is_told_by_the_rule_for_it() -> None:
    for more, field in (
        ({"name": "A"}, "metadata.name"),
        ({"namespace": "N"}, "metadata.namespace"),
        ({"generateName": "G"}, "metadata.generateName"),
        ({"labels": {"-": "v"}}, "metadata.labels"),
        ({"labels": {"k": "-"}}, "metadata.labels"),
        ({"annotations": {"-": "anything at all"}}, "metadata.annotations"),
        ({"finalizers": ["-/x"]}, "metadata.finalizers"),
    ):
        (wrong,) = checked(more)
        assert wrong.startswith(f"{field}: Invalid value: "), wrong


def test_a_name_of_the_generic_rule_alone_may_have_capitals_and_no_kind_looks_at_its_finalizers() -> None:
    loose: Json = {"name": "A", "finalizers": ["c"]}
    assert checked(loose, rule="path-segment", kind_rules=False) == []
    assert len(checked(loose)) == 2
    assert len(checked({"name": "a/b"}, rule="path-segment")) == 1


def test_a_kind_without_namespaces_has_none() -> None:
    assert checked({}, namespaced=False) == []
    assert checked({"namespace": "n"}, namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_annotations_may_have_capitals_and_are_counted_in_bytes_keys_and_values() -> None:
    limit = 256 * 1024
    assert checked({"annotations": {"K": "v", "Example.COM/x": ""}}) == []
    for value, size in (("x", 1), ("é", 2)):
        many = (limit - 4) // size
        fits = {"a": value * (many - 1), "bc": "x" * (limit - 3 - (many - 1) * size)}
        assert checked({"annotations": fits}) == []
        assert checked({"annotations": fits | {"d": ""}}) == [
            f"metadata.annotations: Too long: may not be more than {limit} bytes"
        ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"apiVersion": "apps/v1"}, []),
        ({"apiVersion": ""}, ['.apiVersion: Invalid value: "": version must not be empty']),
        ({"apiVersion": "apps/"}, ['.apiVersion: Invalid value: "apps/": version must not be empty']),
        ({"apiVersion": "a/b/c"}, ['.apiVersion: Invalid value: "a/b/c": version must not be empty']),
        ({"kind": ""}, ['.kind: Invalid value: "": must not be empty']),
        ({"name": "", "uid": ""}, ['.name: Invalid value: "": must not be empty', '.uid: Invalid value: "": must not be empty']),
        (
            {"kind": "Event"},
            [
                ': Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: /v1, Kind=Event is disallowed from being an owner'
            ],
        ),
        ({"kind": "Event", "apiVersion": "events.k8s.io/v1"}, []),
        ({"controller": True}, []),
    ],
)  # fmt: skip
def test_an_owner_is_named_whole(more: Json, said: list[str]) -> None:
    assert checked({"ownerReferences": [OWNER | more]}) == [f"metadata.ownerReferences{text}" for text in said]


def test_one_owner_alone_is_the_controller() -> None:
    first, second, other = (OWNER | {"name": name, "controller": name != "c"} for name in "abc")
    assert checked({"ownerReferences": [first, other]}) == []
    (said,) = checked({"ownerReferences": [other, first, second]})
    assert said.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_owners_are_the_same_if_every_field_is_and_the_warning_says_when_it_was_seen() -> None:
    other = OWNER | {"uid": "v"}
    for after, words in ((False, "duplicate entries;"), (True, "duplicate entries after mutating admission happens;")):
        metadata: Json = {"ownerReferences": [OWNER, other, dict(OWNER), OWNER | {"controller": True}, dict(other)]}
        warnings: list[str] = []
        rules.deduplicate_owners(metadata, warnings, after)
        assert metadata["ownerReferences"] == [OWNER, other, OWNER | {"controller": True}]
        (warning,) = warnings
        assert words in warning
        assert warning.endswith("duplicate UID(s) observed: u, v")
    for owners in ([], [OWNER], [OWNER, other]):
        metadata, warnings = {"ownerReferences": owners}, []
        rules.deduplicate_owners(metadata, warnings)
        assert (metadata["ownerReferences"], warnings) == (owners, [])


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        ({}, {}, []),
        ({"finalizers": ["a.io/x"]}, {}, []),
        ({"finalizers": ["a.io/x"]}, {"deletionTimestamp": "t", "finalizers": ["a.io/x", "a.io/y"]}, []),
        (
            {"finalizers": ["a.io/z", "a.io/x", "a.io/y"]},
            {"deletionTimestamp": "t", "finalizers": ["a.io/x"]},
            [
                'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.io/y", "a.io/z"}'
            ],
        ),
        ({"generation": 2}, {"generation": 2}, []),
        ({"generation": 1}, {"generation": 2}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({}, {"generation": 1}, ["metadata.generation: Invalid value: 0: must not be decremented"]),
        ({"finalizers": ["c"]}, {}, ["metadata.finalizers[0]: Invalid value: "]),
        ({"labels": {"k": "-"}}, {}, ["metadata.labels: Invalid value: "]),
        ({"managedFields": [{"operation": "x"}]}, {}, ["metadata.managedFields[0].operation: Invalid value: "]),
    ],
)
def test_what_may_not_become_of_metadata_is_told(new: Json, old: Json, said: list[str]) -> None:
    kept = {"deletionTimestamp": old["deletionTimestamp"]} if "deletionTimestamp" in old else {}
    fresh, before = FINE | kept | new, FINE | old
    errors = texts(rules.validate_metadata_update(fresh, before, kind_rules=True))
    assert len(errors) == len(said)
    assert all(error.startswith(text) for error, text in zip(errors, said, strict=True)), errors


def test_the_kind_alone_looks_at_names_of_finalizers_when_an_object_changes() -> None:
    assert rules.validate_metadata_update(FINE | {"finalizers": ["c"]}, FINE, kind_rules=False) == []


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("g-", "g-xyz"),
        ("a" * 58, "a" * 58 + "xyz"),
        ("a" * 59, "a" * 58 + "xyz"),
        ("é" * 30, "é" * 29 + "xyz"),
        ("a" + "é" * 29, "a" + "é" * 28 + "xyz"),
    ],
)
def test_a_generated_name_begins_with_58_bytes_of_what_was_asked_for(base: str, name: str) -> None:
    assert rules.generate_name(base, "xyz") == name


@pytest.mark.parametrize(
    ("given", "agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1/x", "kubectl"),
        ("", "kubectl", "kubectl"),
        ("", "", "unknown"),
        ("", "/v1", "unknown"),
        ("", "\x01\x02", "unknown"),
        ("", "a\tb", "ab"),
        ("", "a" * 128, "a" * 128),
        ("", "a" * 129, "a" * 128),
        ("", "é" * 64, "é" * 64),
        ("", "é" * 65, "é" * 64),
        ("", "a" + "é" * 64, "a" + "é" * 63),
    ],
)
def test_a_manager_is_named_by_the_request_or_by_128_printable_bytes_of_the_user_agent(
    given: str, agent: str, name: str
) -> None:
    assert rules.manager_name(given, agent) == name


@pytest.mark.parametrize(
    ("manager", "said"),
    [
        ("", []),
        ("a" * 128, []),
        ("é" * 64, []),
        ("a" * 129, ["m: Too long: may not be more than 128 bytes"]),
        ("é" * 65, ["m: Too long: may not be more than 128 bytes"]),
        ("é\ta\n", [
            'm: Invalid value: "é\\ta\\n": invalid character U+0009 (at position 2)',
            'm: Invalid value: "é\\ta\\n": invalid character U+000A (at position 4)',
        ]),
    ],
)  # fmt: skip
def test_the_name_of_a_manager_is_128_printable_bytes(manager: str, said: list[str]) -> None:
    assert texts(rules.validate_manager(manager, Path("m"))) == said
    entry = {"operation": "Update", "manager": manager}
    assert len(checked({"managedFields": [entry, entry | {"subresource": "status"}]})) == 2 * len(said)


def test_the_namespace_is_that_of_the_request() -> None:
    for given, namespace, kept in (
        ({"namespace": "n"}, "n", {"namespace": "n"}),
        ({}, "n", {"namespace": "n"}),
        ({"namespace": ""}, "n", {"namespace": "n"}),
        ({"namespace": "n"}, "", {}),
        ({}, "", {}),
    ):
        metadata: Json = dict(given)
        rules.ensure_namespace(metadata, namespace)
        assert metadata == kept
    with pytest.raises(StatusError, match="the namespace of the provided object does not match the namespace sent"):
        rules.ensure_namespace({"namespace": "m"}, "n")


def test_what_the_server_sets_is_taken_from_nobody() -> None:
    metadata: Json = {
        "name": "a", "creationTimestamp": "x", "uid": "x", "deletionTimestamp": "x", "deletionGracePeriodSeconds": 1,
        "selfLink": "x", "generation": 3,
    }  # fmt: skip
    rules.wipe_system_fields(metadata)
    assert metadata == {"name": "a", "generation": 3}
    rules.fill_system_fields(metadata, "u", datetime(2025, 1, 2, 3, 4, 5, 999, tzinfo=UTC))
    assert metadata == {"name": "a", "generation": 3, "uid": "u", "creationTimestamp": "2025-01-02T03:04:05Z"}
