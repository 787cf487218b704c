"""A full disk: reads go on, writes fail immediately, deletions free space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.support.patience import wait_until
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
#: A disk of its own for the process that follows, without being root: a tmpfs in a namespace of its own.
MOUNT = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh")
SIZE = "24m"
#: Characters of an object: some twenty fill the disk.
LARGE = 900_000


def on_a_disk(path: Path, size: str = SIZE) -> tuple[str, ...]:
    """Return a prefix that runs a command with a small disk at a directory."""
    path.mkdir(exist_ok=True)
    return (*NAMESPACE, size, str(path))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Child]:
    """Start a server whose data directory is on a disk of 24 MiB."""
    disk = tmp_path / "disk"
    try:
        subprocess.run([*on_a_disk(disk, "1m"), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no namespaces for mounts here: {error}")
    with Child(disk, "--storage=sqlite", "--durability=normal", before=on_a_disk(disk)) as child:
        yield child


def fill(wire: Wire) -> list[str]:
    """Create objects until the disk is full; return their names."""
    made: list[str] = []
    while True:
        name = f"large-{len(made)}"
        answer = wire.request("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "x" * LARGE}})
        if answer.status == 507:
            return made
        assert answer.status == 201, answer.text
        made.append(name)


def test_reads_go_on_writes_say_so_at_once_and_deleting_makes_room(small: Child) -> None:
    wire = small.wire()
    made = fill(wire)
    assert len(made) > 5

    refused = wire.request("POST", MAPS, {"metadata": {"name": "tiny"}})
    assert (refused.status, refused.json["reason"]) == (507, "InsufficientStorage")
    assert "the disk is full" in refused.json["message"]
    assert "retry-after" not in refused.headers, "nobody is to wait for minutes"
    assert "details" not in refused.json
    assert len(wire.get(MAPS).json["items"]) == len(made)
    assert wire.get(f"{MAPS}/{made[0]}").status == 200
    assert wire.get("/readyz").status == 500
    assert "the disk is full" in wire.get("/readyz/etcd").text
    assert wire.get("/livez/ping").status == 200
    reports = [line for line in small.log().splitlines() if "only deletions are accepted" in line]
    assert len(reports) == 1

    # A deletion is a row as large as the object was; compaction makes room for the next.
    def is_deleted(name: str) -> bool:
        return wire.request("DELETE", f"{MAPS}/{name}").status in (200, 404)

    for name in made[1:]:
        wait_until(partial(is_deleted, name), f"{name} is gone", 120)
    wait_until(lambda: wire.get("/readyz").status == 200, "there is room again", 120)
    assert wire.request("POST", MAPS, {"metadata": {"name": "tiny"}}).status == 201
    assert {item["metadata"]["name"] for item in wire.get(MAPS).json["items"]} >= {made[0], "tiny"}
    assert "the disk has free space again" in small.log()
    assert "Traceback" not in small.log()


def test_a_deletion_in_steps_goes_on(small: Child) -> None:
    """Graceful deletion and finalizers are updates, and yet free room."""
    wire = small.wire()
    body = {"metadata": {"name": "held", "finalizers": ["example.com/f"]}}
    assert wire.request("POST", MAPS, body).status == 201
    fill(wire)
    assert (
        wire.request(
            "PATCH", f"{MAPS}/held", {"data": {"k": "v"}}, {"Content-Type": "application/merge-patch+json"}
        ).status
        == 507
    )
    assert wire.request("DELETE", f"{MAPS}/held").status == 200
    assert "deletionTimestamp" in wire.get(f"{MAPS}/held").json["metadata"]
    patch = {"metadata": {"finalizers": None}}
    assert wire.request("PATCH", f"{MAPS}/held", patch, {"Content-Type": "application/merge-patch+json"}).status == 200
    assert wire.get(f"{MAPS}/held").status == 404


def test_room_that_somebody_makes_is_found(small: Child) -> None:
    wire = small.wire()
    ballast = Path(f"/proc/{small.process.pid}/root{small.directory}/ballast")
    ballast.write_bytes(bytes(14 << 20))
    fill(wire)
    ballast.unlink()
    wait_until(lambda: wire.get("/readyz").status == 200, "there is room again")
    assert wire.request("POST", MAPS, {"metadata": {"name": "tiny"}}).status == 201


#: What Postgres itself says when it cannot extend a file, as long as the trigger is there.
NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file "base/5/16385": No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER no_room BEFORE INSERT ON log EXECUTE FUNCTION no_room()"""


def test_where_postgres_has_no_room_writes_say_so_at_once_and_go_on_when_it_has(
    tmp_path: Path, postgres_schema_url: str
) -> None:
    with (
        Child(tmp_path, f"--storage={postgres_schema_url}") as server,
        psycopg.connect(postgres_schema_url, autocommit=True) as operator,
    ):
        wire = server.wire()
        assert wire.request("POST", MAPS, {"metadata": {"name": "before"}}).status == 201
        operator.execute(NO_ROOM)

        refused = wire.request("POST", MAPS, {"metadata": {"name": "tiny"}})
        assert (refused.status, refused.json["reason"]) == (507, "InsufficientStorage")
        assert "No space left on device" in refused.json["message"]
        assert wire.get(f"{MAPS}/before").status == 200

        operator.execute("DROP TRIGGER no_room ON log")
        assert wire.request("POST", MAPS, {"metadata": {"name": "tiny"}}).status == 201
        assert wire.request("DELETE", f"{MAPS}/before").status == 200
        assert "Traceback" not in server.log()
