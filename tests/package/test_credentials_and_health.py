"""`kubedra credentials` makes what a server beyond loopback needs, once; `kubedra health` asks whether one is ready."""

import ipaddress
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from apiserver.command import credentials as credentials_command
from kubedra.kubeconfig.reader import read_kubeconfig
from kubedra.runtime import process
from tests.support.patience import run_command
from tests.support.wire import Child

pytestmark = pytest.mark.integration

SECRET = ("tls.key", "tokens.csv", "kubeconfig", "controllers.kubeconfig", "postgres-password", "pgpass")


def kubedra(*args: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "kubedra", *args], env=process.environment(), text=True)


def credentials(directory: Path, *flags: str) -> None:
    done = kubedra("credentials", f"--dir={directory}", *flags)
    assert done.returncode == 0, done.stderr


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_it_makes_everything_once_and_secrets_are_their_owners(tmp_path: Path) -> None:
    flags = ("--host=api.example", "--postgres-user=kubedra")
    credentials(tmp_path / "c", *flags)
    first = contents(tmp_path / "c")
    assert set(first) == {"tls.crt", *SECRET}
    assert all(stat.S_IMODE((tmp_path / "c" / name).stat().st_mode) == 0o600 for name in SECRET)
    assert first["pgpass"] == b"*:*:*:kubedra:" + first["postgres-password"] + b"\n"
    credentials(tmp_path / "c", *flags)
    assert contents(tmp_path / "c") == first


def test_a_part_of_it_is_copied_for_who_needs_no_more(tmp_path: Path) -> None:
    share = f"--share=tls.crt,tokens.csv={tmp_path / 'part'}"
    credentials(tmp_path / "c", share)
    made = contents(tmp_path / "c")
    assert contents(tmp_path / "part") == {name: made[name] for name in ("tls.crt", "tokens.csv")}
    assert stat.S_IMODE((tmp_path / "part" / "tokens.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "part").stat().st_mode) == 0o700
    credentials(tmp_path / "c", share, "--host=api.example")
    assert (tmp_path / "part" / "tls.crt").read_bytes() == contents(tmp_path / "c")["tls.crt"] != made["tls.crt"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls.crt", "write it like"),
        ("=DIR", "write it like"),
        ("nothing=DIR", "nothing not found in"),
        ("../x=DIR", "../x not found in"),
    ],
)
def test_what_cannot_be_copied_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert credentials_command.main([f"--dir={tmp_path}", f"--share={text}"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_new_host_renews_the_certificate_and_leaves_the_tokens(tmp_path: Path) -> None:
    credentials(tmp_path)
    first = contents(tmp_path)
    credentials(tmp_path, "--host=api.example", "--host=192.0.2.7")
    second = contents(tmp_path)
    assert second["tokens.csv"] == first["tokens.csv"]
    names = (
        x509.load_pem_x509_certificate(second["tls.crt"])
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert {"localhost", "api.example"} <= set(names.get_values_for_type(x509.DNSName))
    assert ipaddress.ip_address("192.0.2.7") in names.get_values_for_type(x509.IPAddress)


def test_a_server_started_with_them_answers_the_kubeconfigs_and_nobody_else(tmp_path: Path) -> None:
    made = tmp_path / "c"
    credentials(made)
    files = (
        f"--token-auth-file={made}/tokens.csv",
        f"--tls-cert-file={made}/tls.crt",
        f"--tls-private-key-file={made}/tls.key",
    )
    with Child(tmp_path / "data", *files) as server:
        credentials(made, f"--server={server.url}")
        for name in ("kubeconfig", "controllers.kubeconfig"):
            cluster = read_kubeconfig(made / name)
            token, authority = cluster.credentials.token, cluster.authority.decode()
            assert server.wire(token, authority).get("/api/v1/nodes").status == 200
            assert kubedra("health", "--kubeconfig", str(made / name)).stdout == "ok\n"
        assert server.wire("stranger", authority).get("/api/v1/nodes").status == 401


def test_it_goes_on_with_another_command(tmp_path: Path) -> None:
    done = kubedra("credentials", f"--dir={tmp_path}/c", "--", "version")
    assert done.stdout.startswith("kubedra ")
    assert (tmp_path / "c" / "tls.crt").exists()
    failed = kubedra("credentials", f"--dir={tmp_path}/c", "--nope", "--", "version")
    assert (failed.returncode, failed.stdout) == (2, "")


@pytest.mark.parametrize(
    ("prepare", "flags", "said"),
    [
        (None, ("--server=http://x",), "--server http://x: not an https:// address"),
        (
            "tokens.csv",
            (),
            "tokens.csv: no token for kubernetes-admin, kubedra-controllers; remove the file to create new ones",
        ),
        ("kubeconfig", (), "kubedra did not write this file and will not overwrite it"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, prepare: str | None, flags: tuple[str, ...], said: str) -> None:
    if prepare:
        (tmp_path / prepare).write_text("a,b,c\n")
    done = kubedra("credentials", f"--dir={tmp_path}", *flags)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_does_not_answer_is_not_well_and_said_so_in_one_line() -> None:
    done = kubedra("health", "http://127.0.0.1:1/readyz")
    assert (done.returncode, done.stdout) == (1, "http://127.0.0.1:1/readyz: [Errno 111] Connection refused\n")
