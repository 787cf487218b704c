"""Send the same requests to kubedra and to a real kube-apiserver, and compare the answers.

    python -m tools.fuzz.beside [--kinds REGEX] [--fields REGEX] [--gates all]
    python -m tools.fuzz.beside --pairs N [--seed S] [--kinds REGEX] [--gates all]

Each field of each kind gets values of its type (`tools.fuzz.fields`), or N random pairs of fields of one object get
values (`tools.fuzz.pairs`). kube-apiserver and etcd of the emulated release must be on PATH. The exit code is 1 if an
answer differs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tests.conformance.commonform import CommonForm, decode
from tests.conformance.compare import differences
from tests.support.patience import Deadline
from tests.support.ports import free_port
from tests.support.wire import Child
from tools.fuzz.fields import FieldCase, cases
from tools.fuzz.pairs import pairs
from tools.fuzz.requests import Requests

BINARIES: Final = ("kube-apiserver", "etcd")
TOKEN: Final = "beside"
ALL_GATES: Final = ("--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true")
#: Flags of both servers, which have no controllers and no tokens for pods.
FLAGS: Final = (
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=ServiceAccount",
    "--service-cluster-ip-range=10.0.0.0/24",
)
#: Kinds with answers that depend on more than the request, and why.
APART: Final = {
    "selfsubjectrulesreviews": "lists rules in any order",
    "flowschemas": "a controller of the real server writes to them meanwhile",
}  # fmt: skip
#: Random texts of kinds, and why.
RANDOM: Final = {
    "services": (re.compile(r"10\.[01]\.0\.0"), "a dry run gets the first address of a random range"),
}  # fmt: skip
_VERSION: Final = re.compile(rb'(resourceVersion\\+":\\+")\d+')


class Server:
    """A client of a server, with one connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._versions: dict[str, str] = {}

    def ask(self, method: str, target: str, body: Any = None) -> dict[str, Any]:
        """Send a request; return the normalized answer: status, type, warning, body."""
        data = None if body is None else json.dumps(body).encode()
        answer, raw = self.exchange(method, target, data)
        return normalize(answer, raw, CommonForm("\0"))

    def exchange(
        self, method: str, target: str, data: bytes | None, media: str = "", accept: str = ""
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request; return the response and its body."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": media or "application/json"}
        if accept:
            headers["Accept"] = accept
        try:
            self._connection.request(method, target, data, headers)
            answer = self._connection.getresponse()
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            self._connection.request(method, target, data, headers)
            answer = self._connection.getresponse()
        return answer, answer.read()

    def asked(self, case: FieldCase) -> dict[str, Any]:
        """Send a case; return the normalized answer.

        Most kinds require the current resourceVersion for an update.
        """
        body = case.body
        if case.method == "PUT":
            stored = case.target.partition("?")[0].removesuffix("/status")
            if stored not in self._versions:
                metadata = self._read(stored).get("metadata") or {}
                self._versions[stored] = metadata.get("resourceVersion", "")
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": self._versions[stored]}}
        return self.ask(case.method, case.target, body)

    def _read(self, target: str) -> Any:
        self._connection.request("GET", target, headers={"Authorization": f"Bearer {TOKEN}"})
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()


def normalize(answer: http.client.HTTPResponse, raw: bytes, names: CommonForm) -> dict[str, Any]:
    """Normalize an answer for comparison; `names` has the names given to earlier values."""
    text, media = _VERSION.sub(rb"\1N", raw), answer.getheader("Content-Type")
    warnings = sorted(value for name, value in answer.getheaders() if name.lower() == "warning")
    return {"status": answer.status, "type": media, "warnings": warnings, "body": _in_order(names(decode(text, media)))}


def _in_order(body: Any) -> Any:
    """Sort errors that upstream reports in the order of a Go map."""
    if isinstance(body, dict) and body.get("kind") == "Status":
        body["message"] = sorted(re.split(r", |; | \[|\]", body.get("message") or ""))
        causes = (body.get("details") or {}).get("causes")
        if isinstance(causes, list):
            causes.sort(key=lambda cause: json.dumps(cause, sort_keys=True))
    return body


