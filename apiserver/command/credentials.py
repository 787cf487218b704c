"""`kubedra credentials --dir DIR`: create the credentials of a server beyond loopback, once.

    tls.crt, tls.key         a self-signed certificate for every --host; renewed when it expires or a host is new
    tokens.csv               for --token-auth-file: one token for people, one for the controllers
    kubeconfig               for people: --server, the certificate, the token
    controllers.kubeconfig   the same for the controllers, at --internal-server
    postgres-password, pgpass    with --postgres-user: a password, and libpq's file with it

With --share every other directory gets copies of only the files that one service needs.

Existing files are kept, so that the command can run before every start. Only their owner can read the secrets.
"""

from __future__ import annotations

import argparse
import csv
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from apiserver.authentication.authenticator import TokenFileError, read_tokens
from apiserver.command import kubeconfig
from apiserver.tls.self_signed import load_or_create_certificate
from kubedra.command.arguments import Parser, program
from kubedra.runtime import extras
from kubedra.runtime import private_files as private

#: The users of the tokens: user name and uid. Both have all permissions.
USERS = {"admin": "kubernetes-admin", "controllers": "kubedra-controllers"}


class _Parser(Parser):
    def fail(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    prog = program("python -m apiserver.command.credentials")
    assert __doc__ is not None
    parser = _Parser(
        prog=prog,
        description=__doc__.partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`kubedra credentials FLAGS -- COMMAND …` runs another kubedra command afterwards.",
    )
    parser.add_argument("--dir", type=Path, required=True, metavar="DIR", help="directory of the credentials")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME|IP",
        help="name or address of the server besides localhost; repeatable",
    )
    parser.add_argument(
        "--server",
        default="https://127.0.0.1:6443",
        metavar="URL",
        help="address of the server in the users' kubeconfig (default https://127.0.0.1:6443)",
    )
    parser.add_argument(
        "--internal-server",
        default="",
        metavar="URL",
        help="address in the controllers' kubeconfig (default: --server)",
    )
    parser.add_argument(
        "--postgres-user", default="", metavar="NAME", help="also generate a database password for this user"
    )
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="FILE,…=DIR",
        help="copy these files to another directory; repeatable",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    prog = program("python -m apiserver.command.credentials")
    try:
        given = _parser().parse_args(arguments)
        create_credentials(
            given.dir,
            [host for host in given.host if host],
            given.server,
            given.internal_server or given.server,
            given.postgres_user,
        )
        for text in given.share:
            share(given.dir, text)
    except (OSError, ValueError, TokenFileError) as error:
        print(f"{prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def create_credentials(
    directory: Path, hosts: Sequence[str], server: str, internal: str, postgres_user: str = ""
) -> None:
    """Create the missing files. Raise OSError and ValueError."""
    for url in (server, internal):
        if not url.startswith("https://"):
            raise ValueError(f"--server {url}: not an https:// address")
    private.make_directory(directory)
    authority = load_or_create_certificate(directory, *hosts)[0].read_bytes()
    tokens = _tokens(directory / "tokens.csv")
    for name, url, user in (("kubeconfig", server, "admin"), ("controllers.kubeconfig", internal, "controllers")):
        kubeconfig.write(directory / name, url, token=tokens[USERS[user]], ca=authority)
    if postgres_user:
        password = _read_or_create(directory / "postgres-password", secrets.token_urlsafe(32))
        _read_or_create(directory / "pgpass", f"*:*:*:{postgres_user}:{password}\n")


def share(directory: Path, text: str) -> None:
    """Copy files to another directory: "FILE,…=DIR". Raise OSError and ValueError."""
    files, separator, target = text.partition("=")
    names = [name for name in files.split(",") if name]
    if not (separator and target and names):
        raise ValueError(f"--share {text}: write it like tls.crt,tls.key=DIR")
    private.make_directory(Path(target))
    for name in names:
        source = directory / name
        if Path(name).name != name or not source.is_file():
            raise ValueError(f"--share {text}: {name} not found in {directory}")
        private.write(Path(target) / name, source.read_bytes())


def _tokens(path: Path) -> dict[str, str]:
    """Return tokens by user name, from the file or new."""
    if not path.exists():
        rows = [[secrets.token_urlsafe(32), user, user, "system:masters"] for user in USERS.values()]
        _read_or_create(path, "".join(f"{','.join(row)}\n" for row in rows))
    with path.open(newline="") as file:
        tokens = {row[1]: row[0] for row in csv.reader(file) if len(row) > 1}
    read_tokens(path)
    if missing := [user for user in USERS.values() if user not in tokens]:
        raise ValueError(f"{path}: no token for {', '.join(missing)}; remove the file to create new ones")
    return tokens


def _read_or_create(path: Path, text: str) -> str:
    """Return the content of the file; write `text` atomically if the file is missing."""
    if path.exists():
        private.close_file(path)
    else:
        private.write(path, text)
    return path.read_text()


if __name__ == "__main__":
    sys.exit(extras.run(main))
