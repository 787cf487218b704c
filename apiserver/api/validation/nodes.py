"""The nodes of a structural schema: each with a test whether a value matches, and with the errors if it does not.

Facts: k8s.io/kube-openapi (pkg/validation/validate).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json
from apiserver.api.validation.findings import Result, general, many, missing, plain
from apiserver.api.validation.leaves import leaf_of

__all__ = ["ABSENT", "Node", "node_of", "same"]


class _Absent:
    def __repr__(self) -> str:
        return "<absent>"


#: There is no corresponding stored value.
ABSENT: Final = _Absent()
Judge = Callable[[Any, str, Any, Path], Result]


def same(schema: Json | None, value: Any, old: Any) -> bool:
    """Return whether JSON values are deeply equal. 1 is not true; lists by keys are compared by keys in any order."""
    if type(value) is not type(old):
        return False
    if isinstance(value, dict):
        return value.keys() == old.keys() and all(
            same(_part(schema, name), item, old[name]) for name, item in value.items()
        )
    if isinstance(value, list):
        if len(value) != len(old):
            return False
        items = (schema or {}).get("items")
        if (schema or {}).get("x-kubernetes-list-type") == "map":
            stored = Node.correlated(schema or {}, old)
            return all(same(items, item, stored(item)) for item in value)
        return all(same(items, a, b) for a, b in zip(value, old, strict=True))
    return bool(value == old)


def _part(schema: Json | None, name: str) -> Json | None:
    if schema is None:
        return None
    found = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else None


class Node:
    """One compiled schema.

    `fits` is the complete test. `judge` returns the errors, at a path from the root of the value, with the stored
    value.
    """

    __slots__ = ("_all", "_any", "_items", "_leaf", "_more", "_not", "_one", "_properties", "_schema", "fits")

    def __init__(self, schema: Json, young: bool) -> None:
        self._schema, self._leaf = schema, leaf_of(schema, young=young)
        self._properties = {name: Node(part, young) for name, part in (schema.get("properties") or {}).items()}
        more = schema.get("additionalProperties")
        self._more = Node(more, young) if isinstance(more, dict) else more
        self._items = Node(schema["items"], young) if isinstance(schema.get("items"), dict) else None
        self._all = [Node(part, young) for part in schema.get("allOf") or ()]
        self._any = [Node(part, young) for part in schema.get("anyOf") or ()]
        self._one = [Node(part, young) for part in schema.get("oneOf") or ()]
        self._not = Node(schema["not"], young) if schema.get("not") is not None else None
        self.fits = self._test()

    # --- the quick test

    def _test(self) -> Callable[[Any], bool]:
        leaf, mixed = self._leaf.fits, self._mixed_test()
        objects, lists = self._object_test(), self._list_test()

        def fits(value: Any) -> bool:
            if not leaf(value):
                return False
            if value is None:
                return True
            if type(value) is dict and objects is not None and not objects(value):
                return False
            if type(value) is list and lists is not None and not lists(value):
                return False
            return mixed is None or mixed(value)

        return fits

    def _object_test(self) -> Callable[[Json], bool] | None:
        properties = {name: node.fits for name, node in self._properties.items()}
        needed = frozenset(self._schema.get("required") or ())
        more = self._more.fits if isinstance(self._more, Node) else None
        closed = self._more is False
        if not (properties or needed or more or closed):
            return None
        find = properties.get

        def test(value: Json) -> bool:
            if not needed <= value.keys():
                return False
            for name, item in value.items():
                fits = find(name)
                if fits is None:
                    if closed or (more is not None and not more(item)):
                        return False
                elif not fits(item):
                    return False
            return True

        return test

    def _list_test(self) -> Callable[[list[Any]], bool] | None:
        if self._items is None:
            return None
        fits = self._items.fits
        return lambda value: all(map(fits, value))

    def _mixed_test(self) -> Callable[[Any], bool] | None:
        if not (self._all or self._any or self._one or self._not):
            return None
        every, some, one = self._all, self._any, self._one
        negated = self._not

        def test(value: Any) -> bool:
            return (
                all(node.fits(value) for node in every)
                and (not some or any(node.fits(value) for node in some))
                and (not one or sum(node.fits(value) for node in one) == 1)
                and (negated is None or not negated.fits(value))
            )

        return test

    # --- errors

    def judge(self, value: Any, at: str, old: Any, base: Path) -> Result:
        """Return the errors of a value; `old` is the stored one."""
        result = Result()
        result.merge(self._leaf.type(value, at, base))
        if value is None:
            result.merge(self._leaf.listed(value, at, base))
            return result
        result.matches += self._leaf.typed
        steps: list[Judge] = [self._mixed]
        if isinstance(value, str):
            steps += [self._leaf.text, *([self._leaf.format] if self._leaf.has_format else [])]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            steps.append(self._leaf.number)
        elif isinstance(value, list):
            steps.append(self._list)
        steps.append(lambda value, at, old, base: self._leaf.listed(value, at, base))
        if isinstance(value, dict):
            steps.append(self._object)
        for step in steps:
            result.merge(step(value, at, old, base))
            result.matches += 1
        result.matches += 1
        return result

    def _child(self, schema: Json, value: Any, at: str, old: Any, base: Path) -> Result:
        """Return the errors of a part of a value. An unchanged part has none."""
        result = self.judge(value, at, old, base)
        if result.findings and old is not ABSENT and same(schema, value, old):
            return Result(matches=result.matches)
        return result

    def _object(self, value: Json, at: str, old: Any, base: Path) -> Result:
        result = self._leaf.size(value, at, base)
        if self._more is False:
            for name in value:
                if name not in self._properties:
                    result.add(plain(base, at, name, f"{at}.{name} in body is a forbidden property"))
        elif isinstance(self._more, Node):
            for name, item in value.items():
                if name not in self._properties:
                    before = _stored(old, name, at)
                    result.merge(self._more._child(self._more._schema, item, f"{at}.{name}", before, base))
        for name, node in self._properties.items():
            if name in value:
                way = f"{at}.{name}" if at else name
                result.merge(node._child(node._schema, value[name], way, _stored(old, name, at), base))
        for name in self._schema.get("required") or ():
            if name not in value:
                result.add(missing(base, f"{at}.{name}"))
        return result

    def _list(self, value: list[Any], at: str, old: Any, base: Path) -> Result:
        result = Result()
        if self._items is not None:
            stored, schema = Node.correlated(self._schema, old), self._items._schema
            for index, item in enumerate(value):
                result.merge(self._items._child(schema, item, f"{at}[{index}]", stored(item), base))
        least, most = self._schema.get("minItems"), self._schema.get("maxItems")
        if least is not None and len(value) < least:
            result.add(plain(base, at, len(value), f"{at} in body should have at least {least} items"))
        if most is not None and len(value) > most:
            result.add(many(base, at, len(value), most, "items"))
        if self._schema.get("uniqueItems") and _repeats(value):
            result.add(plain(base, at, None, f"{at} in body shouldn't contain duplicates"))
        result.matches += 1
        return result

    @staticmethod
    def correlated(schema: Json, old: Any) -> Callable[[Any], Any]:
        """Return a function that finds the stored counterpart of a list item, by keys if the list has keys."""
        if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
            return lambda item: ABSENT
        keys = schema.get("x-kubernetes-list-map-keys") or []

        def key(item: Any) -> Any:
            return [item.get(name) for name in keys] if isinstance(item, dict) else None

        def find(item: Any) -> Any:
            wanted = key(item)
            return next((each for each in old if wanted is not None and same(None, key(each), wanted)), ABSENT)

        return find

    # --- combinations

    def _mixed(self, value: Any, at: str, old: Any, base: Path) -> Result:
        result = Result()
        if self._any:
            self._some_of(result, [node.judge(value, at, old, base) for node in self._any], at, base)
        if self._one:
            self._one_of(result, [node.judge(value, at, old, base) for node in self._one], at, base)
        if self._all:
            found = [node.judge(value, at, old, base) for node in self._all]
            for each in found:
                result.merge(each)
            good = sum(not each.findings for each in found)
            if good != len(found):
                none = "" if good else ". None validated"
                result.add(general(base, f'"{at}" must validate all the schemas (allOf){none}'))
        if self._not is not None and not self._not.judge(value, at, old, base).findings:
            result.add(general(base, f'"{at}" must not validate the schema (not)'))
        result.matches += 1
        return result

    def _some_of(self, result: Result, found: list[Result], at: str, base: Path) -> None:
        first = next((each for each in found if not each.findings), None)
        if first is None:
            result.add(general(base, f'"{at}" must validate at least one schema (anyOf)'))
        result.merge(first or _closest(found))

    def _one_of(self, result: Result, found: list[Result], at: str, base: Path) -> None:
        good = [each for each in found if not each.findings]
        if len(good) == 1:
            result.merge(good[0])
            return
        how = f"Found {len(good)} valid alternatives" if good else "Found none valid"
        result.add(general(base, f'"{at}" must validate one and only one schema (oneOf). {how}'))
        if not good:
            result.merge(_closest(found))


def _closest(found: list[Result]) -> Result:
    """Return the result with the most matches; the first of several."""
    return max(found, key=lambda each: each.matches)


def _stored(old: Any, name: str, at: str) -> Any:
    """Return the stored value of a field. Kind and apiVersion of the root object never count as unchanged."""
    if not isinstance(old, dict) or name not in old or (not at and name in ("kind", "apiVersion")):
        return ABSENT
    return old[name]


def _repeats(items: list[Any]) -> bool:
    return any(same(None, item, other) for index, item in enumerate(items) for other in items[:index])


def node_of(schema: Json, *, young: bool = True) -> Node:
    """Return the compiled schema. `young` enables the formats of 1.34."""
    return Node(schema, young)