class RealServer:
    """A kube-apiserver with an etcd of its own; ready when entered."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._directory, self._flags, self._port = directory, flags, free_port()
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
            self._start(
                stack, "etcd", f"--data-dir={self._directory}/etcd", "--unsafe-no-fsync",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            )  # fmt: skip
            child = self._start(
                stack, "kube-apiserver", f"--etcd-servers={client}", f"--secure-port={self._port}",
                "--bind-address=127.0.0.1", f"--cert-dir={self._directory}/certs", "--allow-privileged",
                f"--service-account-key-file={_key(self._directory)}", "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={_key(self._directory)}", *self._flags,
            )  # fmt: skip
            self._wait(child)
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def server(self) -> Server:
        return Server(self.connection(f"127.0.0.1:{self._port}"))

    @staticmethod
    def connection(address: str) -> http.client.HTTPSConnection:
        # The server has just signed its own certificate.
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(address, context=context, timeout=60)

    def _start(self, stack: contextlib.ExitStack, name: str, *flags: str) -> subprocess.Popen[bytes]:
        binary = shutil.which(name)
        assert binary is not None, f"{name} is not on PATH"
        log = stack.enter_context((self._directory / f"{name}.log").open("w"))
        child = subprocess.Popen([binary, *flags], stdout=log, stderr=log)
        stack.callback(child.wait)
        stack.callback(child.kill)
        return child

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        deadline = Deadline()
        while not deadline.passed:
            assert child.poll() is None, (self._directory / "kube-apiserver.log").read_text()[-2000:]
            with contextlib.suppress(OSError), contextlib.closing(self.server()) as server:
                if server.ask("GET", "/readyz")["status"] == 200:
                    return
        raise TimeoutError("kube-apiserver is not ready")


def _key(directory: Path) -> Path:
    """Create the key that signs tokens."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    file = directory / "sa.key"
    if not file.exists():
        pem, pkcs8, open_ = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file.write_bytes(rsa.generate_private_key(65537, 2048).private_bytes(pem, pkcs8, open_))
    return file


@dataclass(slots=True)
class Difference:
    case: FieldCase
    lines: list[str]


@dataclass(slots=True)
class Report:
    asked: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)


@contextlib.contextmanager
def start_both(directory: Path, *flags: str) -> Iterator[tuple[Server, Server]]:
    """Start the real server and ours, each with an object of every kind."""
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    given = (*FLAGS, f"--token-auth-file={tokens}", *flags)
    (directory / "ours").mkdir()
    with (
        RealServer(directory, *given) as real,
        Child(directory / "ours", "--storage=memory", *given) as child,
        contextlib.closing(real.server()) as theirs,
        contextlib.closing(Server(http.client.HTTPConnection(urlsplit(child.url).netloc, timeout=60))) as ours,
    ):
        for server in (theirs, ours):
            make_seeds(server)
        yield theirs, ours


def make_seeds(server: Server) -> None:
    """Create an object of each kind that has a seed."""
    for case in Requests(1).seeds():
        server.ask(case.method, case.target, json.loads(case.data.partition(b"\r\n\r\n")[2]))


def _without_random(case: FieldCase, answer: dict[str, Any]) -> dict[str, Any]:
    pattern, _ = RANDOM.get(case.field.split(" ")[1], (None, ""))
    found: dict[str, Any] = answer if pattern is None else json.loads(pattern.sub("<random>", json.dumps(answer)))
    return found


def compare(
    pair: tuple[Server, Server], asked: Iterator[FieldCase], notify: Callable[[Difference], None] = lambda _: None
) -> Report:
    """Send each case to both servers; collect the differences, and notify about each."""
    report = Report()
    for case in asked:
        if case.field.split(" ")[1] in APART:
            continue
        theirs, ours = (_without_random(case, server.asked(case)) for server in pair)
        report.asked += 1
        report.statuses[theirs["status"]] = report.statuses.get(theirs["status"], 0) + 1
        if lines := list(differences(theirs, ours)):
            report.differences.append(Difference(case, lines))
            notify(report.differences[-1])
    return report


def _chosen(given: argparse.Namespace, ours: Server) -> Iterator[FieldCase]:
    """Return the cases of the command line; our server decides which values are valid alone."""
    if given.pairs:
        return pairs(given.seed, given.pairs, lambda case: ours.asked(case)["status"] < 300, given.kinds, given.first)
    return cases(given.kinds, given.fields)


def _print(difference: Difference) -> None:
    print(f"{difference.case.method} {difference.case.field} = {json.dumps(difference.case.value)}")
    print(*(f"    {line}" for line in difference.lines[:4]), sep="\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.beside", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kinds", default="", metavar="REGEX", help="of GROUP/VERSION/PLURAL")
    parser.add_argument("--fields", default="", metavar="REGEX", help="of a field's steps, joined by /")
    parser.add_argument("--gates", choices=("default", "all"), default="default")
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="send this many random pairs of fields")
    parser.add_argument("--seed", type=int, default=1, help="seed of the pairs")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="number of the first pair")
    given = parser.parse_args()
    if missing := [name for name in BINARIES if shutil.which(name) is None]:
        print(f"not on PATH: {', '.join(missing)}", file=sys.stderr)
        return 2
    gates = ALL_GATES if given.gates == "all" else ()
    with tempfile.TemporaryDirectory() as temporary, start_both(Path(temporary), *gates) as pair:
        report = compare(pair, _chosen(given, pair[1]), _print)
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(report.statuses.items()))
    print(f"{report.asked} requests ({statuses}), {len(report.differences)} answered differently")
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
