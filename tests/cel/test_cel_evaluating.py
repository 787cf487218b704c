"""The values, errors and costs of selectors."""

from __future__ import annotations

import pytest

from apiserver import cel
from apiserver.cel import COST_LIMIT, LIMIT_EXCEEDED, CompileError, Device, EvaluationError, Program, device_environment

STORED = device_environment((1, 36), {}, stored=True)
LISTS = device_environment((1, 36), {"DRAListTypeAttributes": True}, stored=True)
DEVICE = Device.from_slice(
    "gpu.example.com",
    {
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 3},
            "healthy": {"bool": True},
            "firmware": {"version": "1.10.0-rc.1"},
            "net.example.com/address": {"string": "10.1.2.3"},
        },
        "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "1500m"}},
    },
)
ATTRIBUTES = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'


def program(expression: str, environment: cel.Environment = STORED) -> Program:
    result = cel.compile(expression, environment)
    assert not isinstance(result, CompileError), result.text
    return result


def failure(expression: str, device: Device = DEVICE, environment: cel.Environment = STORED) -> str:
    with pytest.raises(EvaluationError) as caught:
        program(expression, environment).evaluate(device)
    return caught.value.text


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        "!device.allowMultipleAllocations",
        f'{ATTRIBUTES}.model == "A100" && {ATTRIBUTES}["model"] == "A100"',
        f"{ATTRIBUTES}.index in [1, 3] && {ATTRIBUTES}.index == 3u && {ATTRIBUTES}.index == 3.0",
        f'{ATTRIBUTES}.firmware.isLessThan(semver("1.10.0")) && {ATTRIBUTES}.firmware.isGreaterThan(semver("v1.9", true))',
        f'{CAPACITY}.memory.compareTo(quantity("80Gi")) == 0 && {CAPACITY}.cores.isGreaterThan(quantity("1"))',
        f'{CAPACITY}.cores.add(quantity("500m")) == quantity("2")',
        'device.attributes["net.example.com"].address == "10.1.2.3"',
        'cidr("10.1.0.0/16").containsIP(device.attributes["net.example.com"].address)',
        f"has({ATTRIBUTES}.model) && !has({ATTRIBUTES}.nope)",
        f'{ATTRIBUTES}.?nope.orValue("x") == "x" && {ATTRIBUTES}[?"index"].hasValue()',
        '"gpu.example.com" in device.attributes && !("nope" in device.attributes) && device.attributes["nope"].size() == 0',
        f'{ATTRIBUTES}.exists(name, name == "model") && device.attributes.all(d, a, a.size() > 0)',
        f"cel.bind(a, {ATTRIBUTES}, a.healthy ? a.index > 2 : false)",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 1].distinct() == [1] && lists.range(3).sum() == 3",
        '["b", "a"].sortBy(x, x) == ["a", "b"] && {"a": 1}.transformMap(k, v, v + 1) == {"a": 2}',
        "optional.of(1).optMap(x, x + 1).value() == 2 && optional.none().orValue(3) == 3",
        'timestamp("2024-02-29T00:00:00Z").getMonth() == 1 && duration("90m").getHours() == 1',
        'timestamp("9999-12-31T23:59:59Z").getFullYear("+05:30") == 10000',
        'timestamp("0001-01-01T00:00:00Z").getFullYear("-05:30") == 0',
        'timestamp("0001-01-01T00:00:00Z").getHours("America/New_York") == 19',
        '"%s|%d|%.2f|%x".format([dyn("a"), dyn(7), dyn(1.5), dyn(255)]) == "a|7|1.50|ff"',
        '"a-b".split("-") == ["a", "b"] && "abc".findAll("[ac]") == ["a", "c"] && ["a", "b"].join("/") == "a/b"',
        'url("https://u@example.com:80/p%20q?a=1&a=2").getHostname() == "example.com" && isURL("/x") && !isURL("x")',
        'format.dns1123Label().validate("a_b").hasValue() && !format.uuid().validate("18db0e85-99e9-c746-8531-ffeb86328b39").hasValue()',
        "-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1 && - -1 == 1",
        'string(1e6) == "1e+06" && string(0.1) == "0.1" && string(100.0) == "100" && double("1e3") == 1000.0',
    ],
)  # fmt: skip
def test_selectors_match(expression: str) -> None:
    assert program(expression).evaluate(DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f"{ATTRIBUTES}.nope == 1", "no such key: nope"),
        (f"{ATTRIBUTES}.index / 0 == 1", "division by zero"),
        (f"{ATTRIBUTES}.index % 0 == 1", "modulus by zero"),
        (f"{ATTRIBUTES}.index + 9223372036854775807 == 1", "integer overflow"),
        (f"!{ATTRIBUTES}.index", "no such overload"),
        (f'{ATTRIBUTES}.index.startsWith("a")', "no such overload"),
        (f'{ATTRIBUTES}.index.charAt(1) == ""', "no such overload: charAt(int, int)"),
        (f"{ATTRIBUTES}.healthy - 1 == 0", "no such overload: _-_"),
        ("[1, 2][-1] == 1", "index out of bounds: -1"),
        (
            f"{ATTRIBUTES}.model",
            "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        (f"{CAPACITY}.cores.asInteger() == 1", "cannot convert value to integer"),
        ('quantity("2") == quantity("1").add(quantity("1"))', "no such overload"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        (f"semver({ATTRIBUTES}.model) == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        (f'{ATTRIBUTES}.model.matches({ATTRIBUTES}.model + "(")', "error parsing regexp: missing closing ): `A100(`"),
    ],
)
def test_evaluation_errors_have_the_texts_of_the_real_server(expression: str, text: str) -> None:
    assert failure(expression) == text


def test_logic_absorbs_errors_of_either_side() -> None:
    for expression in (
        f"{ATTRIBUTES}.nope || true",
        f"true || {ATTRIBUTES}.nope",
        f"!({ATTRIBUTES}.nope && false)",
        "[0, 1].exists(x, 1 / x > 0)",
    ):
        assert program(expression).evaluate(DEVICE) is True
    assert failure(f"{ATTRIBUTES}.nope || false") == "no such key: nope"
    assert failure("[0].all(x, 1 / x > 0)") == "division by zero"


def test_an_attribute_without_value_spoils_every_selector_on_its_device() -> None:
    assert failure("true", Device("d", {"a": {}})) == "attribute a: unsupported attribute value"
    message = failure("true", Device("d", {"v": {"version": "x"}}))
    assert message == "attribute v: parse semantic version: No Major.Minor.Patch elements found"


def test_list_attributes_need_their_gate() -> None:
    device = Device("d", {"ports": {"ints": [1, 2]}, "one": {"int": 5}, "v": {"versions": ["1.0.0"]}})
    assert failure("true", device) == "attribute ports: unsupported attribute value"
    for expression in (
        'device.attributes["d"].ports.includes(2)',
        'device.attributes["d"].one.includes(5)',
        'device.attributes["d"].ports.all(p, p > 0)',
        'device.attributes["d"].v.includes(semver("1.0.0"))',
        '2 in device.attributes["d"].ports',
    ):
        assert program(expression, LISTS).evaluate(device) is True
    message = failure('device.attributes["d"].one.exists(x, x > 0)', device, LISTS)
    assert message == "got 'types.Int', expected iterable type"
    result = failure("lists.range(49).includes(99)", device, LISTS)
    assert result == "'includes' function cannot be applied to lists longer than 48 values"


@pytest.mark.parametrize(
    ("expression", "most", "actual"),
    [
        ("true", 0, 0),
        ('device.driver == ""', 2, 2),
        (f'{ATTRIBUTES}.model == "A100"', 5, 5),
        (f"has({ATTRIBUTES}.model)", 3, 3),
        (f"{ATTRIBUTES}.nope || true", 4, 4),
        ("true || false && true", 0, 0),
        ("3 in [1, 2, 3]", 13, 0),
        ("[1, 2, 3].all(x, x > 0)", 26, 16),
        ("cel.bind(x, 1, x == 1)", 12, 2),
        (f'{ATTRIBUTES}.?nope.orValue("x") == "x"', 6, 4),
        ('["a", "b"].join("-") == "a-b"', 1844674407370955275, 2),
        ("[3, 1, 2].sort() == [1, 2, 3]", 50, 30),
        (f"{ATTRIBUTES}.index / 0 == 1 || true", 6, 6),
    ],
)
def test_costs_are_those_of_the_real_server(expression: str, most: int, actual: int) -> None:
    compiled = program(expression)
    assert compiled.max_cost == most
    assert compiled.evaluate_with_cost(DEVICE)[1] == actual


def test_an_evaluation_that_costs_too_much_is_aborted() -> None:
    compiled = program("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))")
    assert compiled.max_cost > COST_LIMIT
    with pytest.raises(EvaluationError, match=LIMIT_EXCEEDED):
        compiled.evaluate(DEVICE)
    with pytest.raises(EvaluationError, match=LIMIT_EXCEEDED):
        program(f'{ATTRIBUTES}.model == "A100"').evaluate_with_cost(DEVICE, limit=4)


def test_results_of_one_evaluation_do_not_leak_into_the_next() -> None:
    compiled = program("[1, 2].map(x, x + 1).size() == 2 && [].size() == 0")
    assert [compiled.evaluate(DEVICE) for _ in range(3)] == [True, True, True]


def test_copied_optional_targets_do_not_grow_exponentially() -> None:
    chain = "optional.of(1)" + ".optMap(x, x + 1)" * 60 + ".hasValue()"
    assert program(chain).max_cost > COST_LIMIT
