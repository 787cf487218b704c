"""Warnings about files of one volume that hide each other."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.resources.pods.warnings import pod_warnings


def warn(**source: Any) -> list[str]:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **source}]}
    return pod_warnings({"metadata": {}, "spec": spec})


def make_items(*paths: str) -> list[Json]:
    return [{"key": "k", "path": path} for path in paths]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"configMap": {"name": "m", "items": make_items("a", "a/b")}}, 'ConfigMap "m"'),
        ({"secret": {"secretName": "s", "items": make_items("a", "a/b")}}, 'Secret "s"'),
        ({"downwardAPI": {"items": make_items("a", "a/b")}}, "DownwardAPI"),
    ],
)
def test_a_file_must_not_be_the_directory_of_another(source: Json, shown: str) -> None:
    assert warn(**source) == [f'volume "v" ({shown}): overlapping paths: "a/b" with "a"']


@pytest.mark.parametrize("paths", [("a", "b"), ("a", "ab"), ("a/b", "a/c"), ("", "a")])
def test_other_files_are_in_order(paths: tuple[str, str]) -> None:
    assert warn(configMap={"name": "m", "items": make_items(*paths)}) == []


def test_files_of_several_sources_share_the_directory() -> None:
    sources = [
        {"configMap": {"name": "m", "items": make_items("x/")}},
        {"serviceAccountToken": {"path": "x"}},
        {"clusterTrustBundle": {"signerName": "s", "path": "x/y"}},
        {"podCertificate": {"keyPath": "key", "credentialBundlePath": "key"}},
    ]
    prefix = 'volume "v" (Projected): overlapping paths: '
    assert warn(projected={"sources": sources}) == [
        f'{prefix}"x" (ServiceAccountToken) with "x" (ConfigMap "m")',
        f'{prefix}"x/y" (ClusterTrustBundle "s") with "x" (ConfigMap "m")',
        f'{prefix}"x/y" (ClusterTrustBundle "s") with "x" (ServiceAccountToken)',
        f'{prefix}"key" (PodCertificate credential bundle) with "key" (PodCertificate key)',
    ]


def test_a_projected_source_without_content_is_reported() -> None:
    assert warn(projected={"sources": [{}]}) == ['volume "v" (Projected) has no sources provided']
