"""Each field of claims and pods, with values of all types, gets the same answer as from a real kube-apiserver.

Runs where kube-apiserver and etcd of 1.36 are on PATH; `python -m tools.fuzz.beside` compares every field of every
kind.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.fuzz.beside import BINARIES, compare, start_both
from tools.fuzz.fields import FieldCase, cases
from tools.fuzz.pairs import pairs

pytestmark = pytest.mark.integration

KINDS = r"resource.k8s.io/v1/resourceclaims|^/v1/pods$"
FIELDS = r"^spec/devices|^spec/resourceClaims|^spec/tolerations|^spec/containers/0/resources"


@pytest.mark.skipif(any(shutil.which(name) is None for name in BINARIES), reason="no kube-apiserver and etcd on PATH")
def test_fields_of_claims_and_pods_are_answered_as_a_real_server_answers(tmp_path: Path) -> None:
    with start_both(tmp_path) as pair:
        report = compare(pair, cases(KINDS, FIELDS))
    assert [(found.case.field, found.case.value, found.lines) for found in report.differences] == []
    assert {200, 201, 422} <= report.statuses.keys()
    assert report.asked > 500


def test_a_case_sets_one_field_of_a_seed_and_is_asked_dry() -> None:
    found = list(cases(r"resource.k8s.io/v1/deviceclasses", r"^spec/selectors/0/cel/expression$"))
    assert {case.method for case in found} == {"POST", "PUT"}
    assert all("dryRun=All" in case.target for case in found)
    values = [case.body["spec"]["selectors"][0]["cel"]["expression"] for case in found]
    assert values == [case.value for case in found]
    assert len(set(values)) > 5


def test_a_pair_sets_two_fields_of_which_neither_contains_the_other() -> None:
    found = [case for case in pairs(1, 200, lambda case: True, "/v1/pods$|/deployments$") if case.method == "POST"]
    steps = [[tuple(path.split("/")) for path in case.field.split(" ", 2)[2].split(" + ")] for case in found]
    assert all(len(each) == 2 for each in steps)
    assert all(one[: len(two)] != two and two[: len(one)] != one for one, two in steps)
    assert found == [
        case for case in pairs(1, 200, lambda case: True, "/v1/pods$|/deployments$") if case.method == "POST"
    ]
    assert any("template/spec/containers" in case.field for case in found)


def test_most_values_of_pairs_are_accepted_alone() -> None:
    refused: list[object] = []

    def accepts(case: FieldCase) -> bool:
        if case.value == "":
            refused.append(case.value)
        return bool(case.value != "")

    drawn = [value for case in pairs(2, 300, accepts, "/v1/pods$") for value in case.value]
    assert refused
    assert drawn.count("") < len(drawn) * 0.03


@pytest.mark.skipif(any(shutil.which(name) is None for name in BINARIES), reason="no kube-apiserver and etcd on PATH")
def test_pairs_of_fields_are_answered_as_a_real_server_answers(tmp_path: Path) -> None:
    with start_both(tmp_path) as pair:
        cases_ = pairs(1, 300, lambda case: pair[1].asked(case)["status"] < 300, "/v1/pods$|apps/v1/|/v1/podtemplates$")
        report = compare(pair, cases_)
    assert [(found.case.field, found.case.value, found.lines) for found in report.differences] == []
