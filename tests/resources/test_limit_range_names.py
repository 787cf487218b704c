"""The name of a LimitRange without a name."""

from __future__ import annotations

from uuid import UUID

from tests.support.server import serve

RANGES = "/api/v1/namespaces/default/limitranges"


def test_a_limit_range_without_a_name_has_a_uuid_of_its_own_that_a_seed_repeats() -> None:
    names = []
    for _ in range(2):
        with serve("--seed=7") as running:
            metadata = running.wire().post(RANGES, {"metadata": {}, "spec": {"limits": []}}).json["metadata"]
        names.append(str(UUID(metadata["name"])))
        assert names[-1] != metadata["uid"]
    assert names[0] == names[1]
