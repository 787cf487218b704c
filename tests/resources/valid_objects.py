"""Strategies of valid objects of resource.k8s.io in hub form, with and without each optional part."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from apiserver.api.objects import Json

_NAMES = st.sampled_from(["a", "b-1", "gpu", "x" * 63])
_DRIVERS = st.sampled_from(["d.example.com", "gpu.example.com"])
_QUANTITIES = st.sampled_from(["1", "1500m", "2Gi", "1e3", "0"])
_SELECTORS = st.lists(st.just({"cel": {"expression": 'device.driver == "d"'}}), min_size=1, max_size=2)
_PARAMETERS = st.dictionaries(
    st.text(max_size=3), st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3), st.none()), max_size=3
)
_CONFIG = st.fixed_dictionaries({"opaque": st.fixed_dictionaries({"driver": _DRIVERS, "parameters": _PARAMETERS})})
_TOLERATIONS = st.lists(
    st.one_of(
        st.just({"operator": "Exists"}),
        st.fixed_dictionaries(
            {"key": _NAMES, "operator": st.just("Equal"), "value": _NAMES}, optional={"effect": st.just("NoExecute")}
        ),
    ),
    min_size=1,
    max_size=2,
)


def _some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(required, optional=optional)


_MODES = st.one_of(
    st.fixed_dictionaries({"allocationMode": st.just("ExactCount"), "count": st.integers(1, 32)}),
    st.just({"allocationMode": "All"}),
)
_CAPACITY = st.fixed_dictionaries(
    {"requests": st.dictionaries(st.sampled_from(["m", "d.example.com/m"]), _QUANTITIES, min_size=1)}
)
_WAY = _some({"deviceClassName": _NAMES}, {"selectors": _SELECTORS, "tolerations": _TOLERATIONS, "capacity": _CAPACITY})


def _merged(*parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


_EXACTLY = _merged(_WAY, _MODES, _some({}, {"adminAccess": st.booleans()}))
_ALTERNATIVES = st.lists(
    _merged(_WAY, _MODES, st.fixed_dictionaries({"name": _NAMES})),
    min_size=1,
    max_size=3,
    unique_by=lambda sub: sub["name"],
)
_REQUEST = _merged(
    st.fixed_dictionaries({"name": _NAMES}),
    st.one_of(_EXACTLY.map(lambda way: {"exactly": way}), _ALTERNATIVES.map(lambda ways: {"firstAvailable": ways})),
)
_CONSTRAINT = st.one_of(
    st.just({"matchAttribute": "d.example.com/a"}), st.just({"distinctAttribute": "d.example.com/a"})
)  # fmt: skip
CLAIM_SPECS = st.fixed_dictionaries(
    {
        "devices": _some(
            {"requests": st.lists(_REQUEST, min_size=1, max_size=3, unique_by=lambda request: request["name"])},
            {
                "constraints": st.lists(_CONSTRAINT, min_size=1, max_size=2),
                "config": st.lists(_CONFIG, min_size=1, max_size=2),
            },
        )
    }
)
CLASS_SPECS = _some(
    {},
    {
        "selectors": _SELECTORS,
        "config": st.lists(_CONFIG, min_size=1, max_size=2),
        "extendedResourceName": st.just("example.com/gpu"),
    },
)

_ATTRIBUTE = st.one_of(
    st.fixed_dictionaries({"string": _NAMES}),
    st.fixed_dictionaries({"bool": st.booleans()}),
    st.fixed_dictionaries({"version": st.just("1.2.3-a.1")}),
    st.fixed_dictionaries({"int": st.integers(-(2**63), 2**63 - 1)}),
    st.fixed_dictionaries({"ints": st.lists(st.integers(-9, 9), min_size=1, max_size=3)}),
)
_TAINT = _some(
    {
        "key": _NAMES,
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "None"]),
        "timeAdded": st.just("2026-01-01T00:00:00Z"),
    },
    {"value": _NAMES},
)
_DEVICE = _some(
    {"name": _NAMES},
    {
        "attributes": st.dictionaries(st.sampled_from(["a", "d.example.com/b"]), _ATTRIBUTE, min_size=1),
        "capacity": st.dictionaries(
            st.sampled_from(["m", "d.example.com/n"]), st.fixed_dictionaries({"value": _QUANTITIES}), min_size=1
        ),
        "taints": st.lists(_TAINT, min_size=1, max_size=2),
        "allowMultipleAllocations": st.booleans(),
    },
)
_PLACES: st.SearchStrategy[Json] = st.sampled_from([{"nodeName": "n"}, {"allNodes": True}])
_POOL = st.fixed_dictionaries(
    {"name": _NAMES, "generation": st.integers(0, 2**62), "resourceSliceCount": st.integers(1, 9)}
)
SLICE_SPECS = _merged(
    st.fixed_dictionaries({"driver": _DRIVERS, "pool": _POOL}), _PLACES,
    _some({}, {"devices": st.lists(_DEVICE, min_size=1, max_size=3, unique_by=lambda device: device["name"])}),
)  # fmt: skip

SPECS: dict[str, st.SearchStrategy[Json]] = {
    "resourceclaims": CLAIM_SPECS, "resourceclaimtemplates": CLAIM_SPECS.map(lambda spec: {"spec": spec}),
    "resourceslices": SLICE_SPECS, "deviceclasses": CLASS_SPECS,
}  # fmt: skip
