"""`python -m controllers --server URL | --kubeconfig FILE`: run the components as a separate process.

Exit codes: 0 after SIGINT or SIGTERM, 1 after losing the lease (a supervisor should restart it), 2 for invalid input.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from controllers.manager.flags import read
from controllers.manager.instance import CredentialsError, Instance
from controllers.options.command_line import FlagError, Flags
from controllers.options.follow import follow_server
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.election import LeaseLostError
from controllers.runtime.health import answering
from controllers.runtime.http import HttpTransport
from controllers.runtime.rate_limit import RateLimitedTransport
from kubedra.kubeconfig.reader import KubeconfigError


async def serve(flags: Flags) -> None:
    """Run until SIGINT or SIGTERM. A second signal exits immediately."""
    unlimited = Client(HttpTransport(flags.cluster))
    client = Client(RateLimitedTransport(unlimited.transport, *flags.rate_limit)) if flags.rate_limit else unlimited

    async def resolve(client: Client, options: Options) -> tuple[Client, Options]:
        connected, found = await follow_server(client, options, is_release_set=flags.is_release_set)
        return connected, _with_scheduler(found, flags)

    # The rate limit must not delay lease renewals.
    instance = Instance(
        client, flags.options, flags.names, flags.election, flags.cluster.server, renewing=unlimited, resolve=resolve
    )

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(answering(flags.health, instance.unready, instance.metrics))
            except OSError as error:
                raise FlagError(f"--healthz-bind-address: {error.strerror or error}") from error
            await instance.run()

    running = asyncio.ensure_future(run())
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if stopped:
            os._exit(130)
        stopped = True
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop)
    try:
        await running
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        await client.close()


def _with_scheduler(options: Options, flags: Flags) -> Options:
    """Load the scheduler's configuration with the resolved feature gates. Raise FlagError."""
    path = flags.scheduler_config
    if path is None:
        return options
    from controllers.scheduler.cycle.profiles import load

    try:
        return replace(options, scheduler=load(path, options.features.enabled))
    except (ValueError, OSError) as error:
        raise FlagError(f"--config: {error}") from error


def run(read_flags: Callable[[], Flags], prog: str, fatal: type[Exception] = LeaseLostError) -> int:
    """Parse the flags and serve. Return the exit code: 2 for bad flags, 1 after `fatal` or a lost lease."""
    runner = asyncio.run
    with contextlib.suppress(ImportError):
        import uvloop

        runner = uvloop.run
    try:
        try:
            flags = read_flags()
        except (KubeconfigError, OSError) as error:
            raise FlagError(" ".join(str(error).split())) from error
        logging.basicConfig(
            level=(logging.WARNING, logging.INFO, logging.DEBUG)[min(flags.verbosity, 2)],
            format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
        )
        logging.getLogger("hpack").setLevel(logging.INFO)
        runner(serve(flags))
    except (FlagError, CredentialsError) as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return 2
    except (LeaseLostError, fatal) as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return run(lambda: read(arguments), os.environ.get("KUBEDRA_PROG", "python -m controllers"))
