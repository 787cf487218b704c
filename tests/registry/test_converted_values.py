"""Types accept values of objects that were computed (strategic merge, apply) and convert some of them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Hub
from apiserver.api.schema.language import (
    ANY,
    BOOL,
    BYTES,
    DURATION,
    FLOAT64,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    Scalar,
)
from apiserver.registry.body.convert import encode_stored
from apiserver.registry.body.unstructured import find_type_mismatch, restore

_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NO_STRING = "json: cannot unmarshal {} into Go value of type string"
_VALUES: dict[str, Any] = {
    "string": "x", "bool": True, "int": 3, "float": 1.5, "whole": 2.0, "huge": 2**63, "least": -(2**63) - 1, "list": [1],
    "map": {"a": 1}, "time": "2026-01-02T03:04:05Z", "micro": "2026-01-02T03:04:05.000001Z", "base64": "YQ==",
}  # fmt: skip
#: What does not fit a type, and why; everything else among the values does.
_MISFITS: dict[Scalar, dict[str, str]] = {
    STRING: {"int": "cannot convert int64 to string"}
    | dict.fromkeys(("bool", "float", "whole", "huge", "least", "list", "map"), "unrecognized type: string"),
    BOOL: dict.fromkeys(_VALUES.keys() - {"bool"}, "unrecognized type: bool"),
    INT32: {"float": "cannot convert float64 to int32"}
    | dict.fromkeys(("string", "bool", "list", "map", "time", "micro", "base64"), "unrecognized type: int32"),
    INT64: {"float": "cannot convert float64 to int64"}
    | dict.fromkeys(("string", "bool", "list", "map", "time", "micro", "base64"), "unrecognized type: int64"),
    FLOAT64: dict.fromkeys(("string", "bool", "list", "map", "time", "micro", "base64"), "unrecognized type: float64"),
    BYTES: {
        "string": "error decoding from json: illegal base64 data at input byte 0",
        "time": "error decoding from json: illegal base64 data at input byte 4",
        "micro": "error decoding from json: illegal base64 data at input byte 4",
        "bool": "cannot restore slice from bool",
        "int": "cannot restore slice from int64",
        "list": "cannot restore slice from slice",
        "map": "cannot restore slice from map",
    }
    | dict.fromkeys(("float", "whole", "huge", "least"), "cannot restore slice from float64"),
    ANY: {},
    QUANTITY: dict.fromkeys(("string", "bool", "list", "map", "time", "micro", "base64"), _QUANTITY),
    DURATION: {
        "bool": _NO_STRING.format("bool"), "list": _NO_STRING.format("array"), "map": _NO_STRING.format("object"),
    } | dict.fromkeys(("int", "float", "whole", "huge", "least"), _NO_STRING.format("number")),
    INT_OR_STRING: {
        "bool": "json: cannot unmarshal bool into Go value of type int32",
        "float": "json: cannot unmarshal number 1.5 into Go value of type int32",
        "whole": "json: cannot unmarshal number 2 into Go value of type int32",
        "list": "json: cannot unmarshal array into Go value of type int32",
        "map": "json: cannot unmarshal object into Go value of type int32",
    },
}  # fmt: skip
for _type, _form in ((TIME, "2006-01-02T15:04:05Z07:00"), (MICRO_TIME, "2006-01-02T15:04:05.000000Z07:00")):
    _MISFITS[_type] = _MISFITS[DURATION] | {
        "string": f'parsing time "x" as "{_form}": cannot parse "x" as "2006"',
        "base64": f'parsing time "YQ==" as "{_form}": cannot parse "YQ==" as "2006"',
    }
_MISFITS[MICRO_TIME]["time"] = (
    'parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
)


@pytest.mark.parametrize("type_", _MISFITS, ids=lambda type_: type_.name)
def test_each_type_takes_what_fits_and_says_what_does_not(type_: Scalar) -> None:
    found = {name: words for name, value in _VALUES.items() if (words := find_type_mismatch(type_, value))}
    assert found == _MISFITS[type_]
    assert find_type_mismatch(type_, None) is None


@pytest.mark.parametrize(
    ("type_", "given", "read"),
    [
        (INT32, 2**31, -(2**31)), (INT32, 2**31 - 1, 2**31 - 1), (INT32, -(2**31) - 1, 2**31 - 1), (INT32, 7.0, 7),
        (INT64, 2**63 - 1, 2**63 - 1), (INT64, 2**63, -(2**63)), (INT64, -(2**63), -(2**63)), (INT64, 1e30, -(2**63)),
        (ANY, 2.0, 2), (ANY, 1.5, 1.5), (ANY, 2**63, 2.0**63), (ANY, -(2.0**63), -(2**63)),
        (QUANTITY, 2**70, 2**70), (QUANTITY, " 5 ", " 5 "),
    ],
)  # fmt: skip
def test_numbers_are_whole_where_they_can_be_and_wrap_where_they_are_too_large(
    type_: Scalar, given: Any, read: Any
) -> None:
    made = restore(type_, given, [])
    assert (made, type(made)) == (read, type(read))


def test_metadata_is_stored_first_and_in_one_order_without_a_resource_version() -> None:
    metadata = {"managedFields": [], "resourceVersion": "7", "labels": {"a": "b"}, "uid": "u", "name": "n"}
    stored = encode_stored(Hub({"kind": "K", "spec": {"x": 1}, "metadata": metadata}))
    assert stored == b'{"metadata":{"name":"n","uid":"u","labels":{"a":"b"},"managedFields":[]},"spec":{"x":1}}'
