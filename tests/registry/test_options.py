"""Options of requests: queries and DeleteOptions bodies, and the errors in upstream's words."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.numbers import parse_int64, parse_uint64
from apiserver.registry.definition import options as read
from apiserver.request.messages import Request, User

Params = dict[str, list[str]]


def params(query: str) -> Params:
    return parse_qs(query, keep_blank_values=True)


def request(query: str) -> Request:
    return Request("", "/", query, {}, b"", User("u"))


def causes(error: StatusError) -> list[str]:
    details = error.details or {}
    return [f"{cause['field']}: {cause['message']}" for cause in details.get("causes", [])]


@pytest.mark.parametrize(
    ("text", "signed", "unsigned"),
    [
        ("0", 0, 0),
        ("007", 7, 7),
        ("+5", 5, "invalid syntax"),
        ("-5", -5, "invalid syntax"),
        ("", "invalid syntax", "invalid syntax"),
        ("-", "invalid syntax", "invalid syntax"),
        ("--5", "invalid syntax", "invalid syntax"),
        ("1_0", "invalid syntax", "invalid syntax"),
        ("٣", "invalid syntax", "invalid syntax"),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("9223372036854775808", "value out of range", 2**63),
        ("-9223372036854775808", -(2**63), "invalid syntax"),
        ("-9223372036854775809", "value out of range", "invalid syntax"),
        ("18446744073709551615", "value out of range", 2**64 - 1),
        ("18446744073709551616", "value out of range", "value out of range"),
        (f"{7:06000}", 7, 7),
        ("9" * 6000, "value out of range", "value out of range"),
    ],
)
def test_numbers_are_those_that_go_parses(text: str, signed: int | str, unsigned: int | str) -> None:
    for parse, go, wanted in ((parse_int64, "ParseInt", signed), (parse_uint64, "ParseUint", unsigned)):
        if isinstance(wanted, int):
            assert parse(text) == wanted
        else:
            with pytest.raises(ValueError) as refused:
                parse(text)
            assert str(refused.value) == f'strconv.{go}: parsing "{text}": {wanted}'


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("1", True), ("yes", True), ("", True), ("no", True), ("0", False), ("false", False), ("FALSE", False)],
)  # fmt: skip
def test_a_flag_is_set_by_any_value_but_0_and_false(text: str, value: bool) -> None:
    assert read.list_options({"sendInitialEvents": [text], "resourceVersionMatch": ["NotOlderThan"]}, watch=True) == (
        read.ListOptions(watch=True, send_initial_events=value, resource_version_match="NotOlderThan")
    )
    assert read.list_options({"watch": [text], "resourceVersion": ["1"]}).watch is value
    assert read.delete_options({"orphanDependents": [text]}).orphan is value


def test_a_get_takes_a_version_and_no_export() -> None:
    assert read.get_options() == read.get_options({}) == read.GetOptions("")
    assert read.get_options(params("resourceVersion=5&resourceVersion=6&x=y&export=false")) == read.GetOptions("5")
    with pytest.raises(StatusError, match="the export parameter, deprecated since v1"):
        read.get_options(params("export=true"))


def test_a_list_says_what_it_wants() -> None:
    assert read.list_options() == read.list_options({}, watch=False) == read.ListOptions()
    said = read.list_options(
        params(
            "labelSelector=a%3Db&fieldSelector=metadata.name%3Dc&resourceVersion=5&limit=7&timeoutSeconds=9&continue=t&shardSelector=s"
        )
    )
    assert said.labels is not None
    assert said.fields is not None
    assert (said.resource_version, said.limit, said.timeout, said.continue_token, said.shards) == ("5", 7, 9, "t", "s")
    assert (said.watch, said.allow_bookmarks, said.send_initial_events, said.resource_version_match) == (
        False, False, None, "",
    )  # fmt: skip
    nothing = read.list_options(params("labelSelector=&fieldSelector="))
    assert (nothing.labels, nothing.fields, nothing.limit, nothing.timeout) == (None, None, 0, None)
    assert read.list_options(params("allowWatchBookmarks=1&resourceVersion=1"), watch=True).allow_bookmarks


@pytest.mark.parametrize(
    ("query", "initial"),
    [
        ("x=y", True),
        ("resourceVersion=0", True),
        ("resourceVersion=1", None),
        ("resourceVersionMatch=NotOlderThan&sendInitialEvents=false", False),
    ],
)
def test_a_watch_from_no_version_begins_with_what_there_is_where_the_gate_is_on(
    query: str, initial: bool | None
) -> None:
    said = read.list_options(params(query), watch=True)
    assert (said.send_initial_events, said.resource_version_match) == (
        initial, "" if initial is None else "NotOlderThan"
    )  # fmt: skip
    assert read.list_options({}, watch=True).send_initial_events is True
    assert read.list_options({}, watch=True, watch_list=False).send_initial_events is None


_FORBIDDEN_MATCH = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden "


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("resourceVersionMatch=Exact&resourceVersion=5", []),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0", []),
        ("resourceVersionMatch=Exact", [_FORBIDDEN_MATCH + "unless resourceVersion is provided"]),
        ("resourceVersionMatch=Exact&resourceVersion=5&continue=t", [_FORBIDDEN_MATCH + "when continue is provided"]),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            ['resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'],
        ),
        (
            "resourceVersionMatch=x&resourceVersion=5",
            ['resourceVersionMatch: Unsupported value: "x": supported values: "Exact", "NotOlderThan", ""'],
        ),
        ("sendInitialEvents=false", ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"]),
    ],
)
def test_what_a_list_may_not_say(query: str, said: list[str]) -> None:
    if not said:
        assert read.list_options(params(query)).resource_version_match
        return
    with pytest.raises(StatusError) as refused:
        read.list_options(params(query))
    assert (refused.value.code, causes(refused.value)) == (422, said)
    assert refused.value.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')


_NEEDS_MATCH = (
    "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
)


@pytest.mark.parametrize(
    ("query", "gate", "said"),
    [
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", True, []),
        ("resourceVersion=5", False, []),
        ("sendInitialEvents=true", True, [_NEEDS_MATCH]),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            True,
            [_NEEDS_MATCH, 'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"'],
        ),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            False,
            [
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            ],
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=5",
            True,
            [_FORBIDDEN_MATCH + "for watch unless sendInitialEvents is provided"],
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=t",
            True,
            [_FORBIDDEN_MATCH + "when continue is provided"],
        ),
    ],
)
def test_what_a_watch_may_not_say(query: str, gate: bool, said: list[str]) -> None:
    if not said:
        assert read.list_options(params(query), watch=True, watch_list=gate).watch
        return
    with pytest.raises(StatusError) as refused:
        read.list_options(params(query), watch=True, watch_list=gate)
    assert (refused.value.code, causes(refused.value)) == (422, said)


@pytest.mark.parametrize("query", ["limit=x", "timeoutSeconds=x", "labelSelector=a%3Db%3Dc", "fieldSelector=a"])
def test_a_value_that_does_not_parse_is_a_bad_request(query: str) -> None:
    with pytest.raises(StatusError) as refused:
        read.list_options(params(query))
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ("", read.WriteOptions(), []),
        ("pretty=1", read.WriteOptions(), []),
        ("dryRun=All&fieldManager=m&fieldValidation=Warn", read.WriteOptions(True, "m", "Warn"), []),
        ("fieldValidation=Strict", read.WriteOptions(field_validation="Strict"), []),
        ("fieldValidation=Ignore", read.WriteOptions(field_validation="Ignore"), []),
        ("dryRun=All&dryRun=x", None, ['dryRun: Unsupported value: ["All","x"]: supported values: "All"']),
        (
            "fieldValidation=x&dryRun=",
            None,
            [
                'dryRun: Unsupported value: [""]: supported values: "All"',
                'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"',
            ],
        ),
        (f"fieldManager={'m' * 129}", None, ["fieldManager: Too long: may not be more than 128 bytes"]),
    ],
)
def test_what_a_write_may_say(query: str, options: read.WriteOptions | None, said: list[str]) -> None:
    readers: dict[str, Callable[[], read.WriteOptions]] = {
        "CreateOptions": lambda: read.write_options(request(query), "CreateOptions"),
        "PatchOptions": lambda: read.patch_options(request(query), apply=False),
    }
    for kind, parse in readers.items():
        if options is not None:
            assert parse() == options
            continue
        with pytest.raises(StatusError) as refused:
            parse()
        assert (refused.value.code, causes(refused.value)) == (422, said)
        assert refused.value.message.startswith(f'{kind}.meta.k8s.io "" is invalid: ')


def test_an_apply_names_its_manager_and_it_alone_may_force() -> None:
    assert read.patch_options(request("fieldManager=m"), apply=True) == read.WriteOptions(field_manager="m")
    assert read.patch_options(request("fieldManager=m&force=true"), apply=True).force is True
    assert read.patch_options(request("fieldManager=m&force=false"), apply=True).force is False
    for query, apply, said in (
        ("", True, "fieldManager: Required value: is required for apply patch"),
        ("force=true", True, "fieldManager: Required value: is required for apply patch"),
        ("force=false", False, "force: Forbidden: may not be specified for non-apply patch"),
    ):
        with pytest.raises(StatusError) as refused:
            read.patch_options(request(query), apply=apply)
        assert causes(refused.value) == [said]


@pytest.mark.parametrize(
    ("query", "body", "options"),
    [
        ("", {}, {}),
        ("x=y", {"x": "y"}, {}),
        ("gracePeriodSeconds=5", {"gracePeriodSeconds": 5}, {"grace_period": 5}),
        ("gracePeriodSeconds=0", {"gracePeriodSeconds": 0}, {"grace_period": 0}),
        ("uid=u", {"preconditions": {"uid": "u"}}, {"preconditions": read.Preconditions("u")}),
        (
            "resourceVersion=5",
            {"preconditions": {"resourceVersion": "5"}},
            {"preconditions": read.Preconditions(None, "5")},
        ),
        ("uid=", {}, {}),
        ("propagationPolicy=Orphan", {"propagationPolicy": "Orphan"}, {"propagation": "Orphan"}),
        ("propagationPolicy=Background", {"propagationPolicy": "Background"}, {"propagation": "Background"}),
        ("propagationPolicy=Foreground", {"propagationPolicy": "Foreground"}, {"propagation": "Foreground"}),
        ("orphanDependents=false", {"orphanDependents": False}, {"orphan": False}),
        ("dryRun=All", {"dryRun": ["All"]}, {"dry_run": True}),
        (
            "ignoreStoreReadErrorWithClusterBreakingPotential=true",
            {"ignoreStoreReadErrorWithClusterBreakingPotential": True},
            {"ignore_store_read_error": True},
        ),
    ],
)
def test_a_deletion_says_the_same_in_its_query_and_in_its_body(query: str, body: Json, options: Json) -> None:
    assert read.delete_options(params(query)) == read.delete_options(body=body) == read.DeleteOptions(**options)


def test_an_empty_precondition_in_a_body_is_one() -> None:
    assert read.delete_options(body={"preconditions": {}}).preconditions == read.Preconditions(None, None)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "orphanDependents=true&propagationPolicy=Orphan",
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
        (
            "propagationPolicy=x",
            'propagationPolicy: Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        ("dryRun=x", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
    ],
)
def test_what_a_deletion_may_not_say(query: str, said: str) -> None:
    with pytest.raises(StatusError) as refused:
        read.delete_options(params(query))
    assert (refused.value.code, causes(refused.value)) == (422, [said])
    assert refused.value.message.startswith('DeleteOptions.meta.k8s.io "" is invalid: ')
    with pytest.raises(StatusError) as number:
        read.delete_options(params("gracePeriodSeconds=x"))
    assert number.value.code == 400
