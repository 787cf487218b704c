"""Each field of claims and pods, with values of all types, gets the same answer as from a real kube-apiserver.

Runs where kube-apiserver and etcd of 1.36 are on PATH; `python -m tools.fuzz.beside` compares every field of every
kind.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.fuzz.beside import BINARIES, compare, start_both
from tools.fuzz.fields import cases

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
